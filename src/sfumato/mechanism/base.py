"""What a mechanism is, and the integer tables most of them are made of.

A table mechanism has a row of integer weights for every input word.  A draw takes a uniform integer below the row's
total (by rejection, from a cryptographic source) and finds the cell it falls in: no floating point is involved once the
integers stand, so the distribution that was certified is the one that runs.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol, SupportsIndex, runtime_checkable

import numpy as np

from sfumato.foundation.checks import require_count
from sfumato.foundation.errors import ParameterError
from sfumato.foundation.guarantee import Guarantee
from sfumato.foundation.randomness import Source, UInt64Array, settle
from sfumato.mechanism.rowstore import BLOCK, CompiledRows, RowStore, sorting
from sfumato.space import Space
from sfumato.space.metric import FloatArray, IndexArray

UNKNOWN = -1
"""The id of a word that is not an input of a mechanism; it is replaced by a draw that does not depend on it."""


_BATCH_CELLS = 4_000_000


@runtime_checkable
class Mechanism(Protocol):
    """A finished, read-only randomised map from words to words."""

    @property
    def space(self) -> Space:
        """The public space the ids refer to."""
        ...

    @property
    def guarantee(self) -> Guarantee:
        """What is promised about a single word."""
        ...

    def sample(self, ids: IndexArray, source: Source) -> IndexArray:
        """Draw an output word for every input word; ids are positions in the space, or :data:`UNKNOWN`."""
        ...


@dataclass(frozen=True)
class Row:
    """The exact distribution of one input word."""

    cells: IndexArray = field(repr=False)
    """Positions of the output words in the space."""
    weights: UInt64Array = field(repr=False)
    total: int

    def probability(self, position: int) -> Fraction:
        """Return the exact probability of an output word."""
        weight = int(self.weights[self.cells == position].sum(dtype=object) or 0)
        return Fraction(weight, self.total)

    @cached_property
    def probabilities(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """All probabilities, as floats and in the order of :attr:`cells`."""
        return self.weights.astype(np.float64) / float(self.total)


class TableMechanism(ABC):
    """A mechanism with a row of integer weights for every input word.

    Rows are compiled when a word first occurs and kept within a memory limit; a row is the same whenever it is compiled.
    """

    def __init__(
        self, space: Space, inputs: IndexArray, outputs: IndexArray, guarantee: Guarantee, row_memory: int = 2**29
    ) -> None:
        require_count(row_memory=row_memory)
        self.space = space
        self.inputs = _frozen(inputs)
        self.outputs = _frozen(outputs)
        self.guarantee = guarantee
        self._is_input = np.zeros(len(space) + 1, dtype=bool)  # the last place stands for UNKNOWN
        self._is_input[self.inputs] = True
        self._row_memory = int(row_memory)
        self._store = RowStore(len(space), self._row_memory)
        self._lock = threading.Lock()
        self.origin: tuple[str, str] | None = None
        """The file this mechanism was loaded from, and its digest."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Send a mechanism that is in a file as the file's name: the other process maps it, too."""
        if self.origin is None:
            return super().__reduce_ex__(protocol)
        from sfumato.mechanism.artifact import load

        return load, self.origin

    def draw_from(self, make: Callable[[int], RowStore]) -> None:
        """Take the rows from a store made for this mechanism; it is given the memory that rows may take."""
        self._store = make(self._row_memory)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the rows that were compiled: which ones is a trace of the text."""
        state = self.__dict__.copy()
        del state["_store"], state["_lock"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._store = RowStore(len(self.space), self._row_memory)
        self._lock = threading.Lock()

    @abstractmethod
    def weights(self, ids: IndexArray) -> UInt64Array:
        """Integer weights of the rows of input words: one row each, one column for each cell."""

    def cells(self, ids: IndexArray) -> IndexArray | None:
        """Positions of the output words of each row, or None where every row covers :attr:`outputs` in order."""
        return None

    def row(self, word: str) -> Row:
        """Return the exact distribution of one input word.

        The word must be an input of this mechanism.
        """
        ids = self.space.positions([word])
        if not self._is_input[ids[0]]:
            raise ParameterError("the word is in the space but not among this mechanism's inputs")
        cells = self.cells(ids)
        weights = self.weights(ids)[0]
        return Row(self.outputs if cells is None else cells[0], weights, int(weights.sum(dtype=object)))

    def sample(self, ids: IndexArray, source: Source) -> IndexArray:
        """Draw an output word for every input word."""
        require_ids(ids, self.space)
        ids = np.where(self._is_input[ids], ids, UNKNOWN)
        numbers = source.uint64(len(ids))
        drawn = np.empty(len(ids), dtype=np.intp)
        unknown = np.flatnonzero(ids == UNKNOWN)
        bounds = np.full(len(unknown), len(self.outputs), dtype=np.uint64)
        drawn[unknown] = self.outputs[settle(source, numbers, unknown, bounds).astype(np.intp)]
        # In the order of the words, so that the rows are read from front to back and not all over the memory.
        known = np.flatnonzero(ids != UNKNOWN)
        known = known[sorting(ids[known], len(self.space))]
        ordered = ids[known]
        for group in self._store.groups(ordered, len(self.outputs)):
            with self._lock:
                rows = self._store.rows(group, self)
            part = slice(*np.searchsorted(ordered, [group[0], group[-1] + 1]))
            here, some = known[part], ordered[part]
            settled = settle(source, numbers, here, rows.totals[rows.slot[some]])
            drawn[here] = rows.find(some, settled, self)
        return drawn

    def compile_rows(self, ids: IndexArray) -> CompiledRows:
        """Return whole rows of input words."""
        cells = self.cells(ids)
        weights = self.weights(ids)
        if cells is None:
            return CompiledRows(self.outputs[None, :], weights, np.zeros(len(ids)), shared=True)
        return CompiledRows(cells, weights, np.zeros(len(ids)))

    def block_weights(self, ids: IndexArray, blocks: IndexArray, norms: FloatArray) -> tuple[IndexArray, UInt64Array]:
        """Return the cells and weights of one block of columns for each id, by compiling their rows again."""
        cells = np.zeros((len(ids), BLOCK), dtype=np.intp)
        weights = np.zeros((len(ids), BLOCK), dtype=np.uint64)
        distinct, which = np.unique(ids, return_inverse=True)
        step = max(1, _BATCH_CELLS // max(len(self.outputs), 1))
        for start in range(0, len(distinct), step):
            compiled = self.compile_rows(distinct[start : start + step])
            places = np.flatnonzero((which >= start) & (which < start + step))
            columns = blocks[places, None] * BLOCK + np.arange(BLOCK)
            inside = columns < compiled.weights.shape[1]
            columns = np.where(inside, columns, 0)
            rows = which[places, None] - start
            cells[places] = compiled.cells[0 if compiled.shared else rows, columns]
            weights[places] = np.where(inside, compiled.weights[rows, columns], np.uint64(0))
        return cells, weights


def require_ids(ids: IndexArray, space: Space) -> None:
    """All ids are positions in a space, or :data:`UNKNOWN`."""
    whole = isinstance(ids, np.ndarray) and ids.dtype.kind in "iu" and ids.ndim == 1
    if not whole or (len(ids) and not (ids.min() >= UNKNOWN and ids.max() < len(space))):
        raise ParameterError(
            f"ids must be an array of whole numbers: positions in the space (0 to {len(space) - 1}), or UNKNOWN ({UNKNOWN})"
        )


def _frozen(positions: IndexArray) -> IndexArray:
    positions = np.array(positions, dtype=np.intp)
    positions.flags.writeable = False
    return positions
