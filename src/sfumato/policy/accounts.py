"""IBANs and payment cards, recognised by their form."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sfumato.policy.candidates import Candidate, IdentifierKind
from sfumato.text.tokens import IDEOGRAPHS

BETWEEN_GROUPS = "[ ./-]{1,3}"
"""What stands between the groups of a number."""
NO_LETTER_BEFORE = rf"(?<![^\W_{IDEOGRAPHS}])"
NO_LETTER_BEHIND = rf"(?![^\W_{IDEOGRAPHS}])"

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

_IBAN = re.compile(rf"{NO_LETTER_BEFORE}([A-Za-z]{{2}})[0-9]{{2}}(?=((?:[ ./-]{{0,3}}[A-Za-z0-9]){{11,29}}))")
_LEAST_IBAN_DIGITS = 7
_LETTER_BEHIND = re.compile(rf"[^\W_{IDEOGRAPHS}]")
_DIGIT_GROUPS = re.compile(
    rf"{NO_LETTER_BEFORE}[0-9]{{3,19}}(?:{BETWEEN_GROUPS}[0-9]{{3,19}})*{NO_LETTER_BEHIND}",
)
_DIGIT_GROUP = re.compile(r"[0-9]+")
_CARD_DIGITS = range(13, 20)
_MOST_CARD_GROUPS = 6  # of three digits at least


def ibans(text: str) -> Iterator[Candidate]:
    """Find IBANs in a text of plain characters."""
    for match in _IBAN.finditer(text):
        length = _IBAN_LENGTHS.get(match[1].upper())
        end = _end_after(text, match.start(), match.end(2), length) if length else None
        if end is None or _LETTER_BEHIND.match(text, end):
            continue
        if sum(map(str.isdigit, text[match.start() : end])) >= _LEAST_IBAN_DIGITS:
            yield Candidate(IdentifierKind.IBAN, match.start(), (end,))


def _end_after(text: str, start: int, end: int, characters: int) -> int | None:
    """Return the offset behind that many letters and digits, spaces and punctuation not counted."""
    for place in range(start, end):
        if text[place].isalnum():
            characters -= 1
        if characters == 0:
            return place + 1
    return None


def cards(text: str) -> Iterator[Candidate]:
    """Find every row of groups of digits, in a text of plain characters, that could be a card."""
    for run in _DIGIT_GROUPS.finditer(text):
        groups = [match.span() for match in _DIGIT_GROUP.finditer(text, *run.span())]
        for first in range(len(groups)):
            ends = _ends_of_cards(text, groups, first)
            if ends:
                yield Candidate(IdentifierKind.CARD, groups[first][0], tuple(reversed(ends)))


def _ends_of_cards(text: str, groups: list[tuple[int, int]], first: int) -> list[int]:
    """Return where cards end that begin with a group of digits."""
    digits, found = "", []
    for start, end in groups[first : first + _MOST_CARD_GROUPS]:
        digits += text[start:end]
        if len(digits) >= _CARD_DIGITS.stop:
            break
        if len(digits) in _CARD_DIGITS and luhn_holds(digits):
            found.append(end)
    return found


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
