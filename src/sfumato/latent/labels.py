"""Labels: sent as they are (then they are public), or by randomised response with an epsilon of their own.

k-ary randomised response (Kairouz, Oh and Viswanath 2014) keeps a label with probability e^eps / (e^eps + k - 1) and else
draws one of the others.  The weights are integers and the epsilon is computed on them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.foundation.checks import gather, require_count, require_epsilon
from sfumato.foundation.errors import DataError, ParameterError
from sfumato.foundation.guarantee import PureGuarantee, Unit
from sfumato.foundation.randomness import Source, below

_TOTAL = 2**62


@dataclass(frozen=True)
class RandomisedResponse:
    """Labels that lie now and then.

    >>> response = RandomisedResponse.of(classes=2, epsilon=1.0)
    >>> round(response.keep_probability, 6), response.guarantee.certified <= 1.0
    (0.731059, True)
    """

    classes: int
    epsilon: float
    keep_weight: int
    other_weight: int

    @classmethod
    def of(cls, *, classes: int, epsilon: float) -> RandomisedResponse:
        """Return the response for so many classes; weights are rounded towards privacy."""
        gather(lambda: require_count(classes=classes), lambda: require_epsilon(epsilon=epsilon))
        if classes < 2:
            raise ParameterError(f"there must be at least 2 classes, got {classes}")
        weights = max(math.exp(min(epsilon, 40.0)) * (1 - 1e-12), 1.0) + classes - 1
        other = math.ceil(_TOTAL / weights)
        return cls(classes, epsilon, _TOTAL - (classes - 1) * other, other)

    @property
    def keep_probability(self) -> float:
        """Chance that a label is sent as it is."""
        return self.keep_weight / _TOTAL

    @property
    def guarantee(self) -> PureGuarantee:
        """The promise for one label."""
        return PureGuarantee(
            mechanism="randomised response",
            unit=Unit.RECORD,
            neighbours="the label of one record is replaced by any other label",
            epsilon=self.epsilon,
            certified=abs(math.log(self.keep_weight / self.other_weight)),
        )

    def sample(self, labels: npt.ArrayLike, source: Source) -> npt.NDArray[np.int64]:
        """Return the labels to send."""
        given = checked_labels(labels, self.classes)
        drawn = below(source, np.full(len(given), _TOTAL, dtype=np.uint64)).astype(np.int64)
        moved = 1 + (drawn - self.keep_weight) // self.other_weight
        return np.where(drawn < self.keep_weight, given, (given + moved) % self.classes)

    def transition(self) -> npt.NDArray[np.float64]:
        """Return P(sent | true), one row for each true label: a head is trained through it."""
        matrix = np.full((self.classes, self.classes), self.other_weight / _TOTAL)
        np.fill_diagonal(matrix, self.keep_probability)
        return matrix


def checked_labels(labels: npt.ArrayLike, classes: int) -> npt.NDArray[np.int64]:
    """Return labels as whole numbers below ``classes``; raise where one is not."""
    given = np.asarray(labels)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise DataError("labels are whole numbers, one for each sentence")
    bad = np.flatnonzero((given < 0) | (given >= classes))
    if len(bad):
        raise DataError(f"label {int(bad[0])} is not between 0 and {classes - 1} ({len(bad)} in all)")
    return given.astype(np.int64)
