"""Policies that look at words alone."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sfumato.foundation.errors import ParameterError
from sfumato.policy.base import Document, Mask, Policy


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
        return np.fromiter((token.lower() not in kept for token in tokens), dtype=bool, count=len(tokens))

    def protects_word(self, word: str) -> bool:
        return word.lower() not in self._words

    def keeps_word(self, word: str) -> bool:
        return word.lower() in self._words


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
    return _KeepWords(_folded(words), name)


def protect_words(words: Iterable[str], name: str = "a public list of protected words") -> Policy:
    """Protect the words of a public list, in any letter case, and release everything else as it is.

    >>> protect_words(["pepper"]).protects(Document("salt and Pepper")).tolist()
    [False, False, True]
    """
    return _ProtectWords(_folded(words), name)


def _folded(words: Iterable[str]) -> frozenset[str]:
    if isinstance(words, str):
        raise ParameterError("words must be a list of words, not a single string")
    listed = list(words)
    wrong = [place for place, word in enumerate(listed) if not isinstance(word, str)]
    if wrong:
        raise ParameterError(f"word {wrong[0]} of the list is of type {type(listed[wrong[0]]).__name__}, not text")
    return frozenset(word.lower() for word in listed)
