"""From the tokens of a text to words of a vocabulary and their letter case.

Most tokens are in the vocabulary in lower case and are found with one look into its index; the others are worked out once
for each spelling in a batch, and forgotten with the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import repeat

import numpy as np

from sfumato.mechanism.base import UNKNOWN
from sfumato.space import Space
from sfumato.space.metric import IndexArray
from sfumato.text import Case, without_accents
from sfumato.text.spelling import Spelling
from sfumato.text.spread import Spread

CASES = tuple(Case)


class Lookup:
    """Finds tokens in the vocabulary of a space.

    ``spell`` takes a misspelled word for the one that is a letter away, ``numbers_apart`` leaves numbers unknown.

    >>> space = Space.from_arrays(["cold", "rain"], [[0.0], [1.0]])
    >>> ids, cases = Lookup(space).of(Spread.of(["Rain", "cold snow"]))
    >>> ids.tolist(), [str(CASES[case]) for case in cases]
    ([1, 0, -1], ['title', 'lower', 'lower'])
    """

    def __init__(
        self, space: Space, *, carry_case: bool = True, spell: bool = False, numbers_apart: bool = False
    ) -> None:
        self._space = space
        self._carry_case = carry_case
        self._spell = spell
        self._numbers_apart = numbers_apart

    def find(self, token: str) -> int:
        """Return the word of the space that a token is taken for, or :data:`UNKNOWN`."""
        if self._numbers_apart and token.isdecimal():
            return UNKNOWN
        index = self._space.index
        lower = token.lower()
        position = index.get(lower, UNKNOWN)
        if position == UNKNOWN and (token != lower or not token.isascii()):
            plain = without_accents(lower)
            if self._numbers_apart and plain.isdecimal():  # digits in circles, superscripts
                return UNKNOWN
            position = index.get(token, index.get(plain, UNKNOWN))
        if position == UNKNOWN and self._spell:
            near = self._spelling.nearest(lower)
            return UNKNOWN if near is None else near
        return position

    def of(self, tokens: Spread) -> tuple[IndexArray, IndexArray]:
        """Return the word (or :data:`UNKNOWN`) and the case of every token, the latter by its place in :data:`CASES`."""
        ids = np.fromiter(
            map(self._in_lower_case.get, tokens.lowered, repeat(UNKNOWN)), dtype=np.intp, count=len(tokens)
        )
        worked_out = _WorkedOut(self)
        for place in np.flatnonzero(ids == UNKNOWN).tolist():
            ids[place] = worked_out[tokens.token(place)]
        return ids, tokens.cases if self._carry_case else np.zeros_like(ids)

    @cached_property
    def _in_lower_case(self) -> Mapping[str, int]:
        """The words that tokens in lower case are looked for in first, see :meth:`find`."""
        index = self._space.index
        if not self._numbers_apart:
            return index
        return {word: position for word, position in index.items() if not word.isdecimal()}

    @cached_property
    def _spelling(self) -> Spelling:
        return Spelling(self._space.words)


class _WorkedOut(dict[str, int]):
    """Token -> its word, filled as tokens of one batch come up and thrown away with the batch."""

    def __init__(self, lookup: Lookup) -> None:
        super().__init__()
        self._lookup = lookup

    def __missing__(self, token: str) -> int:
        position = self._lookup.find(token)
        self[token] = position
        return position
