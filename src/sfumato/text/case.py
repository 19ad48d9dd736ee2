"""The spelling of words: accents, and letter case, which is read from a word of the input and carried to the
word of the output.

Case is public wherever it is carried over: ``May`` and ``may`` stay apart.  It can be turned off.
"""

from __future__ import annotations

import unicodedata
from enum import StrEnum


class Case(StrEnum):
    """How a word is written."""

    LOWER = "lower"
    TITLE = "title"
    UPPER = "upper"


def case_of(word: str) -> Case:
    """Return the case of a word; anything that is not Title or UPPER counts as lower.

    >>> [str(case_of(w)) for w in ("rain", "Rain", "RAIN", "iPhone", "I", "42")]
    ['lower', 'title', 'upper', 'lower', 'title', 'lower']
    """
    if word.islower() or word == word.lower():
        return Case.LOWER
    if len(word) > 1 and word == word.upper():
        return Case.UPPER
    if word[:1] != word[:1].lower() and word[1:] == word[1:].lower():
        return Case.TITLE
    return Case.LOWER


def apply_case(word: str, case: Case) -> str:
    """Return the word written in that case.

    >>> apply_case("snow", Case.TITLE), apply_case("snow", Case.UPPER), apply_case("snow", Case.LOWER)
    ('Snow', 'SNOW', 'snow')
    """
    if case is Case.LOWER:
        return word
    if case is Case.UPPER:
        return word.upper()
    return word[:1].upper() + word[1:]


def without_accents(word: str) -> str:
    """Return the word without its combining marks, for finding it in a vocabulary that has none.

    >>> without_accents("cliché")
    'cliche'
    """
    if word.isascii():
        return word
    return "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))
