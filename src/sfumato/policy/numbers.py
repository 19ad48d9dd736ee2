"""Numbers: every token with a digit or another number character in it."""

from __future__ import annotations

import re
import unicodedata

import numpy as np

from sfumato.policy.base import Document, Mask, Policy

_ASCII_DIGIT = re.compile("[0-9]")


def has_number(token: str) -> bool:
    """Return whether a token has a digit of any script, a letter that is a numeral, or a fraction in it.

    >>> [has_number(token) for token in ("1990", "A12", "٣", "Ⅷ", "½", "seven")]
    [True, True, True, True, True, False]
    """
    if token.isascii():
        return _ASCII_DIGIT.search(token) is not None
    return any(unicodedata.category(character)[0] == "N" for character in token)


class _Numbers(Policy):
    @property
    def keeps(self) -> str:
        return "every token without a digit or another number character in it, numbers written as words among them"

    def protects(self, document: Document) -> Mask:
        tokens = document.tokens
        return np.fromiter(map(has_number, tokens), dtype=bool, count=len(tokens))

    def protects_word(self, word: str) -> bool:
        return has_number(word)

    def keeps_word(self, word: str) -> bool:
        return not has_number(word)


def numbers() -> Policy:
    """Protect every token with a digit or another number character in it, and release the rest as it is.

    A number written as words is not recognised.

    >>> numbers().protects(Document("Room A12, born in 1990, seven of 9")).tolist()
    [False, True, False, False, True, False, False, True]
    """
    return _Numbers()
