"""From stretches that may be identifiers to identifiers that do not overlap.

Neighbouring numbers can be read in several ways: ``123 4111 1111 1111 1111`` holds a card, and by chance its first four
groups may be another.  A recogniser therefore gives every reading, and **all that any of them covers belongs to some
identifier**: of readings that overlap one is taken, and what only the others cover is added to it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

_JOINTS = " ./-()+"


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


@dataclass(frozen=True, slots=True)
class Candidate:
    """A stretch that may be an identifier, in all its lengths."""

    kind: IdentifierKind
    start: int
    ends: tuple[int, ...]
    """Where it may end, the likeliest first."""

    @property
    def reach(self) -> int:
        """The furthest that it may end."""
        return max(self.ends)


def apart(text: str, candidates: Iterable[Iterable[Candidate]]) -> list[Identifier]:
    """Return identifiers, in order and without overlaps, that together cover all that any candidate covers.

    The candidates come in groups, those of a group in order; what an earlier group takes is not taken again.

    >>> card, phone = IdentifierKind.CARD, IdentifierKind.PHONE
    >>> apart("030 1234567 12", [[Candidate(card, 4, (11,))], [Candidate(phone, 0, (14, 11))]])
    [Identifier(kind=<IdentifierKind.CARD: 'card'>, start=0, end=14)]
    """
    taken: list[Identifier] = []
    every: list[tuple[int, int]] = []
    for group in map(list, candidates):
        every += [(candidate.start, candidate.reach) for candidate in group]
        taken += _free(group, taken)
        taken.sort(key=_start)
    return list(_covering(text, taken, _merged(every)))


def _start(identifier: Identifier) -> int:
    return identifier.start


def _free(group: list[Candidate], taken: list[Identifier]) -> list[Identifier]:
    """Return identifiers for the candidates of a group, as far as there is room."""
    found: list[Identifier] = []
    last = 0
    for candidate in group:
        if candidate.start < last:
            continue
        following = bisect_left(taken, candidate.start, key=_start)
        if following and taken[following - 1].end > candidate.start:
            continue
        room = taken[following].start if following < len(taken) else candidate.reach
        end = next((end for end in candidate.ends if end <= room), None)
        if end is not None:
            found.append(Identifier(candidate.kind, candidate.start, end))
            last = end
    return found


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the stretches that spans cover together; spans that only touch stay apart."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _covering(text: str, taken: list[Identifier], stretches: list[tuple[int, int]]) -> Iterator[Identifier]:
    """Extend the identifiers of each stretch until they cover it."""
    place = 0
    for start, end in stretches:
        first = place
        while place < len(taken) and taken[place].start < end:
            one = taken[place]
            place += 1
            following = taken[place].start if place < len(taken) else end
            # Spaces between two identifiers are of neither.
            rest = text[one.end : min(following, end)].rstrip(_JOINTS)
            begin = start if place == first + 1 else one.start
            yield replace(one, start=begin, end=one.end + len(rest))
