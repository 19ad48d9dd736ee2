"""From the tokens of a text to words of a vocabulary and their letter case.

Most tokens are written as the vocabulary writes them and are found with one look into its index; the others are worked
out once for each spelling in a batch, and forgotten with the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from sfumato.mechanism.base import UNKNOWN
from sfumato.space import Space
from sfumato.space.metric import IndexArray
from sfumato.text import Case, case_of, without_accents
from sfumato.text.spelling import Spelling

CASES = (Case.LOWER, Case.TITLE, Case.UPPER)


class Lookup:
    """Finds tokens in the vocabulary of a space.

    ``spell`` takes a misspelled word for the one that is a letter away, ``numbers_apart`` leaves numbers unknown.

    >>> space = Space.from_arrays(["cold", "rain"], [[0.0], [1.0]])
    >>> ids, cases = Lookup(space).of(["Rain", "cold", "snow"])
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
            position = index.get(token, index.get(without_accents(lower), UNKNOWN))
        if position == UNKNOWN and self._spell:
            near = self._spelling.nearest(lower)
            return UNKNOWN if near is None else near
        return position

    def of(self, tokens: list[str]) -> tuple[IndexArray, IndexArray]:
        """Return the word (or :data:`UNKNOWN`) and the case of every token, the latter by its place in :data:`CASES`."""
        as_written, worked_out = self._as_written.get, _WorkedOut(self)
        # Word 0 counts as false here, and is worked out like a token that is not written as in the vocabulary.
        codes = np.array([as_written(token) or worked_out[token] for token in tokens], dtype=np.intp)
        cases, ids = np.divmod(codes, len(self._space) + 1)
        ids[ids == len(self._space)] = UNKNOWN
        return ids, cases

    def code(self, token: str) -> int:
        """Return word and case of a token as one number: the word's position for a lower-case word of the vocabulary."""
        position = self.find(token)
        case = CASES.index(case_of(token)) if self._carry_case else 0
        size = len(self._space)
        return case * (size + 1) + (size if position == UNKNOWN else position)

    @cached_property
    def _as_written(self) -> Mapping[str, int]:
        """The words that stand for themselves in lower case: nearly always all of them."""
        index = self._space.index
        if all(map(self._is_plain, index)):
            return index
        return {word: position for word, position in index.items() if self._is_plain(word)}

    def _is_plain(self, word: str) -> bool:
        return word == word.lower() and not (self._numbers_apart and word.isdecimal())

    @cached_property
    def _spelling(self) -> Spelling:
        return Spelling(self._space.words)


class _WorkedOut(dict[str, int]):
    """Token -> its code, filled as tokens of one batch come up and thrown away with the batch."""

    def __init__(self, lookup: Lookup) -> None:
        super().__init__()
        self._lookup = lookup

    def __missing__(self, token: str) -> int:
        code = self._lookup.code(token)
        self[token] = code
        return code
