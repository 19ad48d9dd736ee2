"""Columns of a Spark DataFrame, sanitized where they lie.

The mechanism travels as a file (see :mod:`sfumato.mechanism.artifact`) that every executor maps into memory, and the noise
of a row follows from the run key and the row's number.  So a task that is retried, or run twice on speculation, draws
nothing anew, and the outcome is that of the local runner for the same key: text ``c`` of row ``i`` has number
``i * columns + c``.

Needs the extra ``spark``.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.foundation.errors import DataError, MissingExtraError, ParameterError
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism import artifact as artifacts
from sfumato.sanitize import Sanitizer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RECORDS_AT_ONCE = 2000
_sanitizers: dict[str, Sanitizer] = {}
"""Of this executor process: the mechanism is mapped once, not for every task."""
_links: dict[str, tempfile.TemporaryDirectory[str]] = {}
"""Of the driver: folders with the files that were sent, by digest."""


@dataclass(frozen=True)
class _Job:
    """What every task is told."""

    file: str
    digest: str
    columns: tuple[str, ...]
    settings: dict[str, Any] = field(repr=False)
    key: RunKey = field(repr=False)
    starts: tuple[int, ...] = ()
    """Number of the first row of every partition."""
    number: str | None = None
    """The column that holds the row numbers, where they are not counted."""


def privatize(
    df: DataFrame,
    column: str | Sequence[str],
    artifact: str | Path,
    *,
    key: RunKey,
    number: str | None = None,
    **settings: Any,
) -> DataFrame:
    """Return the frame with the texts of its columns replaced; nulls stay null.

    ``artifact`` is a file from ``sfumato compile``, and ``settings`` are those of
    :class:`~sfumato.sanitize.Sanitizer`.  Rows are numbered as they come, partition after partition, which takes a pass
    that counts them; ``number`` names a column of whole numbers to use in its place.  It must be unique, and is needed
    where the frame's order is not repeatable (behind a shuffle, say): two rows with one number would share their noise,
    and a row whose number changed in a retry would be drawn anew.
    """
    try:
        from pyspark import SparkFiles
    except ImportError:
        raise MissingExtraError("pyspark", "spark") from None
    columns = (column,) if isinstance(column, str) else tuple(column)
    _check(df, columns, number)
    # What is wrong with the settings is found here, and not in every task.
    Sanitizer(artifacts.load(artifact), **settings)
    path = Path(artifact).resolve()
    digest = artifacts.describe(path).digest
    sent = _named_by_content(path, digest)
    _send(df, sent)
    starts = () if number is not None else _starts(df)
    job = _Job(sent.name, digest, columns, settings, key, starts, number)
    return df.mapInArrow(_task(job, SparkFiles.get), df.schema)


def _check(df: DataFrame, columns: Sequence[str], number: str | None) -> None:
    kinds = dict(df.dtypes)
    missing = [name for name in (*columns, number) if name is not None and name not in kinds]
    if missing or not columns:
        raise DataError(
            f"there is no column {', '.join(missing) or '(none named)'}; the columns are: {', '.join(kinds)}"
        )
    if len(set(columns)) != len(columns):
        raise ParameterError("columns must not name a column twice")
    for name in columns:
        if kinds[name] != "string":
            raise DataError(f"column {name} holds {kinds[name]}, not text; choose another column")
    if number is not None and kinds[number] not in ("bigint", "int", "smallint", "tinyint"):
        raise DataError(f"column {number} holds {kinds[number]}; the numbers of rows are whole")


def _named_by_content(path: Path, digest: str) -> Path:
    """Return a link to the file whose name follows from its content: a name that Spark has seen keeps its first content.

    It is there until this process ends, since executors fetch it when they first need it.
    """
    if digest not in _links:
        _links[digest] = tempfile.TemporaryDirectory(prefix="sfumato-", ignore_cleanup_errors=True)
        link = Path(_links[digest].name) / f"{digest}.sfm"
        try:
            os.link(path, link)
        except OSError:  # on another file system
            shutil.copy(path, link)
    return Path(_links[digest].name) / f"{digest}.sfm"


def _send(df: DataFrame, path: Path) -> None:
    """Put the file on every executor."""
    session: Any = df.sparkSession
    if hasattr(session, "_sc"):
        session.sparkContext.addFile(str(path))
    else:  # Spark Connect has no context
        session.addArtifacts(str(path), file=True)


def _starts(df: DataFrame) -> tuple[int, ...]:
    """Count the rows of every partition."""
    counted = df.mapInArrow(_count, "partition int, rows bigint").collect()
    counts = np.zeros(max((row.partition for row in counted), default=-1) + 1, dtype=np.int64)
    for row in counted:
        counts[row.partition] += row.rows
    return tuple(np.concatenate([[0], np.cumsum(counts)]).tolist())


def _count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_pydict(
        {"partition": pa.array([_partition()], pa.int32()), "rows": pa.array([rows], pa.int64())}
    )


def _partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


def _task(job: _Job, find: Callable[[str], str]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sanitizer = _sanitizer(job, find)
        row = job.starts[_partition()] if job.number is None else 0
        for batch in batches:
            for start in range(0, batch.num_rows, _RECORDS_AT_ONCE):
                part = batch.slice(start, _RECORDS_AT_ONCE)
                yield _sanitized(part, job, sanitizer, row)
                row += part.num_rows

    return run


def _sanitizer(job: _Job, find: Callable[[str], str]) -> Sanitizer:
    known = f"{job.digest} {sorted(job.settings.items(), key=lambda item: item[0])!r}"
    if known not in _sanitizers:
        _sanitizers.clear()
        _sanitizers[known] = Sanitizer(artifacts.load(find(job.file), job.digest), **job.settings)
    return _sanitizers[known]


def _sanitized(batch: pa.RecordBatch, job: _Job, sanitizer: Sanitizer, row: int) -> pa.RecordBatch:
    places = [batch.schema.get_field_index(name) for name in job.columns]
    columns = [batch.column(place).to_pylist() for place in places]
    width = len(columns)
    arrays = list(batch.columns)
    runs = [(0, batch.num_rows, row)]
    if job.number is not None:
        runs = _runs(batch.column(batch.schema.get_field_index(job.number)))
    done: list[list[str | None]] = [[] for _ in columns]
    for start, stop, first in runs:
        before = [text for texts in zip(*(column[start:stop] for column in columns), strict=True) for text in texts]
        # Where there is no text, an empty one holds its place.
        after = sanitizer.batch([text or "" for text in before], key=job.key, first_record=first * width).texts
        kept = [None if old is None else new for old, new in zip(before, after, strict=True)]
        for place, texts in enumerate(done):
            texts += kept[place::width]
    for place, texts in zip(places, done, strict=True):
        arrays[place] = pa.array(texts, type=batch.schema.field(place).type)
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _runs(numbers: pa.Array) -> list[tuple[int, int, int]]:
    """Cut rows into runs with consecutive numbers: begin, end and first number of each."""
    if numbers.null_count:
        raise DataError("a row has no number; every row needs one of its own")
    found = numbers.to_numpy(zero_copy_only=False).astype(np.int64)
    if (found < 0).any():
        raise DataError("a row has a negative number; count from 0")
    edges = [0, *(np.flatnonzero(np.diff(found) != 1) + 1).tolist(), len(found)]
    return [(start, stop, int(found[start])) for start, stop in pairwise(edges) if stop > start]
