"""Which tokens share one draw.

* ``token``: every occurrence is drawn anew; n words cost n times the promise for one.
* ``record``: equal words of a record share one draw, so a person keeps one name through a text.
* ``dataset``: equal words share one draw wherever they occur under one key; memory does not grow with the data, since
  the draw of a word is a function of the secret key and the word.

Sharing draws reveals which tokens are equal.  Under a change of a single token that loss is infinite (equal words stay
equal); the promise holds per distinct word for whoever takes the pattern of equal words as known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from sfumato.foundation.errors import ParameterError
from sfumato.foundation.guarantee import Guarantee
from sfumato.foundation.randomness import RunKey, Source, SystemSource
from sfumato.mechanism.base import Mechanism
from sfumato.space.metric import IndexArray

PADDING = ""
"""Stands for a word that pads a record; no token of a text is empty."""


@runtime_checkable
class DigitReplacer(Protocol):
    """Replaces numbers digit by digit, under a promise of its own."""

    @property
    def guarantee(self) -> Guarantee:
        """What is promised about a single digit."""
        ...

    def digit_count(self, token: str) -> int:
        """Return how many draws a token takes."""
        ...

    def replace(self, tokens: Sequence[str], source: Source) -> list[str]:
        """Return the replacements of tokens that consist of digits."""
        ...


class Consistency(StrEnum):
    """How far one draw for a word reaches."""

    TOKEN = "token"
    RECORD = "record"
    DATASET = "dataset"


_WHERE = {Consistency.RECORD: "within a record", Consistency.DATASET: "in the whole data set (under one key)"}


def with_consistency(guarantee: Guarantee, consistency: Consistency) -> Guarantee:
    """Return the guarantee as it holds when equal words share a draw."""
    if consistency is Consistency.TOKEN:
        return guarantee
    where = _WHERE[consistency]
    return (
        guarantee.with_public(f"which protected tokens are equal words {where}")
        .with_notes(
            f"Equal words {where} share one draw and so stay equal: if one occurrence of a word changed to a word that does "
            "not occur otherwise, the loss would be infinite. For an observer who takes the pattern of equal words as known, "
            "the promise holds once for every distinct word"
        )
        .with_document_notes(
            f"The versions compared have equal words in the same places, {where}; between others there is no bound, since equal "
            "words stay equal"
        )
    )


@dataclass(frozen=True)
class Batch:
    """The protected tokens of several records, one after the other."""

    tokens: list[str] = field(repr=False)
    """In lower case."""
    ids: IndexArray = field(repr=False)
    counts: Sequence[int]
    """Protected tokens of each record."""
    first_record: int


def draw(mechanism: Mechanism, batch: Batch, consistency: Consistency, key: RunKey | None) -> IndexArray:
    """Return an output word for every token of the batch."""
    if consistency is Consistency.TOKEN:
        return mechanism.sample(batch.ids, _record_source(batch, batch.counts, key, "word"))
    groups = _groups(batch, consistency)
    source: Source
    if consistency is Consistency.RECORD:
        source = _record_source(batch, groups.counts, key, "word")
    else:
        words = mechanism.space.words
        labels = [
            ("known word", words[batch.ids[place]]) if batch.ids[place] >= 0 else _label(batch, place)
            for place in groups.first
        ]
        source = _dataset_source(key, labels, [1] * len(labels))
    drawn = mechanism.sample(batch.ids[np.array(groups.first, dtype=np.intp)], source)
    return np.asarray(drawn[groups.of])


def replace_digits(
    digits: DigitReplacer, batch: Batch, consistency: Consistency, key: RunKey | None, words: list[str]
) -> int:
    """Write the replacements of the batch's numbers into ``words``; return how many there were."""
    numbers = _numbers(batch)
    if consistency is Consistency.TOKEN:
        groups = _Groups(list(range(len(numbers.tokens))), list(range(len(numbers.tokens))), list(numbers.counts))
    else:
        groups = _groups(numbers, consistency)
    distinct = [numbers.tokens[place] for place in groups.first]
    sizes = [digits.digit_count(token) for token in distinct]
    source: Source
    if consistency is Consistency.DATASET:
        source = _dataset_source(key, [("number", token) for token in distinct], sizes)
    else:
        ends = np.cumsum([0, *groups.counts])
        totals = [sum(sizes[start:end]) for start, end in pairwise(ends.tolist())]
        source = _record_source(batch, totals, key, "digit")
    replaced = digits.replace(distinct, source)
    for place, group in zip(np.flatnonzero(_is_number(batch)).tolist(), groups.of, strict=True):
        words[place] = replaced[group]
    return len(numbers.tokens)


def _is_number(batch: Batch) -> npt.NDArray[np.bool_]:
    return np.fromiter((token.isdecimal() for token in batch.tokens), dtype=bool, count=len(batch.tokens))


def _numbers(batch: Batch) -> Batch:
    """Return the batch of its numbers alone."""
    chosen = np.flatnonzero(_is_number(batch))
    record = np.repeat(np.arange(len(batch.counts)), batch.counts)
    counts = np.bincount(record[chosen], minlength=len(batch.counts)).tolist()
    return Batch([batch.tokens[i] for i in chosen], batch.ids[chosen], counts, batch.first_record)


def _record_source(batch: Batch, counts: Sequence[int], key: RunKey | None, purpose: str) -> Source:
    if key is None:
        return SystemSource()
    return key.records(range(batch.first_record, batch.first_record + len(counts)), counts, purpose)


def _dataset_source(key: RunKey | None, labels: Sequence[tuple[str, str]], counts: Sequence[int]) -> Source:
    if key is None:
        raise ParameterError("consistency over a data set needs a run key; pass key=RunKey.generate()")
    return key.streams([(purpose, word.encode("utf-8", "surrogatepass")) for purpose, word in labels], counts)


def _label(batch: Batch, place: int) -> tuple[str, str]:
    token = batch.tokens[place]
    if token != PADDING:
        return "unknown word", token
    ends = np.cumsum(batch.counts)
    record = int(np.searchsorted(ends, place, side="right"))
    return "padding", f"{batch.first_record + record}:{place - int(ends[record]) + batch.counts[record]}"


@dataclass(frozen=True)
class _Groups:
    of: list[int]
    """The group of every token."""
    first: list[int]
    """A token of every group."""
    counts: list[int]
    """How many groups begin in each record."""


def _groups(batch: Batch, consistency: Consistency) -> _Groups:
    """Gather equal words: spellings of one vocabulary word, or unknown words with one lower-case spelling."""
    seen: dict[object, int] = {}
    groups = _Groups([], [], [])
    place = 0
    for count in batch.counts:
        if consistency is Consistency.RECORD:
            seen = {}
        before = len(groups.first)
        for at in range(place, place + count):
            position, token = int(batch.ids[at]), batch.tokens[at]
            word: object = position if position >= 0 else token
            if token == PADDING:
                word = (PADDING, at)  # padding never shares a draw: equal words would show where it begins
            group = seen.setdefault(word, len(groups.first))
            if group == len(groups.first):
                groups.first.append(at)
            groups.of.append(group)
        groups.counts.append(len(groups.first) - before)
        place += count
    return groups
