"""Random identifiers in place of real ones: e-mail addresses, URLs, IBANs, payment cards and phone numbers.

What is put in is drawn without looking at what was there, so it has epsilon 0; what stays visible is that an identifier
of this kind stood here.  The random ones belong to nobody: names that are reserved for examples, card numbers of the
range that test cards have, IBANs of a bank that does not exist, phone numbers reserved for fiction.  Check digits are
right.

With ``form="preserved"`` a random identifier also has the length, grouping and punctuation of the real one, the country
of an IBAN and the 0, 00 or + of a phone number; all of these are then public, and a random phone number or IBAN may be
somebody's.  Where numbers in a row could be read in several ways, all of them are replaced, several by one if need be.

>>> from sfumato.foundation.randomness import RunKey
>>> replacer = IdentifierReplacer(["email", "phone"])
>>> replaced = replacer.replace("Ask bob@work.org or 0171 2345678.", RunKey.from_seed(3).record(0, "identifier"))
>>> replaced.text
'Ask hrhoe9nwvz@example.org or +44 7700 900501.'
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from sfumato.foundation.checks import require_one_of
from sfumato.foundation.randomness import Source, below
from sfumato.policy.base import Document, Mask
from sfumato.policy.candidates import Identifier, IdentifierKind
from sfumato.policy.identifiers import EVERY_KIND, described, find_identifiers
from sfumato.policy.plain import plain, plain_address
from sfumato.policy.spans import covered

FORMS = ("fixed", "preserved")

_LETTERS, _DIGITS = string.ascii_lowercase, string.digits
_WORD = _LETTERS + _DIGITS
_DOMAINS = ("example.com", "example.org", "example.net")
_HOST = re.compile(r"(?:[A-Za-z]+://)?[^/?#]*")
_TEST_CARDS = "400000"
_FICTION = "+44 7700 900"

Template = list[Sequence[str]]
"""The pieces of an identifier, each with what it may be; a piece with one possibility is not drawn."""


@dataclass(frozen=True)
class Replaced:
    """A text with random identifiers in it."""

    text: str = field(repr=False)
    spans: list[tuple[int, int]]
    """Where the random identifiers stand in the new text."""
    origins: list[tuple[int, int]]
    """Where the real ones stood in the original."""

    def mask(self, document: Document) -> Mask:
        """Return which tokens of the new text are nothing but random identifier, and need no further protection."""
        return covered(document, self.spans)


class IdentifierReplacer:
    """Puts a random identifier in the place of every one it recognises; see :func:`sfumato.policy.identifiers`."""

    def __init__(self, kinds: Collection[IdentifierKind | str] = EVERY_KIND, *, form: str = "fixed") -> None:
        require_one_of(FORMS, form=form)
        find_identifiers("", kinds)  # every unknown kind is an error
        self.kinds = frozenset(IdentifierKind(kind) for kind in kinds)
        self.form = form

    @property
    def public(self) -> tuple[str, ...]:
        """What a replaced text shows of the identifiers that were in it."""
        names = described(self.kinds)
        where = f"where {names} stand, how many there are and which of these each is (found by their form)"
        if self.form == "fixed":
            return (where,)
        shape = "the format of each: its length, grouping, punctuation and letter case, which characters are digits"
        if IdentifierKind.IBAN in self.kinds:
            shape += ", the country of an IBAN"
        if IdentifierKind.PHONE in self.kinds:
            shape += ", whether a phone number begins with 0, 00 or +"
        return where, shape

    @property
    def note(self) -> str:
        """What is promised about identifiers."""
        return (
            f"What has the form of {described(self.kinds)} is replaced by a random one that does not depend on it "
            "(epsilon 0); what has another form is treated like other text"
        )

    def replace(self, text: str, source: Source) -> Replaced:
        """Return the text with every identifier replaced by a random one, drawn anew at every place."""
        found = find_identifiers(text, self.kinds)
        if not found:
            return Replaced(text, [], [])
        templates = [self._template(text, identifier) for identifier in found]
        drawn = _draw(templates, source)
        parts: list[str] = []
        spans = []
        position = length = 0
        for identifier, pieces in zip(found, drawn, strict=True):
            random = _FINISHERS[identifier.kind]("".join(pieces))
            between = text[position : identifier.start]
            start = length + len(between)
            parts += (between, random)
            spans.append((start, start + len(random)))
            position, length = identifier.end, start + len(random)
        parts.append(text[position:])
        return Replaced("".join(parts), spans, [(identifier.start, identifier.end) for identifier in found])

    def _template(self, text: str, identifier: Identifier) -> Template:
        if self.form == "fixed":
            return _FIXED[identifier.kind]
        written = text[identifier.start : identifier.end]
        is_address = identifier.kind in (IdentifierKind.EMAIL, IdentifierKind.URL)
        return _PRESERVED[identifier.kind](plain_address(written) if is_address else plain(written))


def _draw(templates: Sequence[Template], source: Source) -> list[list[str]]:
    """Choose every piece of every template uniformly, with one call for random numbers."""
    bounds = [len(choices) for template in templates for choices in template if len(choices) > 1]
    numbers = iter(below(source, np.array(bounds, dtype=np.uint64)).tolist())
    return [
        [choices[next(numbers)] if len(choices) > 1 else choices[0] for choices in template] for template in templates
    ]


def _like(character: str) -> Sequence[str]:
    """Return what may stand in the place of a character: a digit for a digit, a letter for a letter."""
    if character in _DIGITS:
        return _DIGITS
    if character in string.punctuation or character == " ":
        return (character,)
    return string.ascii_uppercase if character in string.ascii_uppercase else _LETTERS


def _shape(text: str) -> Template:
    return [_like(character) for character in text]


def _email_like(original: str) -> Template:
    local = _shape(original.rpartition("@")[0])
    if original[3:4] == ".":
        # With www. at its beginning it would be read as a URL, and take what follows along.
        local[0] = [character for character in local[0] if character not in "wW"] or local[0]
    return [*local, ("@",), _DOMAINS]


def _url_like(original: str) -> Template:
    host = _HOST.match(original)
    rest = original[host.end() :] if host else ""
    return [("https://",), _DOMAINS, *_shape(rest)]


def _iban_like(original: str) -> Template:
    return [(original[:2],), ("00",), *_shape(original[4:])]


def _card_like(original: str) -> Template:
    template = _shape(original)
    digits = [place for place, character in enumerate(original) if character in _DIGITS]
    for place, digit in zip(digits, _TEST_CARDS, strict=False):
        template[place] = (digit,)
    template[digits[-1]] = ("0",)
    return template


def _phone_like(original: str) -> Template:
    template = _shape(original)
    first = next(place for place, character in enumerate(original) if character in _DIGITS)
    if original[first] != "0":
        template[first] = _DIGITS[1:]
    elif original[first : first + 2] == "00":
        template[first : first + 2] = [("0",), ("0",)]
    else:
        template[first] = ("0",)
    return template


def _with_check_digit(card: str) -> str:
    """Set the last digit, which is 0, so that Luhn's formula holds."""
    digits = [int(character) for character in card if character in _DIGITS]
    doubled = [digit * 2 - 9 * (digit > 4) if place % 2 else digit for place, digit in enumerate(reversed(digits))]
    return card[:-1] + str(-sum(doubled) % 10)


