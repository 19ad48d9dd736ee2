"""What every file format offers: a reader of batches, the batches themselves, and a writer.

A batch keeps its records in the form of its file (CSV fields, JSON lines, Arrow columns), so that whatever is not
sanitized is written back as it was read.  Only where input and output differ in format are records turned into plain
dictionaries (:meth:`Records.rows`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.foundation.checks import gather, require_count
from sfumato.foundation.errors import DataError, ParameterError

RECORDS_AT_ONCE = 2000
CHARACTERS_AT_ONCE = 1 << 20
"""A batch ends at whichever of the two it reaches first."""

Texts = list[list[str | None]]
"""The text columns of a batch, one list for each; None where a record has no text."""


@dataclass(frozen=True)
class ReadOptions:
    """How a file is to be read."""

    columns: tuple[str, ...] = ()
    """The columns to sanitize; may be left out for a file of plain lines."""
    encoding: str = "utf-8"
    longest_record: int = 20_000_000
    """Most characters in one record: what is read into memory at once is bounded by it."""
    delimiter: str | None = None
    """Between the fields of a line; None for the format's own."""
    quotes: bool = True
    """Whether double quotes enclose fields that hold the delimiter or a line break."""

    def __post_init__(self) -> None:
        gather(lambda: require_count(longest_record=self.longest_record), self._check_columns, self._check_delimiter)

    def _check_columns(self) -> None:
        if len(set(self.columns)) != len(self.columns):
            raise ParameterError("columns must not name a column twice")

    def _check_delimiter(self) -> None:
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n '):
            raise ParameterError("delimiter must be a single character, and not a quote, space or line break")


class Records(ABC):
    """Some records of a file, in the form of that file."""

    first: int
    """Number of the first record, counted from 0."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def texts(self) -> Texts:
        """Return the text columns."""

    @abstractmethod
    def replace(self, texts: Texts) -> None:
        """Put other texts in their place."""

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """Return every record as a dictionary of plain values, for writing in another format."""


class Reader(ABC):
    """Reads a file in batches; what can be wrong with its beginning is found when it is opened."""

    columns: tuple[str, ...]
    """The columns there are, in order."""
    text_columns: tuple[str, ...]
    """The columns to sanitize."""
    names_may_be_texts: bool = False
    """Whether what is read as names of columns is a first record where the file has no line of names."""

    @abstractmethod
    def batches(self) -> Iterator[Records]:
        """Read the records, once."""

    @abstractmethod
    def progress(self) -> tuple[int, int | None]:
        """Return how much was read and how much there is, if known; the unit is the reader's own."""

    def close(self) -> None:
        """Let go of the file."""
        return


class RestOfReader(Reader):
    """Leaves out the records that were done before."""

    def __init__(self, reader: Reader, done: int) -> None:
        self.columns = reader.columns
        self.text_columns = reader.text_columns
        self.names_may_be_texts = reader.names_may_be_texts
        self._reader = reader
        self._done = done

    def batches(self) -> Iterator[Records]:
        """Read the records that are left, with the numbers they have in the file."""
        for records in self._reader.batches():
            if records.first >= self._done:
                yield records
            elif records.first + len(records) > self._done:
                raise DataError("the input is not the one that was begun with; begin anew, without --resume")

    def progress(self) -> tuple[int, int | None]:
        """Return how much was read and how much there is, if known."""
        return self._reader.progress()

    def close(self) -> None:
        """Let go of the file."""
        self._reader.close()


class Writer(ABC):
    """Writes batches to a binary stream."""

    @abstractmethod
    def write(self, records: Records) -> None:
        """Write the records of a batch."""

    def finish(self) -> None:
        """Write what is still held back; the stream is closed by whoever opened it."""
        return


def chosen_columns(
    available: Sequence[str], wanted: Sequence[str], *, names_may_be_texts: bool = False
) -> tuple[int, ...]:
    """Return the places of the wanted columns, each of which must occur exactly once.

    Names that may be texts are counted and not shown.
    """
    if names_may_be_texts:
        columns = (
            f"the first line names {len(available)}, and is not shown because it is a record where the line of names is "
            "missing; look at that line"
        )
    else:
        listed = ", ".join(available)
        columns = f"the columns are: {listed[:1000]}{' ...' if len(listed) > 1000 else ''}"
    if not wanted:
        raise DataError(f"which column holds the text? name it with --column; {columns}")
    missing = [name for name in wanted if name not in available]
    if missing:
        raise DataError(f"there is no column {', '.join(missing)}; {columns}")
    repeated = [name for name in wanted if list(available).count(name) > 1]
    if repeated:
        raise DataError(f"the column name {', '.join(repeated)} occurs more than once; rename all but one")
    return tuple(list(available).index(name) for name in wanted)
