"""Compiled rows side by side in flat arrays, so that the tokens of a whole batch are drawn together.

A row is laid out as its *head* (cells of at least 2**-10 of the row's total, in public order) followed by its *tail* (the
rest, in public order, in blocks of 16 cells).  Kept in memory are the running sums of the head's cells and of the tail's
blocks; a draw that falls into a block has that block's 16 weights computed again.  A row of 40,000 words then takes
20 kB in place of 480 kB.  The rows that come first, which are mostly those of frequent words, also get *marks*
(:mod:`sfumato.mechanism.marks`), with which a block's weights are hardly ever needed.  The layout, and with it the outcome of
a draw, does not depend on what is in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sfumato.foundation.errors import ParameterError
from sfumato.foundation.randomness import UInt64Array
from sfumato.mechanism.growing import Growing
from sfumato.mechanism.marks import Marks, cells_by_marks, marks_of
from sfumato.space.metric import FloatArray, IndexArray, in_threads

HEAD_BITS = 10
BLOCK = 16
_BATCH_CELLS = 400_000
_LEAST_ROWS = 8
"""Worked on together even where they are long: all points have to be read for them."""
_TAILS_AT_ONCE = 4096
_SEARCHED_AT_ONCE = 16384
_SHORT = 16


@dataclass(frozen=True)
class CompiledRows:
    """Some rows as a table makes them."""

    cells: IndexArray
    """Positions of the output words: one row each, or a single one that all rows share."""
    weights: UInt64Array
    norms: FloatArray
    """What each row was divided by, for tables that can compute a block again from it."""
    shared: bool = False
    """Whether *every* row of the table has these cells.

    The table has to say so: a batch of one row looks the same, and taking its cells for those of all words would draw
    other words from the outputs of that one.
    """

    def __post_init__(self) -> None:
        rows = 1 if self.shared else len(self.weights)
        if self.cells.shape != (rows, self.weights.shape[1]):
            raise ParameterError(
                f"{len(self.weights)} rows of {self.weights.shape[1]} weights came with cells of shape "
                f"{self.cells.shape}; give one row of cells for each, or a single one with shared=True"
            )


class Table(Protocol):
    """What a row store needs of a mechanism."""

    def compile_rows(self, ids: IndexArray) -> CompiledRows:
        """Return whole rows."""
        ...

    def block_weights(self, ids: IndexArray, blocks: IndexArray, norms: FloatArray) -> tuple[IndexArray, UInt64Array]:
        """Return the cells and weights of one block of :data:`BLOCK` columns for each id; the caller may overwrite them."""
        ...


@dataclass(frozen=True)
class Rows:
    """A snapshot of compiled rows."""

    slot: npt.NDArray[np.int32]
    """Row number of every input word, -1 where there is none."""
    totals: UInt64Array
    norms: FloatArray
    head_starts: npt.NDArray[np.int64]
    """Where each row's head begins; one more at the end."""
    head_sums: UInt64Array
    """Weights of the heads, summed up within each row; an empty head counts as one cell of weight 0."""
    head_cells: npt.NDArray[np.int32]
    tail_starts: npt.NDArray[np.int64]
    tail_sums: UInt64Array
    """Weights of the blocks of the tails, summed up within each row."""
    marks: Marks = field(kw_only=True, default_factory=lambda: np.empty((0, BLOCK), dtype=np.uint16))
    """Of the first blocks in :attr:`tail_sums`, as far as there are any."""
    columns: IndexArray = field(kw_only=True, default_factory=lambda: np.empty(0, dtype=np.intp))
    """Where there are marks: the output word of every column, which is the same in all rows."""

    def find(self, ids: IndexArray, numbers: UInt64Array, table: Table) -> IndexArray:
        """Return the output word each number falls on."""
        slots = self.slot[ids]
        low, high = self.head_starts[slots], self.head_starts[slots + 1]
        heads = self.head_sums[high - 1]
        drawn = self.head_cells[first_above(self.head_sums, low, high, numbers)].astype(np.intp)
        behind = np.flatnonzero(numbers >= heads)
        if len(behind):
            drawn[behind] = self._find_in_tails(ids[behind], numbers[behind] - heads[behind], table)
        return drawn

    def _find_in_tails(self, ids: IndexArray, numbers: UInt64Array, table: Table) -> IndexArray:
        slots = self.slot[ids]
        starts = self.tail_starts[slots]
        places = first_above(self.tail_sums, starts, self.tail_starts[slots + 1], numbers)
        before = np.where(places > starts, self.tail_sums[np.maximum(places, 1) - 1], np.uint64(0))
        numbers = numbers - before
        blocks = places - starts
        drawn = np.empty(len(ids), dtype=np.intp)
        is_open = np.ones(len(ids), dtype=bool)
        marked = np.flatnonzero(places < len(self.marks))
        if len(marked):
            at = places[marked]
            cells, sure = cells_by_marks(
                self.marks.take(at, axis=0), numbers[marked], self.tail_sums[at] - before[marked]
            )
            is_open[marked] = ~sure
            marked, cells = marked[sure], cells[sure]
            drawn[marked] = self.columns[blocks[marked] * BLOCK + cells]
        rest = np.flatnonzero(is_open)
        # Draws that fall into the same block are worked on together, a few at a time so that they stay in the cache.
        rest = rest[sorting(blocks[rest], int(blocks.max()))]
        for start in range(0, len(rest), _TAILS_AT_ONCE):
            part = rest[start : start + _TAILS_AT_ONCE]
            drawn[part] = self._find_in_blocks(ids[part], slots[part], blocks[part], numbers[part], table)
        return drawn

    def _find_in_blocks(
        self, ids: IndexArray, slots: npt.NDArray[np.int32], blocks: IndexArray, numbers: UInt64Array, table: Table
    ) -> IndexArray:
        cells, weights = table.block_weights(ids, blocks, self.norms[slots])
        weights[weights >= head_cutoff(self.totals[slots])[:, None]] = 0
        running = np.cumsum(weights, axis=1, dtype=np.uint64)
        column = (running <= numbers[:, None]).sum(axis=1)
        return np.asarray(cells[np.arange(len(ids)), np.minimum(column, BLOCK - 1)])


