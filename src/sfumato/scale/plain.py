"""Plain text, one record for each line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from sfumato.foundation.errors import DataError
from sfumato.scale.lines import TextLines, encoded
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

COLUMN = "text"
"""The name of the only column of a file of lines."""


class PlainRecords(Records):
    """Lines and their ends."""

    def __init__(self, first: int, lines: list[str]) -> None:
        self.first = first
        self.ends = ["\r\n" if line.endswith("\r\n") else line[-1:] if line.endswith("\n") else "" for line in lines]
        self.lines = [line[: len(line) - len(end)] for line, end in zip(lines, self.ends, strict=True)]

    def __len__(self) -> int:
        return len(self.lines)

    def texts(self) -> Texts:
        """Return the lines without their ends."""
        return [list(self.lines)]

    def replace(self, texts: Texts) -> None:
        """Put other lines in their place."""
        self.lines = [text or "" for text in texts[0]]

    def rows(self) -> list[dict[str, Any]]:
        """Return every line as a dictionary of one key."""
        return [{COLUMN: line} for line in self.lines]


class PlainReader(Reader):
    """Reads lines."""

    columns = (COLUMN,)
    text_columns = (COLUMN,)

    def __init__(self, stream: BinaryIO, options: ReadOptions, total: int | None = None) -> None:
        self._total = total
        self._lines = TextLines(stream, options.encoding, options.longest_record)
        chosen_columns(self.columns, options.columns or self.columns)

    def batches(self) -> Iterator[Records]:
        """Read the lines."""
        lines: list[str] = []
        first = characters = 0
        for line in self._lines:
            lines.append(line)
            characters += len(line)
            if len(lines) == RECORDS_AT_ONCE or characters >= CHARACTERS_AT_ONCE:
                yield PlainRecords(first, lines)
                first, lines, characters = first + len(lines), [], 0
        if lines:
            yield PlainRecords(first, lines)

    def progress(self) -> tuple[int, int | None]:
        """Return bytes read and in total."""
        return self._lines.bytes_read, self._total


class PlainWriter(Writer):
    """Writes the text column of records, one line for each, and leaves the other columns out."""

    def __init__(self, stream: BinaryIO, text_columns: tuple[str, ...]) -> None:
        if len(text_columns) != 1:
            raise DataError("a file of plain lines holds one text column; name one --column, or write another format")
        self._stream = stream

    def write(self, records: Records) -> None:
        """Write the lines of a batch."""
        texts = [text or "" for text in records.texts()[0]]
        ends = records.ends if isinstance(records, PlainRecords) else ["\n"] * len(texts)
        for place, text in enumerate(texts):
            if "\n" in text:
                raise DataError(
                    f"row {records.first + place + 1} holds a line break, which would end a record in a file of plain "
                    "lines; write .csv or .jsonl"
                )
        self._stream.write(encoded([t + end for t, end in zip(texts, ends, strict=True)], records.first))
