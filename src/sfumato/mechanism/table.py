"""A table given cell by cell: for small vocabularies, for mechanisms of one's own, and for testing the verifier."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sfumato.foundation.errors import ParameterError
from sfumato.foundation.guarantee import Guarantee
from sfumato.foundation.randomness import UInt64Array
from sfumato.mechanism.base import TableMechanism
from sfumato.mechanism.integers import to_weights
from sfumato.space import Space


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
