"""Records from a reader through a sanitizer to a writer, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from sfumato.foundation.randomness import RunKey
from sfumato.policy import Document
from sfumato.sanitize import Sanitizer
from sfumato.sanitize.sanitizer import Counts
from sfumato.scale.records import Reader, Records, Texts, Writer


@dataclass(frozen=True)
class RunSummary:
    """What a run came to."""

    records: int = 0
    longest_record: int = 0
    """Most protected words in one record, over all its text columns; public, as their positions are."""
    counts: Counts = field(default_factory=Counts)
    """For the owner of the text only."""
    samples: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Texts before and after, for the owner of the text only."""


Progress = Callable[[RunSummary], None]


def sanitize_records(
    sanitizer: Sanitizer,
    reader: Reader,
    writer: Writer,
    *,
    key: RunKey | None = None,
    samples: int = 0,
    progress: Progress | None = None,
) -> RunSummary:
    """Sanitize the text columns of every record; with a key, the noise of a record follows from its place.

    ``progress`` is called after every batch.
    """
    summary = RunSummary()
    for records in reader.batches():
        summary = _sanitize_batch(sanitizer, records, summary, key, samples)
        writer.write(records)
        if progress:
            progress(summary)
    writer.finish()
    return summary


def _sanitize_batch(
    sanitizer: Sanitizer, records: Records, summary: RunSummary, key: RunKey | None, samples: int
) -> RunSummary:
    before = records.texts()
    width = len(before)
    # Record by record, so that every text has a number of its own; where there is none, an empty text holds its place.
    flat = [text or "" for row in zip(*before, strict=True) for text in row]
    batch = sanitizer.batch(flat, key=key, first_record=records.first * width)
    after: Texts = [
        [None if old is None else new for old, new in zip(column, batch.texts[place::width], strict=True)]
        for place, column in enumerate(before)
    ]
    records.replace(after)
    longest = batch.counts.longest_record if width == 1 else _longest(sanitizer, before)
    wanted = max(0, samples - len(summary.samples))
    shown = [pair for pair in zip(flat, batch.texts, strict=True) if pair[0]][:wanted] if wanted else []
    return RunSummary(
        records=summary.records + len(records),
        longest_record=max(summary.longest_record, longest),
        counts=summary.counts + batch.counts,
        samples=summary.samples + tuple(shown),
    )


def _longest(sanitizer: Sanitizer, columns: Texts) -> int:
    """Return the most protected words in one record over several text columns."""

    def words(text: str | None) -> int:
        return int(np.count_nonzero(sanitizer.policy.protects(Document(text)))) if text else 0

    return max((sum(map(words, row)) for row in zip(*columns, strict=True)), default=0)
