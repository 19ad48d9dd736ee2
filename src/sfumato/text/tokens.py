"""Splitting text into tokens and the gaps between them.

Only spaces and ordinary punctuation are gaps; **everything else is part of a token** and so can be protected: letters
of any script, digits, emoji, currency and other symbols, control and private-use characters, combining marks and
invisible format characters.  Nothing slips through because a pattern did not know it.

A token is a run of such characters: ``don't`` is ``don`` and ``t``, ``3.14`` is ``3`` and ``14``, ``state-of-the-art``
is four words.  The punctuation in between stays, so the vocabulary needs no contractions and covers more of real text.
A URL or an e-mail address is one token, and so is each character of a script written without spaces.

:func:`pieces` returns gap, token, gap, ..., token, gap, so joining them restores the text exactly, whatever it is.

>>> pieces("It's 20 °C, isn't it?")
['', 'It', "'", 's', ' ', '20', ' ', '°C', ', ', 'isn', "'", 't', ' ', 'it', '?']
>>> [(t.text, str(t.kind), t.start) for t in tokenize("mail bob@example.org")]
[('mail', 'word', 0), ('bob@example.org', 'email', 5)]
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """What a token looks like."""

    WORD = "word"
    NUMBER = "number"
    URL = "url"
    EMAIL = "email"
    SYMBOL = "symbol"


@dataclass(frozen=True, slots=True)
class Token:
    """A stretch of text that a policy can protect."""

    text: str = field(repr=False)
    start: int
    kind: Kind

    @property
    def end(self) -> int:
        """Offset just behind the token."""
        return self.start + len(self.text)


# What is left out of a token: white space, ASCII punctuation, and the punctuation of Unicode's general, Latin-1 and
# CJK blocks. Invisible characters (joiners, direction marks, tags, soft hyphens) are not in it: they can carry text.
_SPACE = r"\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_PUNCTUATION = (
    r"!-/:-@\[-`{-~"
    r"\xa1\xa7\xab\xb6\xb7\xbb\xbf"
    r"\u2010-\u2027\u2030-\u205e"
    r"\u3001-\u3003\u3008-\u3011\u3014-\u301f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
    r"\u060c\u061b\u061f\u0964\u0965"
)
GAP_CHARACTERS = _SPACE + _PUNCTUATION
# Scripts written without spaces: each character of Han, kana and Hangul-free CJK extensions is a token of its own.
IDEOGRAPHS = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_LETTER = rf"[^{GAP_CHARACTERS}{IDEOGRAPHS}]"
_URL = rf"(?:[Hh][Tt][Tt][Pp][Ss]?|[Ff][Tt][Pp])://[^\s<>\"]*[^\s<>\"{_PUNCTUATION}]/?|[Ww]{{3}}\.[^\s<>\"]*[^\s<>\"{_PUNCTUATION}]/?"
_EMAIL = rf"{_LETTER}(?:[.+%_-]?{_LETTER}){{0,63}}@{_LETTER}+(?:[.-]{_LETTER}+){{0,31}}\.{_LETTER}{{2,}}"
_WORD = rf"{_LETTER}+|[{IDEOGRAPHS}]"

_PIECES = re.compile(rf"({_WORD})")
ADDRESSES_TOO = re.compile(rf"({_URL}|{_EMAIL}|{_WORD})")
_ASCII_PIECES = re.compile(r"([0-9A-Za-z\x00-\x08\x0e-\x1b\x7f]+)")
_IS_NUMBER = re.compile(r"[0-9]+")
_IS_EMAIL = re.compile(_EMAIL)
_HAS_LETTER = re.compile(r"[^\W_]")
_LOOKS_LIKE_ADDRESS = re.compile(r"@|://|[Ww]{3}\.")


def pieces(text: str) -> list[str]:
    """Return gap, token, gap, ..., token, gap: tokens are at the odd places and joining restores the text."""
    if may_hold_addresses(text):
        return ADDRESSES_TOO.split(text)
    return (_ASCII_PIECES if text.isascii() else _PIECES).split(text)


def may_hold_addresses(text: str) -> bool:
    """Return whether a text has what every URL or e-mail address has."""
    # Looks for a fixed string are far quicker than one for an expression, and nearly every text passes them.
    several = "@" in text or "://" in text or "w." in text or "W." in text
    return several and _LOOKS_LIKE_ADDRESS.search(text) is not None


def kind_of(token: str) -> Kind:
    """Return what a token looks like.

    >>> [str(kind_of(t)) for t in ("rain", "314", "http://a.org/b", "a@b.org", "☔")]
    ['word', 'number', 'url', 'email', 'symbol']
    """
    if "://" in token or token[:4].lower() == "www.":
        return Kind.URL
    if "@" in token and _IS_EMAIL.fullmatch(token):
        return Kind.EMAIL
    if _IS_NUMBER.fullmatch(token):
        return Kind.NUMBER
    if _HAS_LETTER.search(token):
        return Kind.WORD
    return Kind.SYMBOL


def tokenize(text: str) -> list[Token]:
    """Return the tokens with their offsets."""
    tokens = []
    position = 0
    for place, piece in enumerate(pieces(text)):
        if place % 2:
            tokens.append(Token(piece, position, kind_of(piece)))
        position += len(piece)
    return tokens
