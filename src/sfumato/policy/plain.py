"""Texts in plain characters, so that one pattern knows every way in which a number or an address is written.

A number copied from a web page has no-break spaces in it, one from a telephone invisible marks around it, one from a
Japanese form digits of full width.  Each such character is taken for the plain one that it stands for, **one for one**,
so that a place in the plain text is the same place in the text.

>>> plain("\\u202a+49\\u00a0171\\u20112345678")
' +49 171-2345678'
>>> plain_address("bob\\uff20example\\uff0eorg")
'bob@example.org'
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

_FULL_WIDTH = range(0xFF01, 0xFF5F)
_ALIKE = {
    "\u2212": "-",  # the sign for minus
    "\u2043": "-",  # hyphen bullet
    **dict.fromkeys("\u00b7\u2022\u2024\u2027\u2219\u22c5", "."),
    **dict.fromkeys("\u2044\u2215", "/"),
    # A footnote's mark behind a number is no part of it.
    **dict.fromkeys("\u00b9\u00b2\u00b3\u2070\u2074\u2075\u2076\u2077\u2078\u2079", " "),
}
_END_OF_LINE = "\n\r\v\f\x1c\x1d\x1e\x1f\x85"


def plain(text: str) -> str:
    """Return the text with plain digits, spaces, hyphens, dots and letters, and spaces for invisible characters."""
    return _mapped(text, _plain)


def plain_address(text: str) -> str:
    """Return the text with plain characters for those of full width alone: in addresses all others count."""
    return text if text.isascii() else _mapped(text, _of_full_width)


def _mapped(text: str, one: Callable[[str], str]) -> str:
    # Only the characters that there are: a text has few different ones, and nothing is kept of them.
    return text.translate({ord(character): one(character) for character in set(text)})


def _of_full_width(character: str) -> str:
    return chr(ord(character) - 0xFEE0) if ord(character) in _FULL_WIDTH else character


def _plain(character: str) -> str:
    if " " <= character <= "~":
        return character
    if character in _ALIKE:
        return _ALIKE[character]
    category = unicodedata.category(character)
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if category == "Pd" and ord(character) not in _FULL_WIDTH:
        return "-"
    if category in ("Zs", "Cf") or (category == "Cc" and character not in _END_OF_LINE):
        return " "
    return _of_full_width(character)
