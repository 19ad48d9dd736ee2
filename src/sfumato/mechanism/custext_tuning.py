"""Ways to fill CusText's groups with probabilities, all with the same promise inside a group.

* ``published``: P(y|x) proportional to exp(epsilon u(x, y) / 2), where u is the similarity of x and y, min-max normalised to
  [0, 1] over the outputs of x.  True, but it realises much less than epsilon: the rest is wasted.
* ``calibrated``: the same with the greatest rate found, group by group, at which the loss is within epsilon.
* ``lp``: the distribution with the least expected distance that has m(y) <= P(y|x) <= e^epsilon m(y) for some m, a linear
  program for each group (Bordenabe, Chatzikokolakis and Palamidessi 2014 do the same for locations).

The loss is always measured on the integer weights that run; how a row was found is never trusted.  A word that is alone in its
group keeps its published row under every tuning: no row would protect it, and none is wrong for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sfumato.foundation.randomness import UInt64Array
from sfumato.mechanism.custext_mapping import Mapping
from sfumato.mechanism.integers import to_weights
from sfumato.space import Space
from sfumato.space.metric import FloatArray, IndexArray

TUNINGS = ("calibrated", "lp", "published")
LOG_ERROR = 1e-13
"""More than float64 logarithms of 63-bit integers, and differences of four of them, can be wrong by."""
_RATE_STEPS = 40
_MIX_STEPS = 40

if TYPE_CHECKING:
    from scipy import sparse


@dataclass(frozen=True, eq=False)
class Scores:
    """What the probabilities of every word's outputs follow from; rows are words, columns the outputs of their group."""

    utilities: FloatArray
    """Similarity, normalised to [0, 1] over each row."""
    costs: FloatArray
    """Distance (one minus the cosine where that is the similarity)."""
    is_output: npt.NDArray[np.bool_]
    """False in the columns that only fill up a smaller output set."""


def scores_of(space: Space, mapping: Mapping, cosine: bool) -> Scores:
    """Return the scores of every word; ``space`` measures similarity."""
    shape = (len(mapping.inputs), mapping.output_sets.shape[1])
    costs, tolerance = np.zeros(shape), np.zeros(shape[0])
    points = space.points
    for group in range(len(mapping)):
        members = mapping.members(group)
        outputs = mapping.outputs_of(group)
        distances = space.geometry.block(points[mapping.inputs[members]], points[outputs])
        error = space.geometry.error(float(distances.max()))
        costs[members, : len(outputs)] = 1.0 - np.cos(distances) if cosine else distances
        tolerance[members] = 4 * error
    is_output = (mapping.output_sets >= 0)[mapping.group_numbers]
    return Scores(_normalised(costs, is_output, tolerance), costs, is_output)


def _normalised(costs: FloatArray, is_output: npt.NDArray[np.bool_], tolerance: FloatArray) -> FloatArray:
    """Return similarity on a scale from 0 (the farthest output) to 1; equal distances are all worth the same."""
    nearest = np.where(is_output, costs, np.inf).min(axis=1)[:, None]
    farthest = np.where(is_output, costs, -np.inf).max(axis=1)[:, None]
    span = farthest - nearest
    equal = span[:, 0] <= tolerance
    span[equal] = 1.0
    utilities = (farthest - costs) / span
    utilities[equal] = 1.0
    return np.asarray(np.clip(utilities, 0.0, 1.0))


def exponential_weights(scores: Scores, rates: FloatArray) -> UInt64Array:
    """Return integer weights for exp(rate u), one rate for each row; columns that fill up get no weight."""
    kernel = np.exp(rates[:, None] * (scores.utilities - 1.0))
    kernel[~scores.is_output] = 0.0
    return _weights(kernel, scores.is_output)


def _weights(kernel: FloatArray, is_output: npt.NDArray[np.bool_]) -> UInt64Array:
    weights = to_weights(kernel)
    weights[~is_output] = 0
    return weights


def group_losses(weights: UInt64Array, mapping: Mapping) -> FloatArray:
    """Return for every group an upper bound on the greatest log-ratio between two of its rows."""
    totals = weights.sum(axis=1, dtype=np.uint64).astype(np.float64)
    logs = np.log(np.maximum(weights, np.uint64(1)).astype(np.float64)) - np.log(totals)[:, None]
    logs[weights == 0] = 0.0
    logs = logs[mapping.order]
    highest = np.maximum.reduceat(logs, mapping.starts, axis=0)
    lowest = np.minimum.reduceat(logs, mapping.starts, axis=0)
    losses = (highest - lowest).max(axis=1)
    return np.where(losses > 0, losses + LOG_ERROR, 0.0)


