"""CSV and TSV."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from sfumato.foundation.errors import DataError
from sfumato.scale.conversion import as_field
from sfumato.scale.lines import TextLines, encoded, too_long
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


@dataclass(frozen=True)
class Dialect:
    """How fields and lines are set apart."""

    delimiter: str = ","
    quotes: bool = True
    terminator: str = "\n"
    byte_order_mark: bool = False

    def settings(self) -> dict[str, Any]:
        """Return the settings for the csv module."""
        if not self.quotes:
            return {"delimiter": self.delimiter, "quoting": csv.QUOTE_NONE, "quotechar": None}
        return {"delimiter": self.delimiter, "quoting": csv.QUOTE_MINIMAL}


class DelimitedRecords(Records):
    """Rows of fields."""

    def __init__(self, first: int, columns: Sequence[str], places: Sequence[int], fields: list[list[str]]) -> None:
        self.first = first
        self.columns = columns
        self.fields = fields
        self._places = places

    def __len__(self) -> int:
        return len(self.fields)

    def texts(self) -> Texts:
        """Return the text columns."""
        return [[row[place] for row in self.fields] for place in self._places]

    def replace(self, texts: Texts) -> None:
        """Put other texts in their place."""
        for place, column in zip(self._places, texts, strict=True):
            for row, text in zip(self.fields, column, strict=True):
                row[place] = text or ""

    def rows(self) -> list[dict[str, Any]]:
        """Return every record as a dictionary of strings."""
        if len(set(self.columns)) != len(self.columns):
            raise DataError("a column name occurs more than once; rename it, or write the same format as the input's")
        return [dict(zip(self.columns, row, strict=True)) for row in self.fields]


class DelimitedReader(Reader):
    """Reads CSV or TSV with a header."""

    names_may_be_texts = True

    def __init__(
        self, stream: BinaryIO, options: ReadOptions, delimiter: str, total: int | None = None, format: str = "csv"
    ) -> None:
        self.format = format
        self._total = total
        self._lines = TextLines(stream, options.encoding, options.longest_record)
        self._longest = options.longest_record
        self._length = 0
        self._row = 0
        delimiter = options.delimiter or delimiter
        # The module's own limit is per field and would cut off long texts; this reader bounds whole records.
        csv.field_size_limit(max(csv.field_size_limit(), options.longest_record))
        self._terminator = ""
        dialect = Dialect(delimiter, options.quotes)
        self._rows = csv.reader(self._measured(self._lines), strict=True, **dialect.settings())
        header = self._next()
        if header is None:
            raise DataError("the file is empty; its first line must name the columns")
        self.columns = tuple(header)
        self._places = chosen_columns(self.columns, options.columns, names_may_be_texts=self.names_may_be_texts)
        self.text_columns = tuple(options.columns)
        self.dialect = Dialect(delimiter, options.quotes, self._terminator or "\n", self._lines.byte_order_mark)

    def _measured(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            self._terminator = self._terminator or ("\r\n" if line.endswith("\r\n") else "\n")
            self._length += len(line)
            if self._length > self._longest:
                raise too_long(f"{self._place()}, perhaps because a quote is never closed there,", self._longest)
            yield line

    def _place(self) -> str:
        return f"row {self._row}" if self._row else "the header"

    def _next(self) -> list[str] | None:
        """Return the next row that is not blank, or None at the end."""
        while True:
            self._length = 0
            start = self._lines.number + 1
            try:
                row = next(self._rows, None)
            except csv.Error as error:
                problem = _problem(str(error))
            else:
                if row is None or row:
                    return row
                continue
            raise DataError(f"{self._place()} (line {start}) {problem}")

    def batches(self) -> Iterator[Records]:
        """Read the rows."""
        fields: list[list[str]] = []
        first = characters = 0
        width = len(self.columns)
        self._row = 1
        while (row := self._next()) is not None:
            if len(row) != width:
                raise DataError(
                    f"row {self._row} (ends in line {self._lines.number}) has {len(row)} fields where the header has "
                    f"{width}; enclose fields that hold the delimiter in quotes, or repair that row"
                )
            fields.append(row)
            characters += self._length
            self._row += 1
            if len(fields) == RECORDS_AT_ONCE or characters >= CHARACTERS_AT_ONCE:
                yield DelimitedRecords(first, self.columns, self._places, fields)
                first, fields, characters = self._row - 1, [], 0
        if fields:
            yield DelimitedRecords(first, self.columns, self._places, fields)

    def progress(self) -> tuple[int, int | None]:
        """Return bytes read and in total."""
        return self._lines.bytes_read, self._total


def _problem(reason: str) -> str:
    if "new-line character" in reason:
        return "holds a carriage return outside of quotes; convert the line ends to line feeds"
    found = "opens a quote that is never closed" if "unexpected end" in reason else "has a misplaced quote"
    return (
        f"{found}; double the quotes inside of quoted fields, or pass --no-quotes where the file does not enclose "
        "fields in quotes"
    )


class DelimitedWriter(Writer):
    """Writes CSV or TSV with a header."""

    def __init__(self, stream: BinaryIO, columns: Sequence[str], dialect: Dialect) -> None:
        self._stream = stream
        self._columns = tuple(columns)
        self._known = set(columns)
        self._dialect = dialect
        if dialect.byte_order_mark:
            stream.write(b"\xef\xbb\xbf")
        self._write([list(self._columns)], -1)

    def write(self, records: Records) -> None:
        """Write the rows of a batch."""
        if isinstance(records, DelimitedRecords):
            self._write(records.fields, records.first)
            return
        rows = []
        for place, row in enumerate(records.rows()):
            if not self._known.issuperset(row):
                raise DataError(
                    f"row {records.first + place + 1} has a key that the first row does not have, so the columns are "
                    "not known beforehand; write .jsonl"
                )
            rows.append([as_field(row.get(name)) for name in self._columns])
        self._write(rows, records.first)

    def _write(self, rows: list[list[str]], first: int) -> None:
        lines = _Lines()
        writer = csv.writer(lines, lineterminator=self._dialect.terminator, **self._dialect.settings())
        try:
            writer.writerows(rows)
        except csv.Error:
            raise DataError(
                f"row {first + len(lines) + 1} holds the delimiter or a line break, which cannot be written without "
                "quotes; leave out --no-quotes, or write another format"
            ) from None
        self._stream.write(encoded(lines, first))


class _Lines(list[str]):
    """Collects what the csv module writes, one item for each row."""

    def write(self, line: str, /) -> int:
        self.append(line)
        return len(line)
