"""Records whose subjects pay: charged when they are read, left out where they cannot pay when they are written.

In between, a record that is held back keeps its place with empty texts, so that the others keep their numbers and with
them their noise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import singledispatch
from itertools import compress
from typing import Any

from sfumato.foundation.errors import DataError
from sfumato.release import TextRelease
from sfumato.scale.conversion import as_field
from sfumato.scale.delimited import DelimitedRecords
from sfumato.scale.jsonlines import JsonRecords
from sfumato.scale.records import Reader, Records, Texts, Writer, chosen_columns


class PaidRecords(Records):
    """A batch, and which of its records are paid for."""

    def __init__(self, records: Records, admitted: Sequence[bool]) -> None:
        self.first = records.first
        self._records = records
        self._admitted = admitted

    def __len__(self) -> int:
        return len(self._records)

    def texts(self) -> Texts:
        """Return the text columns, with nothing where a record is held back."""
        return [
            [text if admits else None for text, admits in zip(column, self._admitted, strict=True)]
            for column in self._records.texts()
        ]

    def replace(self, texts: Texts) -> None:
        """Put other texts in their place."""
        self._records.replace(texts)

    def rows(self) -> list[dict[str, Any]]:
        """Return the records that are paid for."""
        return self.paid().rows()

    def paid(self) -> Records:
        """Return the records that are paid for, in the form of their file."""
        return self._records if all(self._admitted) else only(self._records, self._admitted)


class PayingReader(Reader):
    """Charges every batch before anybody sees it."""

    def __init__(self, reader: Reader, subject_column: str, release: TextRelease) -> None:
        chosen_columns(reader.columns, [subject_column], names_may_be_texts=reader.names_may_be_texts)
        if subject_column in reader.text_columns:
            raise DataError("the column of subjects cannot be a column of texts; it passes through as it is")
        self.columns = reader.columns
        self.text_columns = reader.text_columns
        self._reader = reader
        self._column = subject_column
        self._release = release

    def batches(self) -> Iterator[Records]:
        """Read and charge the records."""
        for records in self._reader.batches():
            subjects = subjects_of(records, self._column)
            admitted = self._release.admit(records.texts(), subjects, first_record=records.first)
            yield PaidRecords(records, admitted)

    def progress(self) -> tuple[int, int | None]:
        """Return how much was read and how much there is, if known."""
        return self._reader.progress()

    def close(self) -> None:
        """Let go of the file."""
        self._reader.close()


class PaidWriter(Writer):
    """Writes what is paid for, and nothing of the other records."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def write(self, records: Records) -> None:
        """Write the records of a batch that are paid for."""
        if not isinstance(records, PaidRecords):
            raise TypeError("a batch that nobody paid for")
        paid = records.paid()
        if len(paid):
            self._writer.write(paid)

    def finish(self) -> None:
        """Write what is still held back by the format."""
        self._writer.finish()


@singledispatch
def subjects_of(records: Records, column: str) -> list[str | None]:
    """Return the subject of every record as text; None where there is none."""
    from sfumato.scale.columnar import ArrowRecords

    if not isinstance(records, ArrowRecords):
        raise DataError("a file of this format has no column of subjects; write it as .csv, .jsonl or .parquet")
    values = records.batch.column(records.batch.schema.names.index(column)).to_pylist()
    return [_subject(value, records.first + place) for place, value in enumerate(values)]


@subjects_of.register
def _(records: DelimitedRecords, column: str) -> list[str | None]:
    place = list(records.columns).index(column)
    return [row[place] or None for row in records.fields]


@subjects_of.register
def _(records: JsonRecords, column: str) -> list[str | None]:
    def only_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs) and [key for key, _ in pairs].count(column) > 1:
            raise DataError("a record has the key of the column of subjects twice; remove one of them")
        return found

    lines = (json.loads(line, parse_int=str, parse_float=str, object_pairs_hook=only_once) for line in records.lines)
    return [_subject(line.get(column), records.first + place) for place, line in enumerate(lines)]


def _subject(value: object, place: int) -> str | None:
    if isinstance(value, (dict, list, bytes)):
        raise DataError(f"row {place + 1} holds something other than a name or a number in the column of subjects")
    return as_field(value) or None


@singledispatch
def only(records: Records, chosen: Sequence[bool]) -> Records:
    """Return some records of a batch, in the form of their file."""
    import pyarrow as pa

    from sfumato.scale.columnar import ArrowRecords

    if not isinstance(records, ArrowRecords):
        raise DataError("records of this format cannot be left out")
    batch = records.batch.filter(pa.array(list(chosen), type=pa.bool_()))
    return ArrowRecords(records.first, batch, batch.schema, records._places)


@only.register
def _(records: DelimitedRecords, chosen: Sequence[bool]) -> Records:
    return DelimitedRecords(records.first, records.columns, records._places, list(compress(records.fields, chosen)))


@only.register
def _(records: JsonRecords, chosen: Sequence[bool]) -> Records:
    return JsonRecords(records.first, list(compress(records._lines, chosen)))
