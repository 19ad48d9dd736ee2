"""Parquet, through pyarrow (which is imported here only: it takes a while)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sfumato.foundation.errors import DataError
from sfumato.scale.conversion import as_json
from sfumato.scale.lines import too_long
from sfumato.scale.records import (
    CHARACTERS_AT_ONCE,
    RECORDS_AT_ONCE,
    Reader,
    ReadOptions,
    Records,
    Texts,
    Writer,
    chosen_columns,
)

_ROW_GROUP_RECORDS = 1 << 16
_ROW_GROUP_BYTES = 1 << 26
_READ_BYTES = 1 << 20
_DAMAGED = (pa.ArrowException, OSError, ValueError, NotImplementedError)


class ArrowRecords(Records):
    """Rows of an Arrow table."""

    def __init__(self, first: int, batch: pa.RecordBatch, schema: pa.Schema, places: Sequence[int]) -> None:
        self.first = first
        self.batch = batch
        self._schema = schema
        self._places = places

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def texts(self) -> Texts:
        """Return the text columns."""
        return [self.batch.column(place).to_pylist() for place in self._places]

    def replace(self, texts: Texts) -> None:
        """Put other texts in their place; what the dictionary of a text column held is dropped with it."""
        arrays = list(self.batch.columns)
        for place, column in zip(self._places, texts, strict=True):
            try:
                arrays[place] = pa.array(column, type=self._schema.field(place).type)
            except pa.ArrowException:
                raise DataError(f"rows from {self.first + 1} on hold text that Parquet cannot; write .jsonl") from None
        self.batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def rows(self) -> list[dict[str, Any]]:
        """Return every record as a dictionary; dates, times and decimals as text."""
        names = self.batch.schema.names
        if len(set(names)) != len(names):
            raise DataError("a column name occurs more than once; rename it, or write .parquet")
        columns = [_plain_values(name, array) for name, array in zip(names, self.batch.columns, strict=True)]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _plain_values(name: str, array: pa.Array) -> list[Any]:
    kind = array.type
    try:
        if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
            array = pc.cast(array, pa.string())
        values: list[Any] = array.to_pylist()
    except (*_DAMAGED, ImportError):
        values = [b""]
    if any(isinstance(value, bytes) for value in values):
        raise DataError(f"column {name} (of type {kind}) cannot be written as text; write .parquet, or drop the column")
    return values


def _is_string_view(kind: pa.DataType) -> bool:
    is_string_view = getattr(pa.types, "is_string_view", None)  # since pyarrow 16
    return is_string_view is not None and bool(is_string_view(kind))


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or _is_string_view(kind))


def _written_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that sanitized text gets in place of the one it had."""
    if pa.types.is_dictionary(kind):
        return _written_type(kind.value_type)
    return pa.string() if _is_string_view(kind) else kind


class ArrowReader(Reader):
    """Reads a Parquet file."""

    def __init__(self, stream: BinaryIO, options: ReadOptions) -> None:
        self._longest = options.longest_record
        self._read = 0
        try:
            # Buffered, else a whole column of a row group is read at once, and some files are a single row group.
            self._file = pq.ParquetFile(stream, buffer_size=_READ_BYTES, pre_buffer=False)
            schema = self._file.schema_arrow
        except _DAMAGED:
            raise DataError(
                "the file is not Parquet, or is damaged or cut short; check it, or name its format with --format"
            ) from None
        self.columns = tuple(schema.names)
        self._places = chosen_columns(self.columns, options.columns)
        self.text_columns = tuple(options.columns)
        self.schema = schema
        for place in self._places:
            field = schema.field(place)
            if not (_is_text(field.type) or pa.types.is_null(field.type)):
                raise DataError(f"column {field.name} holds {field.type}, not text; choose another --column")
            self.schema = self.schema.set(place, field.with_type(_written_type(field.type)))

    def batches(self) -> Iterator[Records]:
        """Read the rows."""
        whole = self._file.iter_batches(batch_size=RECORDS_AT_ONCE)
        while True:
            try:
                batch = next(whole, None)
            except _DAMAGED:
                raise DataError(
                    f"the file cannot be read behind row {self._read}: it is damaged or cut short; write it again"
                ) from None
            if batch is None:
                return
            yield from self._portions(batch)

    def _portions(self, batch: pa.RecordBatch) -> Iterator[Records]:
        """Cut a batch where its texts are long."""
        lengths = [0] * batch.num_rows
        for place in self._places:
            column = batch.column(place).cast(self.schema.field(place).type)
            if not pa.types.is_null(column.type):
                more = pc.fill_null(pc.utf8_length(column), 0).to_pylist()
                lengths = [length + added for length, added in zip(lengths, more, strict=True)]
        start = characters = 0
        for row, length in enumerate(lengths):
            if length > self._longest:
                raise too_long(f"row {self._read + row - start + 1}", self._longest)
            characters += length
            if characters >= CHARACTERS_AT_ONCE or row == len(lengths) - 1:
                portion = batch.slice(start, row + 1 - start)
                yield ArrowRecords(self._read, portion, self.schema, self._places)
                self._read += portion.num_rows
                start, characters = row + 1, 0

    def progress(self) -> tuple[int, int | None]:
        """Return rows read and in total."""
        return self._read, int(self._file.metadata.num_rows)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