def sorting(numbers: IndexArray, most: int) -> IndexArray:
    """Return the order that sorts whole numbers up to ``most``; numbers of 16 bits are sorted without comparing them."""
    narrow = np.uint16 if most < 2**16 else np.int32
    return np.argsort(numbers.astype(narrow), kind="stable")


def head_cutoff(totals: UInt64Array) -> UInt64Array:
    """Return the least weight of a head's cell."""
    return np.asarray(np.maximum(totals >> np.uint64(HEAD_BITS), np.uint64(1)))


def first_above(
    sums: UInt64Array, low: npt.NDArray[np.int64], high: npt.NDArray[np.int64], numbers: UInt64Array
) -> npt.NDArray[np.int64]:
    """Return the first place in [low, high) whose sum is above the number, or the last place.

    Binary search, for some thousands at a time, which stay in the cache; long ranges are searched apart from short ones,
    which are done after fewer steps.
    """
    found = np.empty(len(low), dtype=np.int64)
    for start in range(0, len(low), _SEARCHED_AT_ONCE):
        part = slice(start, start + _SEARCHED_AT_ONCE)
        lengths = high[part] - low[part]
        short = lengths <= _SHORT
        if short.all() or not short.any():
            found[part] = _search(sums, low[part], high[part] - 1, numbers[part])
            continue
        for places in (start + np.flatnonzero(short), start + np.flatnonzero(~short)):
            found[places] = _search(sums, low[places], high[places] - 1, numbers[places])
    return found


def _search(
    sums: UInt64Array, low: npt.NDArray[np.int64], last: npt.NDArray[np.int64], numbers: UInt64Array
) -> npt.NDArray[np.int64]:
    """Go forward by halving steps for as long as the sum before the place stepped on is not above the number."""
    place = low.copy()
    probe = np.empty_like(place)
    for bit in reversed(range(int((last - low).max(initial=0)).bit_length())):
        np.add(place, (1 << bit) - 1, out=probe)
        np.minimum(probe, last, out=probe)
        np.add(place, 1 << bit, out=place, where=sums.take(probe) <= numbers)
    return np.minimum(place, last, out=place)