def calibrated_weights(scores: Scores, mapping: Mapping, published_rate: float, target: float) -> UInt64Array:
    """Return the rows with the greatest rate, group by group, whose loss on the integers is at most ``target``.

    The rate is bisected as x / (1 - x) times the published one.  The loss is not assumed to grow with the rate: the rate
    that is used was itself found to be within the target.
    """
    low, high = np.zeros(len(mapping)), np.ones(len(mapping))
    for _ in range(_RATE_STEPS):
        middle = (low + high) / 2
        rates = published_rate * middle / (1.0 - middle)
        held = group_losses(exponential_weights(scores, rates[mapping.group_numbers]), mapping) <= target
        low = np.where(held, middle, low)
        high = np.where(held, high, middle)
    low[mapping.sizes == 1] = 0.5
    rates = published_rate * low / (1.0 - low)
    return exponential_weights(scores, rates[mapping.group_numbers])


def least_cost_weights(costs: FloatArray, points: IndexArray, target: float) -> UInt64Array:
    """Return the rows of one group with the least expected cost whose loss on the integers is at most ``target``.

    ``points`` says which rows belong to words with the same vector; these get the same row.
    """
    _, first, inverse, counts = np.unique(points, return_index=True, return_inverse=True, return_counts=True)
    table = _solve(costs[first], counts.astype(np.float64), target)
    return _within(table, target)[inverse.ravel()]


def _solve(costs: FloatArray, counts: FloatArray, epsilon: float) -> FloatArray:
    """Return the solution of the linear program, as exact as the solver is; a uniform table where it gives up.

    The unknowns are the probabilities and, for each output, the greatest of its column.
    """
    rows, columns = costs.shape
    scaled = (counts[:, None] * costs).ravel() / max(float(costs.max()), 1e-300) / counts.sum()
    below, equal = _constraints(rows, columns, float(np.exp(-epsilon)))
    from scipy.optimize import linprog  # it takes most of a second to import, and only this tuning needs it

    solution = linprog(
        np.concatenate([scaled, np.zeros(columns)]),
        A_ub=below,
        b_ub=np.zeros(below.shape[0]),
        A_eq=equal,
        b_eq=np.ones(rows),
        bounds=(0, None),
        method="highs",
    )
    if solution.x is None:
        return np.full(costs.shape, 1.0 / columns)
    return np.asarray(np.maximum(solution.x[: rows * columns].reshape(rows, columns), 0.0))


@lru_cache(maxsize=64)
def _constraints(rows: int, columns: int, ratio: float) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """Return the matrices of ``P <= M``, ``ratio M <= P`` (as ``A x <= 0``) and of the row sums."""
    from scipy import sparse

    cells = sparse.identity(rows * columns, format="csr")
    greatest = sparse.kron(np.ones((rows, 1)), sparse.identity(columns), format="csr")
    below = sparse.vstack([sparse.hstack([cells, -greatest]), sparse.hstack([-cells, ratio * greatest])])
    sums = sparse.kron(sparse.identity(rows), np.ones((1, columns)))
    return below.tocsr(), sparse.hstack([sums, sparse.csr_matrix((rows, columns))]).tocsr()


def _within(table: FloatArray, target: float) -> UInt64Array:
    """Return integer rows near ``table`` whose loss is at most ``target``.

    Cells that the solver left too small are raised.  What still exceeds the target by the solver's tolerance is mixed with
    the mean row, by the least share found that suffices; a share of one makes all rows equal, which loses nothing.
    """
    table = np.maximum(table, table.max(axis=0) * np.exp(-target))
    table /= table.sum(axis=1)[:, None]
    mean = table.mean(axis=0)

    def mixed(share: float) -> UInt64Array:
        return to_weights((1.0 - share) * table + share * mean)

    weights = mixed(0.0)
    if _loss(weights) <= target:
        return weights
    low, high = 0.0, 1.0
    for _ in range(_MIX_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if _loss(mixed(middle)) <= target else (middle, high)
    return mixed(high)


def _loss(weights: UInt64Array) -> float:
    rows = len(weights)
    everything = Mapping(np.arange(rows), np.zeros(rows, dtype=np.intp), np.zeros((1, weights.shape[1]), dtype=np.intp))
    return float(group_losses(weights, everything)[0])
