"""The file formats by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from sfumato.foundation.checks import require_one_of
from sfumato.foundation.errors import DataError
from sfumato.scale.compression import plain_name
from sfumato.scale.delimited import DelimitedReader, DelimitedWriter, Dialect
from sfumato.scale.jsonlines import JsonReader, JsonWriter
from sfumato.scale.plain import PlainReader, PlainWriter
from sfumato.scale.records import Reader, ReadOptions, Writer

FORMATS = ("csv", "tsv", "jsonl", "parquet", "txt")
_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".txt": "txt",
}
_FOREIGN = (
    ".xlsx", ".xls", ".ods", ".docx", ".doc", ".odt", ".rtf", ".pdf", ".html", ".htm", ".xml", ".json", ".yaml", ".yml",
    ".arrow", ".feather", ".avro", ".orc", ".db", ".sqlite", ".zip", ".bz2", ".xz",
)  # fmt: skip
_DELIMITERS = {"csv": ",", "tsv": "\t"}


def format_of(name: str | Path) -> str | None:
    """Return the format that a file's name stands for, compressed or not, or None.

    >>> format_of("reviews.CSV"), format_of("reviews.jsonl.gz"), format_of("reviews.dat")
    ('csv', 'jsonl', None)
    """
    return _SUFFIXES.get(plain_name(name).suffix.lower())


def require_no_foreign_name(name: str | Path) -> None:
    """An output's name does not promise a format that is not written; a name without a known ending may be any.

    >>> require_no_foreign_name("safe.xlsx")
    Traceback (most recent call last):
        ...
    sfumato.foundation.errors.DataError: outputs named .xlsx are not written; choose a name that ends with .csv, .tsv, .jsonl, \
.parquet or .txt
    """
    suffix = Path(name).suffix.lower()
    if suffix in _FOREIGN:
        raise DataError(
            f"outputs named {suffix} are not written; choose a name that ends with .csv, .tsv, .jsonl, .parquet or .txt"
        )


def open_reader(stream: BinaryIO, name: str, options: ReadOptions, total: int | None = None) -> Reader:
    """Return a reader for a binary stream in the format of that name; ``total`` is the stream's length, if known."""
    require_one_of(FORMATS, format=name)
    if name == "jsonl":
        return JsonReader(stream, options, total)
    if name == "txt":
        return PlainReader(stream, options, total)
    if name == "parquet":
        if not stream.seekable():
            raise DataError("Parquet is read from its end, so it cannot come through a pipe; give the name of a file")
        from sfumato.scale.columnar import ArrowReader

        return ArrowReader(stream, options)
    return DelimitedReader(stream, options, _DELIMITERS[name], total, name)


def open_writer(stream: BinaryIO, name: str, reader: Reader, *, spool: Path | None = None, parts: int = 0) -> Writer:
    """Return a writer in the format of that name, for what the reader reads.

    ``spool`` is where formats that cannot be taken up keep their row groups, ``parts`` how many there are already.
    """
    require_one_of(FORMATS, format=name)
    if name == "jsonl":
        return JsonWriter(stream)
    if name == "txt":
        return PlainWriter(stream, reader.text_columns)
    if name == "parquet":
        return _parquet_writer(stream, reader, spool, parts)
    return DelimitedWriter(stream, reader.columns, _dialect(name, reader))


def _dialect(name: str, reader: Reader) -> Dialect:
    if not isinstance(reader, DelimitedReader):
        return Dialect(_DELIMITERS[name])
    if reader.format == name:
        return reader.dialect
    return replace(reader.dialect, delimiter=_DELIMITERS[name], quotes=True)


def _parquet_writer(stream: BinaryIO, reader: Reader, spool: Path | None, parts: int) -> Writer:
    from sfumato.scale.columnar import ArrowReader, ArrowWriter, SpooledArrowWriter, strings_schema

    if isinstance(reader, ArrowReader):
        schema = reader.schema
    else:
        schema = None if isinstance(reader, JsonReader) else strings_schema(reader.columns)
    if spool is not None:
        return SpooledArrowWriter(stream, schema, reader.text_columns, spool, parts)
    return ArrowWriter(stream, schema, reader.text_columns)
