"""E-mail addresses and URLs, recognised by their form.

Texts are split into tokens by a pattern for the usual addresses.  It is not enough to find them all: a part in front of
the @ may have any of ``!#$%&'*+-/=?^_`{|}~`` in it, two dots, or a dot at its end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sfumato.policy.candidates import Candidate, IdentifierKind
from sfumato.policy.plain import plain_address
from sfumato.text import Kind, kind_of, pieces
from sfumato.text.tokens import GAP_CHARACTERS, IDEOGRAPHS, may_hold_addresses

_LETTER = rf"[^{GAP_CHARACTERS}]"
_RUN = re.compile(rf"(?:{_LETTER}|[@!#$%&'*+/=?^_`{{|}}~.-])+(?:\[[0-9A-Za-z.:]+\])?")
_DOMAINS = (
    re.compile(rf"(?:[^{GAP_CHARACTERS}{IDEOGRAPHS}]|[._-])+|\[[0-9A-Za-z.:]+\]"),
    re.compile(rf"(?:{_LETTER}|[._-])+"),
)
_IDEOGRAPH = re.compile(f"[{IDEOGRAPHS}]")
_NO_LETTERS = re.compile(f"[{GAP_CHARACTERS}]+")


def address_tokens(text: str, kind: IdentifierKind) -> Iterator[Candidate]:
    """Find the tokens of a text that are addresses."""
    if not may_hold_addresses(text):
        return
    position = 0
    for place, piece in enumerate(pieces(text)):
        if place % 2 and kind_of(piece) is _TOKENS[kind]:
            yield Candidate(kind, position, (position + len(piece),))
        position += len(piece)


def unusual_emails(text: str) -> Iterator[Candidate]:
    """Find e-mail addresses of any form, also those of which a token is only a part.

    >>> [(found.start, found.ends) for found in unusual_emails("ask o'brien@example.org")]
    [(4, (23,))]
    """
    plain = plain_address(text)
    if "@" not in plain:
        return
    for run in _RUN.finditer(plain):
        start, at = run.start(), plain.find("@", *run.span())
        while at >= 0:
            end = _end_of_domain(plain, at + 1, run.end())
            if end is not None:
                begin = _begin_of_local_part(plain, start, at)
                if begin < at:
                    yield Candidate(IdentifierKind.EMAIL, begin, (end,))
                start = end
            at = plain.find("@", at + 1, run.end())


def _end_of_domain(text: str, start: int, stop: int) -> int | None:
    """Return the offset behind a domain that begins at a place: with a dot in it, in brackets, or ``localhost``."""
    for pattern in _DOMAINS:
        match = pattern.match(text, start, stop)
        domain = match[0].rstrip("._-") if match else ""
        if domain.startswith("[") or "." in domain or domain.lower() == "localhost":
            return start + len(domain)
    return None


def _begin_of_local_part(text: str, start: int, at: int) -> int:
    """Return where the part before an @ begins: not with punctuation, and not in a sentence written without spaces."""
    begin = at
    while begin > start and (_IDEOGRAPH.match(text[at - 1]) or not _IDEOGRAPH.match(text[begin - 1])):
        begin -= 1
    opening = _NO_LETTERS.match(text, begin, at)
    return opening.end() if opening else begin


_TOKENS = {IdentifierKind.EMAIL: Kind.EMAIL, IdentifierKind.URL: Kind.URL}
