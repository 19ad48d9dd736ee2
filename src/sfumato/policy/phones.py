"""Phone numbers, recognised by their form.

The groups of digits of a text are looked at one after the other.  Wherever one can begin a number, those behind it that
are joined to it are added as long as the number is not too long.  So of two numbers in a row neither hides the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sfumato.policy.accounts import NO_LETTER_BEFORE, NO_LETTER_BEHIND
from sfumato.policy.candidates import Candidate, IdentifierKind

_FEWEST, _MOST = 7, 15
_GROUP = re.compile(rf"{NO_LETTER_BEFORE}[0-9]+{NO_LETTER_BEHIND}")
_JOINT = re.compile(r"\)?[ ./-]{0,3}\(?")
_LONGEST_JOINT = 5
_LEAD = re.compile(r"(?:\(?\+ ?\(?|\()\Z")
_LONGEST_LEAD = 4
_ABROAD = re.compile("00[1-9]")
_DAY, _MONTH, _YEAR = "(?:0[1-9]|[12][0-9]|3[01])", "(?:0[1-9]|1[0-2])", "(?:(?:19|20)[0-9]{2})"
_DATE = re.compile(
    rf"(?:(?:{_DAY}([./-]){_MONTH}\1|{_MONTH}([./-]){_DAY}\2)(?:{_YEAR}|[0-9]{{2}})|{_YEAR}([./-]){_MONTH}\3{_DAY})"
    r"(?![0-9]|[./-][0-9])"
)
_LONG_DATE = len("31.12.1999")
_AMERICAN = re.compile("[2-9][0-9]{2}")
_AMERICAN_WHOLE = re.compile("1?[2-9][0-9]{2}[2-9][0-9]{6}")


@dataclass(frozen=True, slots=True)
class _Group:
    """A group of digits, and what matters of its surroundings."""

    start: int
    end: int
    digits: str
    lead: str
    """The plus or the bracket in front of it."""
    joined: bool
    """Whether the next group may belong to the same number."""
    dated: bool
    """Whether it is part of a date."""
    begins_date: bool
    """Whether a date with the year in full begins with it; shorter ones may as well be the end of a phone number."""


def phones(text: str) -> Iterator[Candidate]:
    """Find phone numbers in a text of plain characters.

    >>> [(found.start, found.ends) for found in phones("0171 2345678 / 0172 3456789")]
    [(0, (12, 19)), (15, (27,))]
    """
    groups = _groups(text)
    for place, group in enumerate(groups):
        ends = [] if group.dated else _american(groups, place) or _ends(groups, place)
        if ends:
            yield Candidate(IdentifierKind.PHONE, group.start - len(group.lead), tuple(ends))


def _groups(text: str) -> list[_Group]:
    spans = [match.span() for match in _GROUP.finditer(text)]
    groups: list[_Group] = []
    date_ends = 0
    for place, (start, end) in enumerate(spans):
        date = _date_at(text, start) if start >= date_ends else None
        date_ends = date or date_ends
        following = spans[place + 1][0] if place + 1 < len(spans) else None
        joined = following is not None and _joined(text, end, following)
        groups.append(
            _Group(
                start,
                end,
                text[start:end],
                _lead(text, start, end, joined),
                joined,
                start < date_ends,
                date is not None and date - start == _LONG_DATE,
            )
        )
    return groups


def _date_at(text: str, start: int) -> int | None:
    """Return the offset behind the date that begins at a place; groups in a longer row of the same are none."""
    date = _DATE.match(text, start)
    if date is None:
        return None
    goes_on = start > 1 and text[start - 1] in "./-" and text[start - 2].isdigit()
    return None if goes_on else date.end()


def _joined(text: str, end: int, following: int) -> bool:
    """Return whether what stands between two groups of digits may stand inside a number."""
    return following - end <= _LONGEST_JOINT and _JOINT.fullmatch(text, end, following) is not None


def _lead(text: str, start: int, end: int, joined: bool) -> str:
    """Return the plus in front of a group, and the bracket if it is closed behind the group and not the number."""
    match = _LEAD.search(text, max(0, start - _LONGEST_LEAD), start)
    lead = match[0] if match else ""
    if lead.startswith("(") and not (joined and text[end : end + 1] == ")"):
        lead = lead[1:]
    return lead


def _ends(groups: list[_Group], place: int) -> list[int]:
    """Return where a number ends that begins with a group and a plus or a 0, the likeliest end first."""
    group = groups[place]
    abroad = ("+" in group.lead and not group.digits.startswith("0")) or _ABROAD.match(group.digits) is not None
    if not (abroad or _begins_at_home(groups, place)):
        return []
    most = _MOST + 2 if group.digits.startswith("00") else _MOST
    shortest, ends = None, []
    digits = 0
    while True:
        one = groups[place]
        digits += len(one.digits)
        if digits > most or (one is not group and not abroad and len(one.digits) < 2):
            break
        if digits >= _FEWEST:
            ends.append(one.end)
            if shortest is None and one.joined and _likely_another(groups, place + 1):
                shortest = len(ends)
        if not one.joined or (digits >= _FEWEST and groups[place + 1].begins_date):
            break
        place += 1
    likely, further = ends[:shortest], ends[shortest:] if shortest else []
    return likely[::-1] + further


def _begins_at_home(groups: list[_Group], place: int) -> bool:
    """Return whether a group is a 0 and more digits, or a 0 that is set apart as that of a phone number."""
    group = groups[place]
    return group.digits.startswith("0") and (len(group.digits) > 1 or group.lead.startswith("("))


def _likely_another(groups: list[_Group], place: int) -> bool:
    """Return whether a group rather begins a number of its own."""
    group = groups[place]
    return group.digits.startswith("0") or "+" in group.lead or bool(_american(groups, place))


def _american(groups: list[_Group], place: int) -> list[int]:
    """Return where a number ends that is grouped like a North American one, or is ten such digits in a row."""
    if _AMERICAN_WHOLE.fullmatch(groups[place].digits):
        return [groups[place].end]
    if groups[place].digits == "1" and groups[place].joined:
        place += 1
    if not _AMERICAN.fullmatch(groups[place].digits):
        return []
    lengths: list[int] = []
    while groups[place].joined and len(lengths) < 2:
        place += 1
        lengths.append(len(groups[place].digits))
        if lengths in ([7], [3, 4]):
            return [groups[place].end]
    return []
