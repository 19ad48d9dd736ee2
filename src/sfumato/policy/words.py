"""Policies that look at words alone."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from itertools import groupby

import numpy as np

from sfumato.foundation.errors import ParameterError
from sfumato.policy.base import Document, Mask, Policy
from sfumato.text import pieces

_INVISIBLE = ("Cf", "Cc")
_LEFT_OUT = (*_INVISIBLE, "Mn")
_LETTERS = ("Lu", "Ll", "Lt", "Lo", "Mn", "Mc", "Me")
_STRETCH = "\u0640"  # makes Arabic words longer and means nothing


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
    def __init__(self, words: frozenset[str], name: str) -> None:
        super().__init__(words, name)
        self._spellings = frozenset(spelling for word in words for spelling in (word, plainest(word)))

    @property
    def keeps(self) -> str:
        return f"every token but those of {self._name} ({len(self._words)} words)"

    def protects(self, document: Document) -> Mask:
        tokens = document.tokens
        protected = {token for token in set(tokens) if self.protects_word(token)}
        return np.fromiter((token in protected for token in tokens), dtype=bool, count=len(tokens))

    def protects_word(self, word: str) -> bool:
        if folded(word) in self._spellings:
            return True
        return not (word.isascii() and word.isalpha()) and not self._spellings.isdisjoint(spellings(word))

    def keeps_word(self, word: str) -> bool:
        return super().protects_word(word)

    def __invert__(self) -> Policy:
        """Keep the words of the list as they are listed: what hides in an odd spelling is not kept with them."""
        return _KeepListed(self)


class _KeepListed(_KeepWords):
    """Keeps what is spelled like the words that another policy protects; that one protects odd spellings too."""

    def __init__(self, policy: _ProtectWords) -> None:
        super().__init__(policy._words, policy._name)
        self._policy = policy

    @property
    def keeps(self) -> str:
        return f"everything but: {self._policy.keeps}"

    def __invert__(self) -> Policy:
        return self._policy


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

    A word is protected in odd spellings too: with invisible characters in it, in letters of full width or of
    mathematics, with a sign, a number or an emoji attached to it.  Words of other letters that only look alike are other words.

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


def spellings(token: str) -> set[str]:
    """Return the words that a token may stand for: itself, and each row of letters in it, as plain as they can be written.

    >>> sorted(spellings("\uff33mi\u00adth\u00ae"))
    ['smith', 'smith\u00ae']
    """
    visible = "".join(character for character in token if unicodedata.category(character) not in _INVISIBLE)
    whole = plainest(token)
    return {
        whole,
        *map(plainest, (*_rows(visible, _LETTERS), *_rows(visible, (*_LETTERS, "Nd")))),
        *_rows(whole, _LETTERS),
    }


def plainest(word: str) -> str:
    """Return a word folded, without invisible characters, marks that no letter takes up, and variants of letters.

    >>> plainest("SM\u0130TH") == plainest("Sm\u0131th") == plainest("\U0001d412mith") == "smith"
    True
    """
    word = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", word).casefold())
    kept = (character for character in word if unicodedata.category(character) not in _LEFT_OUT)
    return "".join(kept).replace("\u0131", "i").replace(_STRETCH, "")


def _rows(token: str, categories: tuple[str, ...]) -> list[str]:
    """Return the longest rows of characters of some categories."""
    rows = groupby(token, lambda character: unicodedata.category(character) in categories)
    return ["".join(row) for belongs, row in rows if belongs]


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