def _with_iban_check(iban: str) -> str:
    """Set the two check digits behind the country, which are 00 (ISO 7064, modulo 97)."""
    compact = "".join(filter(str.isalnum, iban))
    number = int("".join(str(int(character, 36)) for character in compact[4:] + compact[:4]))
    return f"{iban[:2]}{98 - number % 97:02}{iban[4:]}"


def _as_it_is(text: str) -> str:
    return text


_FIXED: dict[IdentifierKind, Template] = {
    IdentifierKind.EMAIL: [_LETTERS, *[_WORD] * 9, ("@",), _DOMAINS],
    IdentifierKind.URL: [("https://",), _DOMAINS, ("/",), *[_WORD] * 10],
    # No German bank has a number that begins with 0.
    IdentifierKind.IBAN: [("DE000",), *[_DIGITS] * 17],
    IdentifierKind.CARD: [(_TEST_CARDS,), *[_DIGITS] * 9, ("0",)],
    IdentifierKind.PHONE: [(_FICTION,), *[_DIGITS] * 3],
}
_PRESERVED: dict[IdentifierKind, Callable[[str], Template]] = {
    IdentifierKind.EMAIL: _email_like,
    IdentifierKind.URL: _url_like,
    IdentifierKind.IBAN: _iban_like,
    IdentifierKind.CARD: _card_like,
    IdentifierKind.PHONE: _phone_like,
}
_FINISHERS: dict[IdentifierKind, Callable[[str], str]] = {
    **dict.fromkeys(IdentifierKind, _as_it_is),
    IdentifierKind.CARD: _with_check_digit,
    IdentifierKind.IBAN: _with_iban_check,
}
