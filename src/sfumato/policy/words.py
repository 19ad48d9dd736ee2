"""Policies that look at words alone."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

import numpy as np

from sfumato.foundation.errors import ParameterError
from sfumato.policy.base import Document, Mask, Policy
from sfumato.text import pieces


class _Everything(Policy):
    @property
    def keeps(self) -> str:
        return ""

    @property
    def protects_everything(self) -> bool:
        return True

    def protects(self, document: Document) -> Mask:
        return np.ones(len(document.pieces) // 2, dtype=bool)

    def keeps_word(self, word: str) -> bool:
        return False


class _KeepWords(Policy):
    def __init__(self, words: frozenset[str], name: str) -> None:
        self._words = words
        self._name = name

    @property
    def keeps(self) -> str:
        return f"{self._name} ({len(self._words)} words), wherever they occur"

    def protects(self, document: Document) -> Mask:
        kept = self._words
        tokens = document.tokens
        return np.fromiter((folded(token) not in kept for token in tokens), dtype=bool, count=len(tokens))

    def protects_word(self, word: str) -> bool:
        return folded(word) not in self._words

    def keeps_word(self, word: str) -> bool:
        return folded(word) in self._words


class _ProtectWords(_KeepWords):
    @property
    def keeps(self) -> str:
        return f"every token but those of {self._name} ({len(self._words)} words)"

    def protects(self, document: Document) -> Mask:
        return ~super().protects(document)

    def protects_word(self, word: str) -> bool:
        return super().keeps_word(word)

    def keeps_word(self, word: str) -> bool:
        return super().protects_word(word)


def everything() -> Policy:
    """Protect every token.

    >>> everything().protects(Document("all of it")).tolist()
    [True, True, True]
    """
    return _Everything()


def keep_words(words: Iterable[str], name: str = "a public list of kept words") -> Policy:
    """Release the words of a public list as they are, in any letter case, and protect everything else.

    The list must be public: one that was made from the private text would reveal it.

    >>> keep_words(["and"]).protects(Document("salt AND pepper")).tolist()
    [True, False, True]
    """
    return _KeepWords(_listed(words), name)


def protect_words(words: Iterable[str], name: str = "a public list of protected words") -> Policy:
    """Protect the words of a public list, in any letter case, and release everything else as it is.

    >>> protect_words(["pepper"]).protects(Document("salt and Pepper")).tolist()
    [False, False, True]
    """
    return _ProtectWords(_listed(words), name)


def folded(word: str) -> str:
    """Return the form in which words are compared: in any letter case, and however their accents are encoded.

    >>> folded("Jose\\u0301") == folded("JOS\\u00c9") == "jos\\u00e9"
    True
    """
    if word.isascii():
        return word.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", word).casefold())


def _listed(words: Iterable[str]) -> frozenset[str]:
    if isinstance(words, str):
        raise ParameterError("words must be a list of words, not a single string")
    if not isinstance(words, Iterable):
        raise ParameterError(f"words must be a list of words, got a value of type {type(words).__name__}")
    listed = list(words)
    for place, word in enumerate(listed):
        if not isinstance(word, str):
            raise ParameterError(f"word {place} of the list is of type {type(word).__name__}, not text")
        if pieces(word) != ["", word, ""]:
            # It would match no token: what it was to protect would be released.
            raise ParameterError(
                f"word {place} of the list (counted from 0) is not one word as texts are split, at spaces, apostrophes, "
                "hyphens and other punctuation, so no word of a text would match it; list its parts one by one, or use a "
                "pattern (protect_pattern)"
            )
    return frozenset(map(folded, listed))
