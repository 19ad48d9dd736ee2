"""A table given cell by cell: for small vocabularies, for mechanisms of one's own, and for testing the verifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sfumato.foundation.errors import DataError, ParameterError
from sfumato.foundation.guarantee import Guarantee
from sfumato.foundation.randomness import UInt64Array
from sfumato.mechanism.base import Row, TableMechanism
from sfumato.mechanism.integers import LARGEST_TOTAL, to_weights
from sfumato.space import Space
from sfumato.space.metric import IndexArray

_Array = TypeVar("_Array", bound=npt.NDArray[Any])
_LOW_HALF = np.uint64(2**32 - 1)
_LARGEST_HIGH = np.uint64(LARGEST_TOTAL >> 32)
_ROWS_AT_ONCE = 64


def _whole_weights(weights: npt.NDArray[Any]) -> UInt64Array:
    """Return integer weights that nobody can change, each row with a total that a draw can be made below.

    Totals are summed up in two halves: where 64 bits overflow, a row would be drawn from as if it were another one.
    """
    if not (isinstance(weights, np.ndarray) and weights.ndim == 2 and weights.dtype.kind in "iu"):
        raise ParameterError(
            "weights must be a two-dimensional array of whole numbers; from_probabilities rounds others"
        )
    if weights.dtype.kind == "i" and (weights < 0).any():
        raise ParameterError("weights must not be negative")
    whole = weights.astype(np.uint64, copy=False)
    whole.flags.writeable = False
    for start in range(0, len(whole), _ROWS_AT_ONCE):
        part = whole[start : start + _ROWS_AT_ONCE]
        low = (part & _LOW_HALF).sum(axis=1, dtype=np.uint64)
        high = (part >> np.uint64(32)).sum(axis=1, dtype=np.uint64) + (low >> np.uint64(32))
        low &= _LOW_HALF
        above = (high > _LARGEST_HIGH) | ((high == _LARGEST_HIGH) & (low > 0))
        wrong = np.flatnonzero(above | ((high == 0) & (low == 0)))
        if len(wrong):
            raise ParameterError(
                f"the weights of row {start + wrong[0]} (rows count from 0) must add up to at least 1 and at most 2**63; "
                "divide the row's weights by a common number, or use from_probabilities"
            )
    return whole


def _frozen(array: _Array) -> _Array:
    """Return an array that nobody can change: itself where it cannot be written to, as in a file, else a copy."""
    if array.flags.writeable:
        array = array.copy()
        array.flags.writeable = False
    return array


class DenseTable(TableMechanism):
    """A mechanism from a whole table of integer weights; its guarantee is a claim until it is verified.

    >>> from sfumato.foundation.guarantee import PureGuarantee
    >>> space = Space.from_arrays(["no", "yes"], [[0.0], [1.0]])
    >>> claim = PureGuarantee(mechanism="coin", epsilon=1.1, certified=1.1)
    >>> coin = DenseTable.from_probabilities(space, [[0.75, 0.25], [0.25, 0.75]], claim)
    >>> float(coin.row("yes").probability(1))
    0.75
    """

    def __init__(
        self,
        space: Space,
        weights: UInt64Array,
        guarantee: Guarantee,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
    ) -> None:
        every = np.arange(len(space))
        inputs_at = every if inputs is None else np.unique(space.positions(inputs))
        outputs_at = every if outputs is None else np.unique(space.positions(outputs))
        if np.shape(weights) != (len(inputs_at), len(outputs_at)):
            raise ParameterError(
                f"the table has shape {np.shape(weights)} but there are {len(inputs_at)} inputs and {len(outputs_at)} outputs"
            )
        super().__init__(space, inputs_at, outputs_at, guarantee)
        self._table = _whole_weights(np.array(weights))

    @classmethod
    def from_probabilities(
        cls,
        space: Space,
        probabilities: npt.ArrayLike,
        guarantee: Guarantee,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
    ) -> DenseTable:
        """Round a table of probabilities (rows in vocabulary order) to integers."""
        table = np.array(probabilities, dtype=np.float64)
        if table.ndim != 2 or (table < 0).any():
            raise ParameterError("a table of probabilities has two dimensions and no negative entry")
        return cls(space, to_weights(table), guarantee, inputs, outputs)

    def weights(self, ids: npt.NDArray[np.intp]) -> UInt64Array:
        """Return the integer weights of some rows."""
        return np.asarray(self._table[np.searchsorted(self.inputs, ids)])


class StoredTable(TableMechanism):
    """A table that was computed before, with cells of its own for every row or the same outputs for all."""

    def __init__(
        self,
        space: Space,
        inputs: IndexArray,
        outputs: IndexArray,
        guarantee: Guarantee,
        cells: npt.NDArray[np.int32],
        weights: UInt64Array,
        group_numbers: IndexArray | None = None,
    ) -> None:
        super().__init__(space, inputs, outputs, guarantee)
        self._cells = _frozen(cells)
        """Positions of the output words of each row; no rows where all share the outputs."""
        try:
            self._weights = _whole_weights(_frozen(weights))
        except ParameterError as problem:
            raise DataError(f"the stored table cannot be drawn from: {problem}") from None
        self._require_cells_that_fit()
        if group_numbers is not None:
            self.group_numbers = group_numbers
            """The group of every input word, for promises that hold inside of groups."""

    def _require_cells_that_fit(self) -> None:
        """Every weight belongs to a word of the space, and every input has a row."""
        cells, shape = self._cells, self._weights.shape
        fits = shape[0] == len(self.inputs)
        if len(cells) == 0:
            fits = fits and shape[1] == len(self.outputs)
        else:
            fits = fits and cells.shape == shape and cells.dtype.kind in "iu"
            fits = fits and 0 <= int(cells.min()) <= int(cells.max()) < len(self.space)
        if not fits:
            raise DataError("the stored table does not fit its words; write it again with: sfumato compile")

    def row(self, word: str) -> Row:
        """Return the exact distribution of one input word, without the cells that only fill a row up."""
        row = super().row(word)
        real = row.weights > 0
        return Row(row.cells[real], row.weights[real], row.total)

    def cells(self, ids: IndexArray) -> IndexArray | None:
        """Return the positions of the output words of each row."""
        if len(self._cells) == 0:
            return None
        return self._cells[np.searchsorted(self.inputs, ids)].astype(np.intp)

    def weights(self, ids: IndexArray) -> UInt64Array:
        """Return the integer weights of some rows."""
        return np.asarray(self._weights[np.searchsorted(self.inputs, ids)])