class ArrowWriter(Writer):
    """Writes a Parquet file, in row groups of a useful size."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema | None, text_columns: Sequence[str]) -> None:
        self._stream = stream
        self._schema = schema
        self._text_columns = text_columns
        self._writer: pq.ParquetWriter | None = None
        self._held: list[pa.RecordBatch] = []
        self._rows: list[dict[str, Any]] = []
        self._first = 0

    def write(self, records: Records) -> None:
        """Take the rows of a batch, and write a row group when there are enough of them."""
        if isinstance(records, ArrowRecords):
            self._held.append(records.batch)
        else:
            self._rows += records.rows()
            if self._schema is not None or len(self._rows) >= _ROW_GROUP_RECORDS // 4:
                self._convert()
        held = sum(batch.num_rows for batch in self._held)
        if held >= _ROW_GROUP_RECORDS or sum(batch.nbytes for batch in self._held) >= _ROW_GROUP_BYTES:
            self._flush()

    def finish(self) -> None:
        """Write the last row group and the footer."""
        if self._rows or self._schema is None:
            self._convert()
        self._flush()
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._stream, self._schema)
        self._writer.close()

    def _flush(self) -> None:
        if self._held:
            self._write_group(pa.Table.from_batches(self._held, schema=self._schema))
        self._held = []

    def _write_group(self, table: pa.Table) -> None:
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._stream, self._schema)
        self._writer.write_table(table)

    def _convert(self) -> None:
        """Turn plain rows into Arrow columns; the first rows decide the types."""
        rows = [{key: _flat(value) for key, value in row.items()} for row in self._rows]
        if self._schema is None:
            self._schema = self._inferred(rows)
        names = set(self._schema.names)
        if any(not names.issuperset(row) for row in rows):
            self._refuse(len(rows))
        try:
            arrays = [pa.array([row.get(field.name) for row in rows], type=field.type) for field in self._schema]
        except (*_DAMAGED, TypeError, OverflowError):
            self._refuse(len(rows))
        self._held.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._first += len(rows)
        self._rows = []

    def _refuse(self, count: int) -> None:
        raise DataError(
            f"among rows {self._first + 1} to {self._first + count} a value does not fit its column, which has the "
            "type of the first rows; write .jsonl"
        ) from None

    def _inferred(self, rows: list[dict[str, Any]]) -> pa.Schema:
        names = list(dict.fromkeys(key for row in rows for key in row)) or list(self._text_columns)
        fields = []
        for name in names:
            try:
                kind = pa.array([row.get(name) for row in rows]).type
            except (*_DAMAGED, TypeError, OverflowError):
                self._refuse(len(rows))
            unknown = name in self._text_columns or pa.types.is_null(kind)
            fields.append(pa.field(name, pa.string() if unknown else kind))
        return pa.schema(fields)


def _flat(value: Any) -> Any:
    """Return nested values as JSON text: their fields may differ from row to row, and a column has one type."""
    return as_json(value) if isinstance(value, (dict, list)) else value


class SpooledArrowWriter(ArrowWriter):
    """Keeps row groups in files of their own until the end, since a Parquet file that was begun cannot be taken up.

    The outcome has the bytes that :class:`ArrowWriter` writes.
    """

    def __init__(
        self, stream: BinaryIO, schema: pa.Schema | None, text_columns: Sequence[str], spool: Path, parts: int
    ) -> None:
        self._spool = spool
        self.parts = parts
        """Row groups so far."""
        if parts:
            with pa.OSFile(str(self._part(0))) as file:
                schema = pa.ipc.open_file(file).schema
        super().__init__(stream, schema, text_columns)

    @property
    def at_rest(self) -> bool:
        """Whether every record so far is in a finished row group."""
        return not self._held and not self._rows

    def _part(self, number: int) -> Path:
        return self._spool.with_name(f"{self._spool.name}.{number:06d}")

    def _write_group(self, table: pa.Table) -> None:
        with self._part(self.parts).open("wb") as file:
            with pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
            file.flush()
            os.fsync(file.fileno())
        self.parts += 1

    def finish(self) -> None:
        """Put the row groups together."""
        if self._rows or self._schema is None:
            self._convert()
        self._flush()
        with pq.ParquetWriter(self._stream, self._schema) as writer:
            for number in range(self.parts):
                with pa.OSFile(str(self._part(number))) as file:
                    writer.write_table(pa.ipc.open_file(file).read_all())
        self.discard()

    def discard(self) -> None:
        """Remove the row groups."""
        for path in self._spool.parent.glob(f"{self._spool.name}.[0-9]*"):
            path.unlink(missing_ok=True)


def strings_schema(columns: Sequence[str]) -> pa.Schema:
    """Return the schema of a file all of whose columns are text."""
    return pa.schema([pa.field(name, pa.string()) for name in columns])
