"""A table given cell by cell: for small vocabularies, for mechanisms of one's own, and for testing the verifier."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sfumato.foundation.errors import ParameterError
from sfumato.foundation.guarantee import Guarantee
from sfumato.foundation.randomness import UInt64Array
from sfumato.mechanism.base import Row, TableMechanism
from sfumato.mechanism.integers import to_weights
from sfumato.space import Space
from sfumato.space.metric import IndexArray


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
        if weights.shape != (len(inputs_at), len(outputs_at)):
            raise ParameterError(
                f"the table has shape {weights.shape} but there are {len(inputs_at)} inputs and {len(outputs_at)} outputs"
            )
        super().__init__(space, inputs_at, outputs_at, guarantee)
        self._table = weights

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
        self._cells = cells
        """Positions of the output words of each row; no rows where all share the outputs."""
        self._weights = weights
        if group_numbers is not None:
            self.group_numbers = group_numbers
            """The group of every input word, for promises that hold inside of groups."""

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
