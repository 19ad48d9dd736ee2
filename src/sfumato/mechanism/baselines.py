"""The two ends of every comparison: words replaced at random, and words left as they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.foundation.guarantee import NoGuarantee, PureGuarantee
from sfumato.foundation.randomness import Source, UInt64Array
from sfumato.foundation.registry import mechanism
from sfumato.mechanism.base import UNKNOWN, TableMechanism
from sfumato.mechanism.vocabulary import positions_of
from sfumato.space import Space
from sfumato.space.metric import IndexArray


class RandomReplacement(TableMechanism):
    """Every row is the same; see :func:`random_replacement`."""

    def weights(self, ids: IndexArray) -> UInt64Array:
        """Return ones: exactly the same chance for every output."""
        return np.ones((len(ids), len(self.outputs)), dtype=np.uint64)

    def sample(self, ids: IndexArray, source: Source) -> IndexArray:
        """Draw as for words that are not in the vocabulary: no row need be looked at."""
        return super().sample(np.full(len(ids), UNKNOWN), source)


class Identity(TableMechanism):
    """Every row has one cell, the word itself; see :func:`identity`."""

    def weights(self, ids: IndexArray) -> UInt64Array:
        """Return a one for each word."""
        return np.ones((len(ids), 1), dtype=np.uint64)

    def cells(self, ids: IndexArray) -> IndexArray:
        """Return the words themselves."""
        return np.asarray(ids, dtype=np.intp)[:, None]


@mechanism("random", kind="pure", takes_epsilon=False)
def random_replacement(
    space: Space, *, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None
) -> RandomReplacement:
    """Random replacement: every word becomes a uniformly random one, whatever it was (epsilon 0).

    >>> letters = Space.from_arrays(list("abcd"), [[0.0], [1.0], [2.0], [3.0]])
    >>> random_replacement(letters).row("b").probabilities.tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    guarantee = PureGuarantee(mechanism="random", epsilon=0.0, certified=0.0)
    return RandomReplacement(space, positions_of(space, inputs), positions_of(space, outputs), guarantee)


@mechanism("identity", kind="none", takes_epsilon=False)
def identity(space: Space) -> Identity:
    """Identity: every word of the vocabulary is released as it is, the upper bound of utility in comparisons.

    >>> letters = Space.from_arrays(list("ab"), [[0.0], [1.0]])
    >>> identity(letters).row("b").probability(1)
    Fraction(1, 1)
    """
    every = positions_of(space, None)
    guarantee = NoGuarantee(
        mechanism="identity",
        notes=(
            "Every protected word of the vocabulary is RELEASED AS IT IS: this is for comparisons with mechanisms that "
            "protect something",
        ),
    )
    return Identity(space, every, every, guarantee)
