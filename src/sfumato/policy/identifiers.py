"""Structured identifiers: e-mail addresses, URLs, IBANs, payment cards and phone numbers.

They are recognised by their form alone: no model, no list from elsewhere.  Digits of any script and of full width,
no-break spaces, dashes and the like count as the plain characters they stand for.

* An e-mail address has an @ between a part of any letters and punctuation that mail knows and a domain: with a dot in
  it, a number in brackets, or ``localhost``.
* An IBAN has a country's letters, that country's length and at least seven digits; its check digits need not be right,
  for a mistyped IBAN still tells much.
* A card has 13 to 19 digits whose check digit is right, in groups of at least three.
* A phone number has 7 to 15 digits and begins with ``+``, ``00``, ``(0`` or ``0``, or is grouped like a North American
  number, or is ten digits in a row that could be one (2 to 9 at the first and at the fourth place); a date is none.

Where several stand in a row and could be read in more than one way, whatever belongs to one of the readings counts.
Where two kinds could be meant, the one named first above is.

>>> text = "mail bob@example.org or call +44 20 7946 0958"
>>> [(str(found.kind), text[found.start : found.end]) for found in find_identifiers(text)]
[('email', 'bob@example.org'), ('phone', '+44 20 7946 0958')]
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from sfumato.foundation.checks import require_one_of
from sfumato.foundation.errors import ParameterError
from sfumato.policy.accounts import cards, ibans
from sfumato.policy.addresses import address_tokens, unusual_emails
from sfumato.policy.base import CHOSEN_IN_CONTEXT, Document, Mask, Policy
from sfumato.policy.candidates import Candidate, Identifier, IdentifierKind, apart
from sfumato.policy.phones import phones
from sfumato.policy.plain import plain
from sfumato.policy.spans import touched

EVERY_KIND = tuple(IdentifierKind)


def find_identifiers(text: str, kinds: Collection[IdentifierKind | str] = EVERY_KIND) -> list[Identifier]:
    """Return the identifiers of some kinds in a text, in order and without overlaps.

    Together they cover whatever could belong to one.  In a row of numbers one may therefore be longer than it should be.
    """
    wanted = _wanted(kinds)
    in_plain = plain(text)
    return apart(in_plain, [find(text, in_plain) for kind, find in _FINDERS if kind in wanted])


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


_FINDERS: tuple[tuple[IdentifierKind, Callable[[str, str], Iterable[Candidate]]], ...] = (
    (IdentifierKind.EMAIL, lambda text, in_plain: address_tokens(text, IdentifierKind.EMAIL)),
    (IdentifierKind.URL, lambda text, in_plain: address_tokens(text, IdentifierKind.URL)),
    (IdentifierKind.EMAIL, lambda text, in_plain: unusual_emails(text)),
    (IdentifierKind.IBAN, lambda text, in_plain: ibans(in_plain)),
    (IdentifierKind.CARD, lambda text, in_plain: cards(in_plain)),
    (IdentifierKind.PHONE, lambda text, in_plain: phones(in_plain)),
)
"""What finds each kind, in the text or in the text of plain characters; what an earlier one finds comes first."""
