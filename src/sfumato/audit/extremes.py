"""The greatest log-ratio within a set of rows, found column by column.

For a promise that is the same for every pair of words the worst output is the one whose greatest and least probability are
farthest apart: a pass over the rows in place of one over all pairs.  The pair that is found is then compared in exact rationals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.foundation.randomness import UInt64Array
from sfumato.mechanism.base import TableMechanism
from sfumato.space.metric import FloatArray, IndexArray

LOG_ERROR = 1e-13
"""More than float64 logarithms of 63-bit integers, and differences of four of them, can be wrong by."""
_NEARLY_WORST = 1000


@dataclass(frozen=True)
class Aligned:
    """Rows of weights over common columns, whatever cells each row has."""

    weights: UInt64Array
    columns: IndexArray
    """Positions of the output words."""
    totals: UInt64Array
    """Sums of the whole rows, which can have cells outside the columns."""

    @property
    def logs(self) -> FloatArray:
        """Logarithms of the probabilities."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.weights.astype(np.float64)) - np.log(self.totals.astype(np.float64))[:, None])


def aligned(mechanism: TableMechanism, ids: IndexArray, only: IndexArray | None = None) -> Aligned:
    """Return the rows of some words over common columns: all that occur, or only the given ones."""
    cells = mechanism.cells(ids)
    weights = mechanism.weights(ids)
    totals = weights.sum(axis=1, dtype=np.uint64)
    if cells is None:
        return Aligned(weights, mechanism.outputs, totals)
    columns, place = np.unique(cells, return_inverse=True)
    common = np.zeros((len(ids), len(columns)), dtype=np.uint64)
    np.add.at(common, (np.arange(len(ids))[:, None], place.reshape(cells.shape)), weights)
    if only is None:
        return Aligned(common, columns, totals)
    inside = np.isin(columns, only)
    return Aligned(common[:, inside], columns[inside], totals)


def exact_loss(rows: Aligned, one: int, other: int) -> tuple[float, int]:
    """Return the greatest log-ratio of two rows and its column, from exact rationals."""
    first, second = rows.weights[one], rows.weights[other]
    with np.errstate(divide="ignore", invalid="ignore"):
        screen = np.log(first.astype(np.float64)) - np.log(second.astype(np.float64))
    screen[first == 0] = -np.inf
    near = np.flatnonzero(screen >= screen.max() - 1e-9)[:_NEARLY_WORST]
    totals = Fraction(int(rows.totals[other]), int(rows.totals[one]))
    best, column = Fraction(0), int(near[0])
    for place in near.tolist():
        if int(first[place]) == 0:
            continue
        if int(second[place]) == 0:
            return math.inf, place
        ratio = Fraction(int(first[place]), int(second[place])) * totals
        if ratio > best:
            best, column = ratio, place
    if best == 0:
        return -math.inf, column
    excess = best - 1
    loss = math.log1p(float(excess)) if abs(excess) < 1 else math.log(best.numerator) - math.log(best.denominator)
    return loss, column


@dataclass(frozen=True)
class Worst:
    """The pair of words and the output with the greatest log-ratio."""

    bound: float
    realised: float
    first: int
    second: int
    output: int


class Extremes:
    """The greatest and the least probability of every output, over rows that come block by block."""

    def __init__(self, columns: IndexArray) -> None:
        self._columns = columns
        self._highest = np.full(len(columns), -np.inf)
        self._lowest = np.full(len(columns), np.inf)
        self._most_likely = np.zeros(len(columns), dtype=np.intp)
        self._least_likely = np.zeros(len(columns), dtype=np.intp)

    def add(self, ids: IndexArray, rows: Aligned) -> None:
        """Take the rows of some words into account."""
        logs, every = rows.logs, np.arange(len(self._columns))
        for row, better, extreme, at in (
            (logs.argmax(axis=0), np.greater, self._highest, self._most_likely),
            (logs.argmin(axis=0), np.less, self._lowest, self._least_likely),
        ):
            values = logs[row, every]
            new = better(values, extreme)
            extreme[new] = values[new]
            at[new] = ids[row[new]]

    def gap(self) -> tuple[float, int, int]:
        """Return the greatest log-ratio and the two words it is between."""
        possible = np.isfinite(self._highest)
        gaps = np.zeros(len(self._columns))
        gaps[possible] = self._highest[possible] - self._lowest[possible]
        column = int(gaps.argmax())
        return float(gaps[column]), int(self._most_likely[column]), int(self._least_likely[column])


def worst_of_all(mechanism: TableMechanism, ids: IndexArray, step: int) -> Worst:
    """Return the worst pair among some words of a mechanism, compiling a few rows at a time.

    All rows must have the same columns unless they are compiled in one step.
    """
    extremes: Extremes | None = None
    for start in range(0, len(ids), step):
        block = ids[start : start + step]
        rows = aligned(mechanism, block)
        extremes = extremes or Extremes(rows.columns)
        extremes.add(block, rows)
    assert extremes is not None
    gap, first, second = extremes.gap()
    rows = aligned(mechanism, np.array([first, second]))
    loss, column = exact_loss(rows, 0, 1)
    bound = max(loss, gap + LOG_ERROR) if gap > 0 else 0.0
    return Worst(bound, max(loss, 0.0), first, second, int(rows.columns[column]))
