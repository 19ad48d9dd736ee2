"""Compiled rows side by side in flat arrays, so that the tokens of a whole batch are drawn together.

A row is laid out as its *head* (cells of at least 2**-22 of the row's total, in public order) followed by its *tail* (the
rest, in public order).  Only heads are kept; the tail's exact mass is known, and a draw that falls into it (less than
one in fifty for 80,000 words) has its row compiled again.  The layout, and with it the outcome of a draw, does not
depend on what is in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.foundation.randomness import UInt64Array
from sfumato.space.metric import IndexArray

HEAD_SHARE_BITS = 22
_BYTES_PER_CELL = 12
_BATCH_CELLS = 2_000_000


@dataclass(frozen=True)
class Rows:
    """A snapshot of compiled rows."""

    slot: npt.NDArray[np.int32]
    """Row number of every input word, -1 where there is none."""
    starts: npt.NDArray[np.int64]
    """Where each row's head begins; one more at the end."""
    cumulative: UInt64Array
    """Weights of the heads, summed up within each row."""
    cells: npt.NDArray[np.int32]
    totals: UInt64Array

    def totals_of(self, ids: IndexArray) -> UInt64Array:
        """Return row totals; meaningless for ids without a row."""
        if len(self.totals) == 0:
            return np.ones(len(ids), dtype=np.uint64)
        return self.totals[self.slot[ids]]

    def head_of(self, ids: IndexArray) -> UInt64Array:
        """Return the mass of the heads."""
        return self.cumulative[self.starts[self.slot[ids] + 1] - 1]

    def find(self, ids: IndexArray, numbers: UInt64Array) -> tuple[IndexArray, IndexArray]:
        """Return the cell each number falls in, and the places of the numbers that fall behind a head."""
        if len(ids) == 0:
            return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
        slots = self.slot[ids]
        low, high = self.starts[slots], self.starts[slots + 1]
        missed = np.flatnonzero(numbers >= self.cumulative[high - 1])
        high -= 1
        # Binary search in all rows at once for the first cumulative weight above the number.
        while True:
            open_ = low < high
            if not open_.any():
                break
            middle = (low + high) >> 1
            above = self.cumulative[middle] > numbers
            high = np.where(open_ & above, middle, high)
            low = np.where(open_ & ~above, middle + 1, low)
        return self.cells[low].astype(np.intp), missed


class RowStore:
    """Rows compiled so far, within a memory limit."""

    def __init__(self, words: int, memory: int) -> None:
        self._limit = max(memory // _BYTES_PER_CELL, 1)
        self._words = words
        self._used = 0
        self._rows = self._empty()

    def _empty(self) -> Rows:
        return Rows(
            np.full(self._words + 1, -1, dtype=np.int32),
            np.zeros(1, dtype=np.int64),
            np.empty(0, dtype=np.uint64),
            np.empty(0, dtype=np.int32),
            np.empty(0, dtype=np.uint64),
        )

    @staticmethod
    def in_head(weights: UInt64Array) -> npt.NDArray[np.bool_]:
        """Return which cells of each row belong to its head."""
        cutoff = weights.sum(axis=1, dtype=np.uint64) >> np.uint64(HEAD_SHARE_BITS)
        return np.asarray(weights >= np.maximum(cutoff, np.uint64(1))[:, None])

    def rows(self, ids: IndexArray, compile_rows: Callable[[IndexArray], tuple[IndexArray, UInt64Array]]) -> Rows:
        """Return a snapshot that has a row for every id, compiling what is missing."""
        missing = np.unique(ids[self._rows.slot[ids] < 0])
        if len(missing) == 0:
            return self._rows
        if self._used > self._limit:  # start anew with what this batch needs
            self._rows, self._used = self._empty(), 0
            missing = np.unique(ids)
        old = self._rows
        slot = old.slot.copy()
        counts, cumulative, cells, totals = [], [old.cumulative], [old.cells], [old.totals]
        start = 0
        step = 64
        while start < len(missing):
            chosen = missing[start : start + step]
            row_cells, weights = compile_rows(chosen)
            head = self.in_head(weights)
            count = head.sum(axis=1)
            flat = weights[head]
            cumulative.append(_running_sums(flat, count))
            cells.append(row_cells[head].astype(np.int32))
            totals.append(weights.sum(axis=1, dtype=np.uint64))
            counts.append(count)
            slot[chosen] = len(old.totals) + start + np.arange(len(chosen))
            start += len(chosen)
            step = max(1, min(4096, _BATCH_CELLS // weights.shape[1]))
        ends = old.starts[-1] + np.cumsum(np.concatenate(counts))
        self._rows = Rows(
            slot,
            np.concatenate([old.starts, ends]).astype(np.int64),
            np.concatenate(cumulative),
            np.concatenate(cells),
            np.concatenate(totals),
        )
        self._used = len(self._rows.cells)
        return self._rows


def _running_sums(flat: UInt64Array, counts: npt.NDArray[np.intp]) -> UInt64Array:
    """Return running sums that start anew with every row.

    The global running sum may wrap around 2**64; taking away the row's offset, modulo 2**64, still gives the row's own.
    """
    running = np.cumsum(flat, dtype=np.uint64)
    before = np.concatenate([[np.uint64(0)], running])[np.cumsum(counts) - counts]
    return np.asarray(running - np.repeat(before, counts))
