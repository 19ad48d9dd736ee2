"""The tokens of many texts at once: the same tokens as :func:`sfumato.text.pieces` finds text by text, much faster.

The texts are laid end to end with a line break between them, which is a gap, so no token reaches from one text into the
next.  Where tokens begin and end is then seen in an array that has one entry for each character.  Only texts that
may hold an address are looked at one by one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import compress, pairwise

import numpy as np
import numpy.typing as npt

from sfumato.text.case import Case, case_of
from sfumato.text.tokens import ADDRESSES_TOO, GAP_CHARACTERS, IDEOGRAPHS, may_hold_addresses

Places = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]
Points = npt.NDArray[np.uint8] | npt.NDArray[np.uint32]
_GAP, _LETTER, _IDEOGRAPH = 0, 1, 2
_CASES = tuple(Case)
_CHARACTERS_AT_ONCE = 1 << 15


def characters(text: str) -> Points:
    """Return the code points of a text; one byte each where all are ASCII."""
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def written(points: Points) -> str:
    """Return the text of code points."""
    return points.tobytes().decode("ascii" if points.dtype.itemsize == 1 else "utf-32-le", "surrogatepass")


@dataclass(frozen=True, eq=False)
class Spread:
    """Some texts laid end to end, and where their tokens are."""

    whole: str = field(repr=False)
    """A line break, and every text with a line break behind it."""
    bounds: Places
    """Where each text begins in the whole, and where one more would."""
    starts: Places
    ends: Places
    counts: Places
    """Tokens of each text."""
    separated: bool = False
    """Whether there is a gap between any two tokens and none inside of one; so without addresses and ideographs."""

    @classmethod
    def of(cls, texts: Sequence[str]) -> Spread:
        """Find the tokens of texts.

        >>> spread = Spread.of(["It's me", "", "bob@example.org, 中文"])
        >>> spread.counts.tolist(), spread.lowered
        ([3, 0, 3], ['it', 's', 'me', 'bob@example.org', '中', '文'])
        """
        whole = "\n".join(("", *texts, ""))
        lengths = np.fromiter(map(len, texts), dtype=np.intp, count=len(texts))
        bounds = np.concatenate([[1], 1 + np.cumsum(lengths + 1)])
        starts, ends, separated = _runs(whole)
        if may_hold_addresses(whole):
            starts, ends = _with_addresses(texts, bounds, starts, ends)
            separated = False
        counts = np.diff(np.searchsorted(starts, bounds))
        return cls(whole, bounds, starts, ends, counts, separated)

    def __len__(self) -> int:
        return len(self.starts)

    def token(self, place: int) -> str:
        """Return one token."""
        return self.whole[self.starts[place] : self.ends[place]]

    @cached_property
    def lowered(self) -> list[str]:
        """All tokens in lower case."""
        if self.separated:
            return _spaced(self.whole).lower().split()
        whole = self.whole
        spans = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return [whole[start:end].lower() for start, end in spans]

    @property
    def cases(self) -> Places:
        """The letter case of every token, by its place in :class:`~sfumato.text.case.Case`."""
        cases = np.zeros(len(self), dtype=np.intp)
        points = characters(self.whole)
        is_capital = (points >= ord("A")) & (points <= ord("Z"))
        if is_capital.any():
            capitals = self._within(is_capital)
            small = self._within((points >= ord("a")) & (points <= ord("z")))
            cases[(capitals == 1) & is_capital[self.starts]] = _CASES.index(Case.TITLE)
            cases[(capitals > 0) & (small == 0) & (self.ends - self.starts > 1)] = _CASES.index(Case.UPPER)
        if not self.whole.isascii():
            for place in np.flatnonzero(self._within(points >= 0x80)).tolist():
                cases[place] = _CASES.index(case_of(self.token(place)))
        return cases

    def _within(self, flags: Flags) -> npt.NDArray[np.int32]:
        """Return how many characters of every token have a flag."""
        running = np.cumsum(flags, dtype=np.int32)
        return np.asarray(running[self.ends - 1] - running[self.starts - 1])

    def only(self, chosen: Flags) -> Spread:
        """Return the same texts with some of their tokens; what is not chosen is part of the gaps."""
        numbers = np.repeat(np.arange(len(self.counts)), self.counts)
        counts = np.bincount(numbers[chosen], minlength=len(self.counts))
        some = Spread(self.whole, self.bounds, self.starts[chosen], self.ends[chosen], counts)
        some.__dict__["lowered"] = list(compress(self.lowered, chosen.tolist()))
        return some

    def rewritten(self, words: list[str]) -> list[str]:
        """Return the texts with every token replaced by a word and all gaps as they are.

        >>> Spread.of(["It's me", ""]).rewritten(["that", "is", "you"])
        ["that'is you", '']
        """
        old, new = characters(self.whole), characters("".join(words))
        if old.dtype != new.dtype:
            old, new = old.astype(np.uint32), new.astype(np.uint32)
        lengths = np.fromiter(map(len, words), dtype=np.intp, count=len(words))
        # Gap, word, gap, ..., word, gap: where each begins in the characters there are, and how long it is.
        begins = np.zeros(2 * len(words) + 1, dtype=np.intp)
        begins[1::2], begins[2::2] = len(old) + np.cumsum(lengths) - lengths, self.ends
        sizes = np.empty_like(begins)
        sizes[:-1:2], sizes[1::2] = self.starts - begins[:-1:2], lengths
        sizes[-1] = len(old) - begins[-1]
        text = written(_laid_out(np.concatenate([old, new]), begins, sizes))
        grown = np.concatenate([[0], np.cumsum(lengths - (self.ends - self.starts))])
        edges = (self.bounds + grown[np.searchsorted(self.starts, self.bounds)]).tolist()
        return [text[start : end - 1] for start, end in pairwise(edges)]


def _laid_out(points: Points, begins: Places, sizes: Places) -> Points:
    """Return stretches of characters one after the other, working on a bounded number of them at a time."""
    stops = np.cumsum(sizes)
    out = np.empty(int(stops[-1]), dtype=points.dtype)
    shifts = begins - (stops - sizes)
    for start in range(0, len(out), _CHARACTERS_AT_ONCE):
        stop = min(start + _CHARACTERS_AT_ONCE, len(out))
        first, last = np.searchsorted(stops, [start, stop - 1], side="right")
        ends = np.minimum(stops[first : last + 1], stop)
        source = np.repeat(shifts[first : last + 1], np.diff(ends, prepend=start))
        source += np.arange(start, stop)
        points.take(source, out=out[start:stop], mode="clip")
    return out


def _runs(whole: str) -> tuple[Places, Places, bool]:
    """Return where tokens begin and end, addresses taken apart, and whether there is a gap between any two."""
    kinds = _kinds(whole.isascii())[characters(whole)]
    inside = kinds == _LETTER
    edges = np.flatnonzero(inside[1:] != inside[:-1]) + 1
    starts, ends = edges[::2], edges[1::2]
    alone = np.flatnonzero(kinds == _IDEOGRAPH)
    if len(alone) == 0:
        return starts, ends, True
    starts = np.concatenate([starts, alone])
    order = np.argsort(starts, kind="stable")
    return starts[order], np.concatenate([ends, alone + 1])[order], False


def _with_addresses(texts: Sequence[str], bounds: Places, starts: Places, ends: Places) -> tuple[Places, Places]:
    """Find the tokens of texts that may hold an address again, by pattern."""
    pieces: list[tuple[Places, Places]] = []
    at = 0
    for number, text in enumerate(texts):
        if not may_hold_addresses(text):
            continue
        begin, end = np.searchsorted(starts, bounds[number : number + 2])
        spans = np.array([match.span() for match in ADDRESSES_TOO.finditer(text)], dtype=np.intp).reshape(-1, 2)
        spans += bounds[number]
        pieces += [(starts[at:begin], ends[at:begin]), (spans[:, 0], spans[:, 1])]
        at = int(end)
    pieces.append((starts[at:], ends[at:]))
    return np.concatenate([one for one, _ in pieces]), np.concatenate([other for _, other in pieces])


@cache
def _kinds(ascii_only: bool) -> npt.NDArray[np.uint8]:
    """Return for every code point whether it is part of a gap, of a word, or a token of its own."""
    every = "".join(map(chr, range(0x80 if ascii_only else 0x110000)))
    kinds = np.full(len(every), _LETTER, dtype=np.uint8)
    for pattern, kind in ((GAP_CHARACTERS, _GAP), (IDEOGRAPHS, _IDEOGRAPH)):
        for run in re.finditer(f"[{pattern}]+", every):
            kinds[slice(*run.span())] = kind
    return kinds


def _spaced(whole: str) -> str:
    """Return the text with a space in place of every character of a gap."""
    if whole.isascii():
        return whole.encode("ascii").translate(_spaces()).decode("ascii")
    points = characters(whole)
    return written(np.where(_kinds(False)[points] == _GAP, np.uint32(0x20), points))


@cache
def _spaces() -> bytes:
    """Return a table that puts a space in place of every ASCII character of a gap."""
    kinds = _kinds(True)
    return bytes(code if code < 0x80 and kinds[code] != _GAP else 0x20 for code in range(0x100))
