"""Word lists given by a user, as positions in a space."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.foundation.errors import ParameterError
from sfumato.space import Space
from sfumato.space.metric import IndexArray


def positions_of(space: Space, words: Sequence[str] | None) -> IndexArray:
    """Return the sorted distinct positions of some words, or of all where none are given.

    >>> letters = Space.from_arrays(list("abc"), [[0.0], [1.0], [2.0]])
    >>> positions_of(letters, ["c", "a", "c"]).tolist()
    [0, 2]
    """
    if words is None:
        return np.arange(len(space))
    if isinstance(words, str):
        raise ParameterError("inputs, outputs and protected words are lists of words, not a single text")
    words = list(words)
    if len(words) == 0:
        raise ParameterError("inputs, outputs and protected words must hold at least one word each")
    return np.unique(space.positions(words))
