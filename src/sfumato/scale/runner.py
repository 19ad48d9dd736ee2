"""Records from a reader through a sanitizer to a writer, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sfumato.foundation.randomness import RunKey
from sfumato.sanitize import Sanitizer
from sfumato.sanitize.sanitizer import Counts
from sfumato.scale.crew import Alone, Crew, Done, Task, Work
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

    def __add__(self, other: RunSummary) -> RunSummary:
        return RunSummary(
            self.records + other.records,
            max(self.longest_record, other.longest_record),
            self.counts + other.counts,
            self.samples + other.samples,
        )


Progress = Callable[[RunSummary], None]


def sanitize_records(
    sanitizer: Sanitizer,
    reader: Reader,
    writer: Writer,
    *,
    key: RunKey | None = None,
    samples: int = 0,
    progress: Progress | None = None,
    crew: Crew | None = None,
    start: RunSummary | None = None,
) -> RunSummary:
    """Sanitize the text columns of every record; with a key, the noise of a record follows from its place.

    ``progress`` is called after every batch.  A ``crew`` does the work in other processes, to the same outcome;
    ``start`` is what was done before of a run that is taken up.
    """
    summary = start or RunSummary()
    for records, work, done in (crew or Alone(sanitizer)).run(_tasks(reader, key)):
        records.replace(_columns(records.texts(), done.texts))
        wanted = max(0, samples - len(summary.samples))
        shown = [pair for pair in zip(work.texts, done.texts, strict=True) if pair[0]][:wanted] if wanted else []
        summary += _summary(records, done, tuple(shown))
        writer.write(records)
        if progress:
            progress(summary)
    writer.finish()
    return summary


def _tasks(reader: Reader, key: RunKey | None) -> Iterator[Task[Records]]:
    for records in reader.batches():
        columns = records.texts()
        width = len(columns)
        # Record by record, so that every text has a number of its own; where there is none, an empty text holds its place.
        flat = [text or "" for row in zip(*columns, strict=True) for text in row]
        yield Task(Work(flat, width, records.first * width, key), records)


def _columns(before: Texts, flat: list[str]) -> Texts:
    width = len(before)
    return [
        [None if old is None else new for old, new in zip(column, flat[place::width], strict=True)]
        for place, column in enumerate(before)
    ]


def _summary(records: Records, done: Done, shown: tuple[tuple[str, str], ...]) -> RunSummary:
    return RunSummary(len(records), done.longest, done.counts, shown)
