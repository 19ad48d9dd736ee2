"""Structured identifiers: e-mail addresses, URLs, IBANs, payment cards and phone numbers.

They are recognised by their form alone: no model, no list from elsewhere.  Where two kinds could be meant, the one
named first above is.

* An IBAN has a country's letters, that country's length and at least seven digits; its check digits need not be right,
  for a mistyped IBAN still tells much.
* A card has 13 to 19 digits whose check digit is right, in groups of at least three.
* A phone number has 7 to 15 digits and begins with ``+``, ``00``, ``(`` or ``0``, or is grouped like a North American
  number; a date is none.

>>> text = "mail bob@example.org or call +44 20 7946 0958"
>>> [(str(found.kind), text[found.start : found.end]) for found in find_identifiers(text)]
[('email', 'bob@example.org'), ('phone', '+44 20 7946 0958')]
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum

from sfumato.foundation.checks import require_one_of
from sfumato.foundation.errors import ParameterError
from sfumato.policy.base import CHOSEN_IN_CONTEXT, Document, Mask, Policy
from sfumato.policy.spans import touched
from sfumato.text import Kind, kind_of, pieces


class IdentifierKind(StrEnum):
    """What an identifier is."""

    EMAIL = "email"
    URL = "url"
    IBAN = "iban"
    CARD = "card"
    PHONE = "phone"


@dataclass(frozen=True, slots=True)
class Identifier:
    """Where an identifier stands in a text."""

    kind: IdentifierKind
    start: int
    end: int


EVERY_KIND = tuple(IdentifierKind)

_IBAN_LENGTHS = {
    country: length
    for length, countries in {
        15: "NO", 16: "BE", 18: "DK FI FK FO GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK",
        21: "CH HR LI LV", 22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG", 25: "LY PT ST", 26: "IS TR", 27: "BI DJ FR GR IT MC MR SM",
        28: "AL AZ BY CY DO GT HN HU LB NI PL SV", 29: "BR EG PS QA UA", 30: "JO KW MU YE", 31: "MT SC", 32: "LC",
        33: "RU",
    }.items()
    for country in countries.split()
}  # fmt: skip

_IBAN = re.compile(r"(?<![^\W_])([A-Za-z]{2})[0-9]{2}(?=((?:[ -]?[A-Za-z0-9]){11,29}))")
_LEAST_IBAN_DIGITS = 7
_DIGIT_GROUPS = re.compile(r"(?<![^\W_])[0-9]{3,19}(?:[ -][0-9]{3,19})*(?![^\W_])")
_DIGIT_GROUP = re.compile(r"[0-9]+")
_CARD_DIGITS = range(13, 20)
_DATE = re.compile(r"[0-9]{2}([./-])[0-9]{2}\1(?:[0-9]{4}|[0-9]{2})(?![0-9]|\1[0-9])")
_PHONE = re.compile(
    r"(?<![^\W_])(?:"
    r"(?:\+|00)[1-9](?:[ ./-]?(?:[0-9]|\([0-9]{1,4}\))){6,13}"
    r"|(?:0[0-9]{1,5}|\(0[0-9]{1,5}\))(?:[ ./-]{0,3}[0-9]{2,8}){1,5}"
    r"|(?:1[ .-])?(?:[2-9][0-9]{2}|\([2-9][0-9]{2}\))[ .-]{1,2}[0-9]{3}[ .-][0-9]{4}"
    r")(?![^\W_])"
)
_LOOKS_LIKE_ADDRESS = re.compile(r"@|://|[Ww]{3}\.")


def find_identifiers(text: str, kinds: Collection[IdentifierKind | str] = EVERY_KIND) -> list[Identifier]:
    """Return the identifiers of some kinds in a text, in order and without overlaps."""
    wanted = _wanted(kinds)
    found: list[Identifier] = []
    for kind in EVERY_KIND:
        if kind in wanted:
            found += [candidate for candidate in _FINDERS[kind](text) if not _overlaps(candidate, found)]
            found.sort(key=_start)
    return found


class _Identifiers(Policy):
    def __init__(self, kinds: frozenset[IdentifierKind]) -> None:
        self._kinds = kinds

    @property
    def keeps(self) -> str:
        return f"every token outside what has the form of {described(self._kinds)}; {CHOSEN_IN_CONTEXT}"

    def protects(self, document: Document) -> Mask:
        return touched(document, [(found.start, found.end) for found in find_identifiers(document.text, self._kinds)])


def identifiers(kinds: Collection[IdentifierKind | str] = EVERY_KIND) -> Policy:
    """Protect structured identifiers, recognised by their form, and release the rest as it is.

    >>> identifiers(["email"]).protects(Document("mail bob@example.org today")).tolist()
    [False, True, False]
    """
    return _Identifiers(_wanted(kinds))


_NAMES = {
    IdentifierKind.EMAIL: "e-mail addresses",
    IdentifierKind.URL: "URLs",
    IdentifierKind.IBAN: "IBANs",
    IdentifierKind.CARD: "payment card numbers",
    IdentifierKind.PHONE: "phone numbers",
}


def described(kinds: Collection[IdentifierKind]) -> str:
    """Name some kinds in plain words."""
    return ", ".join(_NAMES[kind] for kind in EVERY_KIND if kind in kinds)


def _wanted(kinds: Collection[IdentifierKind | str]) -> frozenset[IdentifierKind]:
    if isinstance(kinds, str):
        raise ParameterError("kinds must be a list of kinds of identifiers, not a single string")
    for kind in kinds:
        require_one_of(EVERY_KIND, kind=kind)
    if not kinds:
        raise ParameterError(f"kinds must name at least one of {', '.join(EVERY_KIND)}")
    return frozenset(IdentifierKind(kind) for kind in kinds)


def _start(identifier: Identifier) -> int:
    return identifier.start


def _overlaps(candidate: Identifier, found: list[Identifier]) -> bool:
    """Return whether a candidate shares a character with one of those found, which are in order."""
    before = bisect_left(found, candidate.end, key=_start)
    return before > 0 and found[before - 1].end > candidate.start


def _addresses(text: str, token_kind: Kind, kind: IdentifierKind) -> Iterator[Identifier]:
    if not _LOOKS_LIKE_ADDRESS.search(text):
        return
    position = 0
    for place, piece in enumerate(pieces(text)):
        if place % 2 and kind_of(piece) is token_kind:
            yield Identifier(kind, position, position + len(piece))
        position += len(piece)


def _ibans(text: str) -> Iterator[Identifier]:
    last = 0
    for match in _IBAN.finditer(text):
        length = _IBAN_LENGTHS.get(match[1].upper())
        end = _end_after(text, match.start(), match.end(2), length) if length else None
        if end is None or match.start() < last or text[end : end + 1].isalnum():
            continue
        if sum(map(str.isdigit, text[match.start() : end])) >= _LEAST_IBAN_DIGITS:
            yield Identifier(IdentifierKind.IBAN, match.start(), end)
            last = end


def _end_after(text: str, start: int, end: int, characters: int) -> int | None:
    """Return the offset behind that many letters and digits, spaces and hyphens not counted."""
    for place in range(start, end):
        if text[place].isalnum():
            characters -= 1
        if characters == 0:
            return place + 1
    return None


def _cards(text: str) -> Iterator[Identifier]:
    for run in _DIGIT_GROUPS.finditer(text):
        groups = [match.span() for match in _DIGIT_GROUP.finditer(text, *run.span())]
        first = 0
        while first < len(groups):
            stop = _card_from(text, groups, first)
            if stop is not None:
                yield Identifier(IdentifierKind.CARD, groups[first][0], groups[stop - 1][1])
            first = stop or first + 1


def _card_from(text: str, groups: list[tuple[int, int]], first: int) -> int | None:
    """Return the number of the group behind the longest card that begins with a group of digits."""
    digits, found = "", None
    for place in range(first, len(groups)):
        digits += text[slice(*groups[place])]
        if len(digits) >= _CARD_DIGITS.stop:
            break
        if len(digits) in _CARD_DIGITS and luhn_holds(digits):
            found = place + 1
    return found


def _phones(text: str) -> Iterator[Identifier]:
    for match in _PHONE.finditer(text):
        if 7 <= sum(map(str.isdigit, match[0])) <= 15 and not _DATE.match(match[0]):
            yield Identifier(IdentifierKind.PHONE, *match.span())


def luhn_holds(digits: str) -> bool:
    """Return whether the check digit at the end is the one of Luhn's formula.

    >>> luhn_holds("4111111111111111"), luhn_holds("4111111111111112")
    (True, False)
    """
    total = 0
    for place, digit in enumerate(map(int, reversed(digits))):
        doubled = digit * 2 if place % 2 else digit
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


def iban_holds(iban: str) -> bool:
    """Return whether an IBAN's check digits are right (ISO 7064, modulo 97).

    >>> iban_holds("GB82WEST12345698765432"), iban_holds("GB83WEST12345698765432")
    (True, False)
    """
    return int("".join(str(int(character, 36)) for character in iban[4:] + iban[:4])) % 97 == 1


_FINDERS = {
    IdentifierKind.EMAIL: lambda text: _addresses(text, Kind.EMAIL, IdentifierKind.EMAIL),
    IdentifierKind.URL: lambda text: _addresses(text, Kind.URL, IdentifierKind.URL),
    IdentifierKind.IBAN: _ibans,
    IdentifierKind.CARD: _cards,
    IdentifierKind.PHONE: _phones,
}