class RowStore:
    """Rows compiled so far, within a memory limit."""

    def __init__(self, words: int, memory: int) -> None:
        self._words = words
        self._memory = memory
        self._rows: Rows
        self._growing: dict[str, Growing]
        self._keep(_no_rows(words))

    def groups(self, ids: IndexArray, columns: int) -> Iterator[IndexArray]:
        """Yield sorted distinct ids in groups whose rows fit in memory together."""
        present = np.zeros(self._words + 1, dtype=bool)
        present[ids] = True
        yield from self._groups(np.flatnonzero(present), columns)

    def _groups(self, distinct: IndexArray, columns: int) -> Iterator[IndexArray]:
        per_row = 8 * (-(-columns // BLOCK)) + 12 * min(columns, 2**HEAD_BITS) // 8 + 64
        step = max(1, self._memory // 2 // per_row)
        for start in range(0, len(distinct), step):
            yield distinct[start : start + step]

    def rows(self, distinct: IndexArray, table: Table) -> Rows:
        """Return a snapshot that has a row for every id, compiling what is missing."""
        missing = distinct[self._rows.slot[distinct] < 0]
        if len(missing) == 0:
            return self._rows
        if _sizes(self._rows)[-1] > self._memory:
            # The rows that came first are mostly those of frequent words, so they stay, with all marks.
            self._keep(_first(self._rows, self._memory * 3 // 4))
            missing = distinct[self._rows.slot[distinct] < 0]
        kept = self._rows
        slot = kept.slot.copy()
        slot[missing] = len(kept.totals) + np.arange(len(missing))
        try:
            for ids, with_marks in self._split(missing, table):
                _append_rows(self._growing, ids, table, with_marks)
        except BaseException:
            self._keep(kept)
            raise
        self._rows = _rows_of(self._growing, slot)
        return self._rows

    def _keep(self, rows: Rows) -> None:
        self._rows = rows
        self._growing = _growing(rows)

    def _split(self, missing: IndexArray, table: Table) -> Iterator[tuple[IndexArray, bool]]:
        """Yield the ids whose rows get marks, and then the others; rows with marks take up to half of the memory."""
        kept = self._rows
        count = 0
        if len(kept.marks) == len(kept.tail_sums):
            room = self._memory // 2 - int(_sizes(kept)[-1])
            count = max(0, room) // (8 * 5 * -(-table.compile_rows(missing[:1]).weights.shape[1] // BLOCK))
        yield missing[:count], True
        yield missing[count:], False


class MappedRowStore(RowStore):
    """Rows of the first input words from a file, the others compiled as they occur.

    ``check`` is told the slots of the rows that are about to be used, and raises where the file has changed.
    """

    def __init__(self, words: int, memory: int, mapped: Rows, check: Callable[[npt.NDArray[np.int32]], None]) -> None:
        super().__init__(words, memory)
        self._mapped = mapped
        self._check = check

    def _groups(self, distinct: IndexArray, columns: int) -> Iterator[IndexArray]:
        # The words in the file are the first ones, so the groups stay apart by position.
        stored = self._mapped.slot[distinct] >= 0
        if stored.any():
            yield distinct[stored]
        yield from super()._groups(distinct[~stored], columns)

    def rows(self, distinct: IndexArray, table: Table) -> Rows:
        """Return a snapshot that has a row for every id."""
        slots = self._mapped.slot[distinct]
        if slots[0] < 0:
            return super().rows(distinct, table)
        self._check(slots)
        return self._mapped


def pack_rows(ids: IndexArray, table: Table, *, with_marks: bool = False) -> Rows:
    """Compile the rows of some words; ``slot`` is left empty, for the caller to number them."""
    growing = _growing(_no_rows(0))
    _append_rows(growing, ids, table, with_marks)
    return _rows_of(growing, np.empty(0, dtype=np.int32))


@dataclass(frozen=True)
class _Packed:
    totals: UInt64Array
    norms: FloatArray
    head_counts: IndexArray
    head_sums: UInt64Array
    head_cells: npt.NDArray[np.int32]
    tail_counts: IndexArray
    tail_sums: UInt64Array
    marks: Marks
    columns: IndexArray


_GROWING = ("totals", "norms", "head_starts", "head_sums", "head_cells", "tail_starts", "tail_sums", "marks", "columns")


def _growing(rows: Rows) -> dict[str, Growing]:
    return {name: Growing(getattr(rows, name)) for name in _GROWING}


def _rows_of(growing: dict[str, Growing], slot: npt.NDArray[np.int32]) -> Rows:
    return Rows(slot, **{name: growing[name].array for name in _GROWING})


def _append_rows(growing: dict[str, Growing], ids: IndexArray, table: Table, with_marks: bool) -> None:
    """Compile rows and put them at the end."""
    if len(ids) == 0:
        return
    parts = in_threads(lambda some: _pack(table.compile_rows(some), with_marks), batches(ids, table), None)
    for number, part in enumerate(parts):
        if len(part.marks):
            _require_marks_fit(growing, part)
        if number == 0:
            blocks = len(ids) * int(part.tail_counts[0])
            growing["tail_sums"].reserve(blocks)
            growing["marks"].reserve(blocks if len(part.marks) else 0)
        for name in ("totals", "norms", "head_sums", "head_cells", "tail_sums", "marks"):
            growing[name].append(getattr(part, name))
        for starts, counts in (("head_starts", part.head_counts), ("tail_starts", part.tail_counts)):
            growing[starts].append(growing[starts].array[-1] + np.cumsum(counts))
        if len(growing["columns"].array) == 0:
            growing["columns"].append(part.columns)


def _require_marks_fit(growing: dict[str, Growing], part: _Packed) -> None:
    """Marks are found by their block's place and name columns, so they cover the first blocks and share the columns."""
    columns = growing["columns"].array
    all_marked = len(growing["marks"].array) == len(growing["tail_sums"].array)
    if not (all_marked and (len(columns) == 0 or np.array_equal(columns, part.columns))):
        raise AssertionError("marks must belong to the first rows, and to rows that share their cells")


def _sizes(rows: Rows) -> npt.NDArray[np.int64]:
    """Return the bytes that the first rows take: none, one, two, ..."""
    marked = np.minimum(rows.tail_starts, len(rows.marks))
    return np.asarray(16 * rows.head_starts + 8 * rows.tail_starts + 2 * BLOCK * marked)


def _first(rows: Rows, memory: int) -> Rows:
    """Return the first rows, as many as the memory holds."""
    count = int(np.searchsorted(_sizes(rows), memory, side="right")) - 1
    slot = rows.slot.copy()
    slot[slot >= count] = -1
    heads, tails = int(rows.head_starts[count]), int(rows.tail_starts[count])
    return Rows(
        slot,
        rows.totals[:count],
        rows.norms[:count],
        rows.head_starts[: count + 1],
        rows.head_sums[:heads],
        rows.head_cells[:heads],
        rows.tail_starts[: count + 1],
        rows.tail_sums[:tails],
        marks=rows.marks[:tails],
        columns=rows.columns,
    )


def _no_rows(words: int) -> Rows:
    none, start = np.empty(0, dtype=np.uint64), np.zeros(1, dtype=np.int64)
    return Rows(
        np.full(words + 1, -1, dtype=np.int32), none, np.empty(0), start, none, np.empty(0, np.int32), start, none
    )


def batches(ids: IndexArray, table: Table) -> Iterator[IndexArray]:
    """Cut ids so that their whole rows have a bounded number of cells."""
    columns = table.compile_rows(ids[:1]).weights.shape[1]
    step = max(_LEAST_ROWS, _BATCH_CELLS // columns)
    for start in range(0, len(ids), step):
        yield ids[start : start + step]


def _pack(compiled: CompiledRows, with_marks: bool) -> _Packed:
    weights = compiled.weights
    rows, columns = weights.shape
    totals = weights.sum(axis=1, dtype=np.uint64)
    in_row, in_column = np.nonzero(weights >= head_cutoff(totals)[:, None])
    cells = compiled.cells[0 if compiled.shared else in_row, in_column]
    counts = np.bincount(in_row, minlength=rows)
    head_sums, head_cells, counts = _with_empty_heads(weights[in_row, in_column], cells, in_row, counts)
    padded = np.zeros((rows, -(-columns // BLOCK) * BLOCK), dtype=np.uint64)
    padded[:, :columns] = weights
    padded[in_row, in_column] = 0
    in_blocks = padded.reshape(rows, -1, BLOCK)
    blocks = in_blocks.sum(axis=2, dtype=np.uint64)
    with_marks = with_marks and compiled.shared
    return _Packed(
        totals,
        compiled.norms,
        counts,
        head_sums,
        head_cells,
        np.full(rows, blocks.shape[1], dtype=np.intp),
        np.cumsum(blocks, axis=1, dtype=np.uint64).ravel(),
        marks_of(in_blocks.reshape(-1, BLOCK)) if with_marks else np.empty((0, BLOCK), dtype=np.uint16),
        compiled.cells[0] if with_marks else np.empty(0, dtype=np.intp),
    )


def _with_empty_heads(
    flat: UInt64Array, cells: IndexArray, in_row: IndexArray, counts: IndexArray
) -> tuple[UInt64Array, npt.NDArray[np.int32], IndexArray]:
    """Sum up each row's head; a row without one gets a cell of weight 0, so that every row has a last sum."""
    empty = np.flatnonzero(counts == 0)
    at = np.searchsorted(in_row, empty)
    flat, cells = np.insert(flat, at, 0), np.insert(cells, at, 0)
    counts = np.maximum(counts, 1)
    # The running sum over all rows may wrap around 2**64; taking away a row's offset, modulo 2**64, leaves its own.
    running = np.cumsum(flat, dtype=np.uint64)
    before = np.concatenate([np.zeros(1, np.uint64), running])[np.cumsum(counts) - counts]
    return running - np.repeat(before, counts), cells.astype(np.int32), counts
