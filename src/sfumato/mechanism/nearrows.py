"""Rows of a truncated kernel: the words within gamma one by one, and all others together.

Beyond gamma every word is equally likely, so a row is the list of the near words with their weights, and the weight that
each of the others has.  The mass of the tail is exact: so many words times that weight.  A row over millions of words
takes 12 bytes for each near one, and a draw computes no distance at all.

Which layout a mechanism has follows from public things (see :func:`is_short`), never from what is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.foundation.randomness import UInt64Array
from sfumato.mechanism.kernel import Ground
from sfumato.mechanism.rowstore import CompiledRows, Rows, RowStore, Table, batches, first_above
from sfumato.space.metric import FloatArray, IndexArray, in_threads

_WORTH_IT = 24
"""A near word takes 12 bytes, and a word of a whole row half a byte."""
_BYTES_PER_CELL = 12


def is_short(ground: Ground, weights: FloatArray) -> bool:
    """Return whether rows are short: equal weights, and few words within gamma of evenly spread input words."""
    if not ground.gamma < ground.space.statistics.diameter or len(ground.outputs) < 2 * _WORTH_IT:
        return False
    if not (weights == ground.multiplicity).all():
        return False
    return bool(ground.mean_near * _WORTH_IT < len(ground.outputs))


@dataclass(frozen=True)
class NearRows(Rows):
    """A snapshot of short rows; the heads are the near words, and there are no tails."""

    outputs: IndexArray
    far: UInt64Array
    """The weight of every other word, row by row."""

    def find(self, ids: IndexArray, numbers: UInt64Array, table: Table) -> IndexArray:
        """Return the output word each number falls on."""
        slots = self.slot[ids]
        low, high = self.head_starts[slots], self.head_starts[slots + 1]
        heads = np.zeros(len(ids), dtype=np.uint64)
        some = np.flatnonzero(high > low)  # a word may have no near one, and so may all words
        heads[some] = self.head_sums[high[some] - 1]
        columns = np.empty(len(ids), dtype=np.intp)
        near = numbers < heads
        at = first_above(self.head_sums, low[near], high[near], numbers[near])
        columns[near] = self.head_cells[at]
        away = ~near
        rank = ((numbers[away] - heads[away]) // self.far[slots[away]]).astype(np.int64)
        columns[away] = rank + _before(self.head_cells, low[away], high[away], rank)
        return self.outputs[columns]


def _before(
    cells: npt.NDArray[np.int32], low: npt.NDArray[np.int64], high: npt.NDArray[np.int64], rank: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return how many of the sorted cells of each segment lie before the column of that rank among all other columns.

    >>> _before(np.array([1, 2, 5], dtype=np.int32), np.array([0, 0]), np.array([3, 3]), np.array([0, 1])).tolist()
    [0, 2]
    """
    start, low, high = low, low.copy(), high.copy()
    while (open_ := low < high).any():
        middle = (low + high) >> 1
        at = np.minimum(middle, len(cells) - 1)  # there is a cell, since a segment is open
        passed = open_ & (cells[at] - (middle - start) <= rank)
        np.copyto(low, middle + 1, where=passed)
        np.copyto(high, middle, where=open_ & ~passed)
    return low - start


class NearRowStore(RowStore):
    """Short rows compiled so far, within a memory limit."""

    def __init__(self, words: int, memory: int, ground: Ground) -> None:
        super().__init__(words, memory)
        self._ground = ground
        self._bytes_per_row = int(_BYTES_PER_CELL * 2 * ground.mean_near) + 64
        self._keep(self._none())

    def _none(self) -> NearRows:
        none = np.empty(0, dtype=np.uint64)
        start = np.zeros(1, dtype=np.int64)
        return NearRows(
            np.full(self._words + 1, -1, np.int32), none, np.empty(0), start, none, np.empty(0, np.int32), start, none,
            self._ground.outputs, none,
        )  # fmt: skip

    def _groups(self, distinct: IndexArray, columns: int) -> Iterator[IndexArray]:
        step = max(1, self._memory // self._bytes_per_row)
        for start in range(0, len(distinct), step):
            yield distinct[start : start + step]

    def rows(self, distinct: IndexArray, table: Table) -> Rows:
        """Return a snapshot that has a row for every id, compiling what is missing."""
        kept = self._rows
        assert isinstance(kept, NearRows)
        missing = distinct[kept.slot[distinct] < 0]
        if len(missing) == 0:
            return kept
        if kept.head_sums.nbytes + kept.head_cells.nbytes > self._memory:
            kept, missing = self._none(), distinct
        parts = list(in_threads(lambda ids: _short(table.compile_rows(ids)), batches(missing, table), None))
        slot = kept.slot.copy()
        slot[missing] = len(kept.totals) + np.arange(len(missing))
        self._rows = _joined(kept, parts, slot)
        return self._rows


_Short = tuple[UInt64Array, UInt64Array, IndexArray, npt.NDArray[np.int32], UInt64Array]


def _short(compiled: CompiledRows) -> _Short:
    """Return totals, far weights, and counts, columns and summed weights of the near words of some rows."""
    weights = compiled.weights
    far = weights.min(axis=1)
    row, column = np.nonzero(weights != far[:, None])
    counts = np.bincount(row, minlength=len(weights))
    running = np.cumsum(weights[row, column], dtype=np.uint64)
    before = np.concatenate([np.zeros(1, np.uint64), running])[np.cumsum(counts) - counts]
    sums = running - np.repeat(before, counts)  # modulo 2**64, see rowstore
    return weights.sum(axis=1, dtype=np.uint64), far, counts, column.astype(np.int32), sums


def _joined(kept: NearRows, parts: Sequence[_Short], slot: npt.NDArray[np.int32]) -> NearRows:
    totals, far, counts, cells, sums = (
        np.concatenate([before, *(part[place] for part in parts)])
        for place, before in enumerate(
            (kept.totals, kept.far, np.diff(kept.head_starts), kept.head_cells, kept.head_sums)
        )
    )
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return NearRows(
        slot,
        totals,
        kept.norms,
        starts,
        sums,
        cells.astype(np.int32),
        kept.tail_starts,
        kept.tail_sums,
        kept.outputs,
        far,
    )
