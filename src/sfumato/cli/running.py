"""A run of ``sfumato privatize``: file after file, each whole or not at all, to be taken up where it was killed."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from sfumato.cli import subjects
from sfumato.cli.guarantee_file import guarantee_record
from sfumato.cli.progress import CompileProgress, RecordProgress
from sfumato.cli.request import Compiled, MechanismRequest
from sfumato.cli.subjects import Payment
from sfumato.foundation.randomness import RunKey
from sfumato.sanitize import Sanitizer
from sfumato.scale import (
    Reader,
    ReadOptions,
    RunSummary,
    Writer,
    open_reader,
    open_writer,
    sanitize_records,
)
from sfumato.scale.compression import compression_of, decompressed
from sfumato.scale.crew import ROW_BYTES, Crew
from sfumato.scale.part import PartFile, part_path
from sfumato.scale.records import RestOfReader
from sfumato.scale.state import Checkpoint, RunState

if TYPE_CHECKING:
    from sfumato.release import TextRelease

_CHECKPOINT_SECONDS = 2.0
_ROW_BYTES_PER_BYTE = 64
_Read = Callable[[], tuple[int, int | None]]


@dataclass(frozen=True)
class Job:
    """One file to read and one to write."""

    source: Path | None
    """None for standard input."""
    source_format: str
    target: Path | None
    """None for standard output."""
    target_format: str
    guarantee: Path | None
    """None where the output goes to a pipe and no file is named."""
    name: str | None = None
    """Among several files, the one whose noise this is."""

    @contextmanager
    def opened(self, reading: ReadOptions) -> Iterator[tuple[Reader, _Read]]:
        """Open the input; the second value tells how much of it was read and how much there is."""
        with ExitStack() as stack:
            total = compression = None
            if self.source is None:
                stream = cast(BinaryIO, sys.stdin.buffer)
            else:
                stream = cast(BinaryIO, stack.enter_context(self.source.open("rb")))
                total = self.source.stat().st_size if self.source.is_file() else None
                compression = compression_of(self.source)
            reader = open_reader(decompressed(stream, compression), self.source_format, reading, total)
            stack.callback(reader.close)
            yield reader, (reader.progress if compression is None else lambda: (stream.tell(), total))

    def key(self, key: RunKey | None) -> RunKey | None:
        """Return the key of this file: that of the run, or one that follows from it where there are several files."""
        if key is None or self.name is None:
            return key
        return RunKey(key.stream("file", self.name.encode(errors="surrogatepass")).uint64(4).tobytes(), key.secure)


@dataclass(frozen=True)
class Run:
    """What is done to every file."""

    sanitizer: Sanitizer
    compiled: Compiled
    request: MechanismRequest
    reading: ReadOptions
    payment: Payment
    workers: int = 1
    samples: int = 0
    quiet: bool = False
    keeps: bool = False
    """Whether what was done stays when the run is interrupted, to be taken up."""

    def settings(self) -> dict[str, Any]:
        """Return what decides about the output, apart from inputs and key."""
        record = guarantee_record(
            self.sanitizer, self.compiled, self.request, RunSummary(), self.reading.columns, (), None, None
        )
        reading = [self.reading.encoding, self.reading.longest_record, self.reading.delimiter, self.reading.quotes]
        paying = [self.payment.ledger, self.payment.subject_column, self.payment.when_exhausted, self.payment.kind]
        return {"guarantee": record["guarantee"], **record["settings"], "reading": reading, "payment": paying}

    def files(
        self, jobs: Sequence[Job], key: RunKey | None, state: RunState | None, start: Checkpoint | None = None
    ) -> RunSummary:
        """Do every file that is not done yet, and return what the run came to."""
        place = start or Checkpoint()
        crew = None
        with ExitStack() as stack:
            if self.workers > 1:
                crew = stack.enter_context(self._crew(jobs))
            bar = stack.enter_context(RecordProgress(self.quiet))
            if state is not None and not self.keeps:
                # A run that ends in an error, or is interrupted, leaves neither key nor state.
                stack.callback(state.forget)
            for number, job in enumerate(jobs):
                if number < place.files:
                    continue
                bar.prefix = f"file {number + 1} of {len(jobs)}, " if len(jobs) > 1 else ""
                summary = _File(self, job, key, crew, state, place, bar).run()
                place = Checkpoint(files=number + 1, done=place.done + summary)
                if state is not None and self.keeps and number + 1 < len(jobs):
                    state.save(cast(RunKey, key), place)
            if state is not None:
                state.forget()
        return replace(place.done, samples=place.done.samples[: self.samples])

    def _crew(self, jobs: Sequence[Job]) -> Crew:
        with CompileProgress(self.quiet) as compiling:
            compiling.say("compiling rows for the workers")
            return Crew(self.sanitizer, self.workers, _row_bytes(jobs), compiling.tick)


def _row_bytes(jobs: Sequence[Job]) -> int:
    """Return how much of a table is worth compiling before the workers begin: a short text needs few rows."""
    sizes = [job.source.stat().st_size if job.source and job.source.is_file() else ROW_BYTES for job in jobs]
    return min(ROW_BYTES, max(1, _ROW_BYTES_PER_BYTE * sum(sizes)))


class _File:
    """One file of a run."""

    def __init__(
        self,
        run: Run,
        job: Job,
        key: RunKey | None,
        crew: Crew | None,
        state: RunState | None,
        start: Checkpoint,
        bar: RecordProgress,
    ) -> None:
        self._run, self._job, self._run_key, self._crew, self._state, self._start, self._bar = (
            run, job, key, crew, state, start, bar,
        )  # fmt: skip
        self._key = job.key(key)
        self._last = time.monotonic()
        self._stack = ExitStack()

    def run(self) -> RunSummary:
        """Read, sanitize and write."""
        job, run, start = self._job, self._run, self._start
        with self._stack as stack:
            reader, read = stack.enter_context(job.opened(run.reading))
            release = stack.enter_context(run.payment.opened(run.sanitizer, self._key))
            if release is not None and start.tally:
                release.take_up(start.tally, start.stopped)
            part, beside = self._begin_outputs()
            writer = self._open_writer(reader, part)
            source: Reader = RestOfReader(reader, start.summary.records) if start.summary.records else reader
            source, paid_writer = run.payment.between(source, writer, release)
            summary = sanitize_records(
                run.sanitizer,
                source,
                paid_writer,
                key=self._key,
                samples=run.samples,
                progress=lambda state: self._after_batch(state, read, writer, part, release),
                crew=self._crew,
                start=start.summary,
            )
            if release is not None:
                summary = replace(summary, records=release.tally.released)
            (sys.stdout.buffer if part is None else part).flush()
            digest = None if part is None else part.sha256()
            if beside is not None:
                record = guarantee_record(
                    run.sanitizer,
                    run.compiled,
                    run.request,
                    summary,
                    run.reading.columns,
                    reader.text_columns,
                    self._key,
                    digest,
                )
                record["settings"] |= run.payment.settings(release)
                beside.write(json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n")
                beside.sha256()  # finish it before either file is moved: what can still fail should fail now
            # The guarantee goes first: an output is never there without it.
            for file in (beside, part):
                if file is not None:
                    file.commit()
            subjects.report(release)
        return summary

    def _begin_outputs(self) -> tuple[PartFile | None, PartFile | None]:
        # Both files are begun before the first record is read: a place that cannot be written is found now.
        job = self._job
        part = beside = None
        if job.target is not None:
            part = self._stack.enter_context(
                PartFile(job.target, compression=compression_of(job.target), position=self._start.position)
            )
            part.keep = self._run.keeps and self._state is not None
        if job.guarantee is not None:
            beside = self._stack.enter_context(PartFile(job.guarantee))
        return part, beside

    def _open_writer(self, reader: Reader, part: PartFile | None) -> Writer:
        job, start = self._job, self._start
        if part is None:
            return open_writer(cast(BinaryIO, sys.stdout.buffer), job.target_format, reader)
        spool = part_path(part.target) if self._state is not None and job.target_format == "parquet" else None
        part.muted = start.position > 0
        writer = open_writer(part.stream, job.target_format, reader, spool=spool, parts=start.parts)
        part.muted = False
        if spool is not None and not part.keep:
            self._stack.callback(writer.discard)  # type: ignore[attr-defined]
        return writer

    def _after_batch(
        self, summary: RunSummary, read: _Read, writer: Writer, part: PartFile | None, release: TextRelease | None
    ) -> None:
        counts, before = summary.counts, self._start.summary.counts
        words = counts.protected + counts.kept - before.protected - before.kept
        self._bar.update(*read(), summary.records, words)
        if part is None:
            return
        part.end_batch()
        if self._state is not None and time.monotonic() - self._last >= _CHECKPOINT_SECONDS:
            self._save(summary, writer, part, release)

    def _save(self, summary: RunSummary, writer: Writer, part: PartFile, release: TextRelease | None) -> None:
        parts = 0
        if hasattr(writer, "at_rest"):
            if not writer.at_rest:
                return
            parts = writer.parts  # type: ignore[attr-defined]
        position = part.durable()
        if position is None or self._state is None:
            return
        tally = {} if release is None else release.tally.to_json()
        stopped = release is not None and release.stopped
        start = self._start
        place = Checkpoint(start.files, position, parts, summary, start.done, tally, stopped)
        try:
            self._state.save(cast(RunKey, self._run_key), place)
        except OSError:
            if self._run.keeps:
                raise
            self._state = None  # nobody asked for it, and there is no place for it
        self._last = time.monotonic()
