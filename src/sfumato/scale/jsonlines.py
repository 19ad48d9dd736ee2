"""JSON lines.  Texts are replaced inside the line: every other character of it stays what and where it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO, NoReturn

from sfumato.foundation.errors import DataError
from sfumato.scale.conversion import as_json
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

_BLANKS = " \t\r\n"


def _as_is(number: str) -> str:
    """Leave a number in the line uninterpreted: it may have more digits than Python converts."""
    return number


_VALUE = json.JSONDecoder(parse_float=_as_is, parse_int=_as_is, parse_constant=_as_is)


class _Malformed(Exception):
    """The line is not one JSON object."""


def _skip(line: str, at: int) -> int:
    while line[at : at + 1] in _BLANKS and at < len(line):
        at += 1
    return at


def _expect(line: str, at: int, wanted: str) -> str:
    found = line[at : at + 1]
    if not found or found not in wanted:
        raise _Malformed
    return found


def _members(line: str) -> Iterator[tuple[str, int, int, Any]]:
    """Yield the keys of the object in a line, with the place of each value, and the value (numbers as text)."""
    at = _skip(line, 0)
    _expect(line, at, "{")
    at = _skip(line, at + 1)
    if line[at : at + 1] == "}":
        more, at = "}", at + 1
    else:
        more = ","
    while more == ",":
        _expect(line, at, '"')
        key, at = _VALUE.raw_decode(line, at)
        at = _skip(line, at)
        _expect(line, at, ":")
        start = _skip(line, at + 1)
        value, end = _VALUE.raw_decode(line, start)
        yield key, start, end, value
        at = _skip(line, end)
        more = _expect(line, at, ",}")
        at = _skip(line, at + 1)
    if at != len(line):
        raise _Malformed


class _JsonLine:
    """One line and where its texts are."""

    __slots__ = ("line", "number", "spans", "texts")

    def __init__(self, line: str, number: int, columns: tuple[str, ...]) -> None:
        self.line = line
        self.number = number
        found: dict[str, tuple[int, int, Any]] = {}
        try:
            for key, start, end, value in _members(line):
                if key in columns:
                    if key in found:
                        raise DataError(f"line {number} has the key of a text column twice; remove one of them")
                    found[key] = (start, end, value)
        except (ValueError, RecursionError, _Malformed):
            _malformed(number)
        missing = [name for name in columns if name not in found]
        if missing:
            raise DataError(
                f"line {number} has no key {', '.join(missing)}; where there is no text, give the key with null"
            )
        self.spans = [found[name][:2] for name in columns]
        self.texts = [self._text(start, value) for start, _, value in map(found.__getitem__, columns)]

    def _text(self, start: int, value: Any) -> str | None:
        if value is None or self.line[start] == '"':
            return value  # type: ignore[no-any-return]
        raise DataError(
            f"line {self.number} holds something other than a text or null in a text column; choose another --column, "
            "or turn the value into a string"
        )

    def put(self, texts: list[str | None]) -> None:
        pieces, at = [], 0
        for (start, end), text in sorted(zip(self.spans, texts, strict=True), key=lambda item: item[0]):
            pieces += [self.line[at:start], "null" if text is None else as_json(text)]
            at = end
        self.line = "".join((*pieces, self.line[at:]))
        self.texts = texts
        self.spans = []


def _malformed(number: int) -> NoReturn:
    raise DataError(f"line {number} is not a JSON object; every line must hold one, as in {{...}}") from None


class JsonRecords(Records):
    """Lines of JSON."""

    def __init__(self, first: int, lines: list[_JsonLine]) -> None:
        self.first = first
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def lines(self) -> list[str]:
        """The lines as they stand, with their ends."""
        return [line.line for line in self._lines]

    def texts(self) -> Texts:
        """Return the text columns."""
        return [list(column) for column in zip(*(line.texts for line in self._lines), strict=True)]

    def replace(self, texts: Texts) -> None:
        """Put other texts in their place, inside the lines; once only."""
        for line, row in zip(self._lines, zip(*texts, strict=True), strict=True):
            line.put(list(row))

    def rows(self) -> list[dict[str, Any]]:
        """Return every record as a dictionary."""
        rows = []
        for line in self._lines:
            try:
                rows.append(json.loads(line.line))
            except ValueError:  # a number of thousands of digits
                raise DataError(f"line {line.number} holds a number that cannot be converted; write .jsonl") from None
        return rows


class JsonReader(Reader):
    """Reads JSON lines; blank lines are left out."""

    def __init__(self, stream: BinaryIO, options: ReadOptions, total: int | None = None) -> None:
        self._total = total
        self._lines = TextLines(stream, options.encoding, options.longest_record)
        self._iterator = (line for line in self._lines if not line.isspace())
        self.text_columns = tuple(options.columns)
        self._first = next(self._iterator, None)
        if self._first is None:
            self.columns = self.text_columns
            return
        try:
            self.columns = tuple(dict.fromkeys(key for key, *_ in _members(self._first)))
        except (ValueError, RecursionError, _Malformed):
            _malformed(self._lines.number)
        chosen_columns(self.columns, options.columns)

    def batches(self) -> Iterator[Records]:
        """Read the lines."""
        if self._first is None:
            return
        lines = [_JsonLine(self._first, self._lines.number, self.text_columns)]
        first, characters = 0, len(self._first)
        for line in self._iterator:
            if len(lines) == RECORDS_AT_ONCE or characters >= CHARACTERS_AT_ONCE:
                yield JsonRecords(first, lines)
                first, lines, characters = first + len(lines), [], 0
            lines.append(_JsonLine(line, self._lines.number, self.text_columns))
            characters += len(line)
        yield JsonRecords(first, lines)

    def progress(self) -> tuple[int, int | None]:
        """Return bytes read and in total."""
        return self._lines.bytes_read, self._total


class JsonWriter(Writer):
    """Writes JSON lines."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, records: Records) -> None:
        """Write the lines of a batch."""
        lines = records.lines if isinstance(records, JsonRecords) else [as_json(row) + "\n" for row in records.rows()]
        self._stream.write(encoded(lines, records.first))
