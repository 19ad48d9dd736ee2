"""Bytes to lines of text: decoded strictly, in pieces, and never more than one record in memory.

Every problem is reported by its place; the bytes and characters themselves are left out of the message.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from typing import BinaryIO

from sfumato.foundation.errors import DataError, ParameterError

_CHUNK = 1 << 18
_BOM = "\ufeff"


def check_encoding(encoding: str) -> None:
    """Raise where there is no such text encoding."""
    try:
        known = codecs.lookup(encoding)
        "".encode(encoding)  # codecs that are not about text, such as hex, refuse here
    except (LookupError, ValueError):
        raise ParameterError("encoding must be the name of a text encoding, such as utf-8, utf-16 or cp1252") from None
    if known.name in ("idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape"):
        raise ParameterError("encoding must be the name of a text encoding, such as utf-8, utf-16 or cp1252")


class TextLines:
    r"""The lines of a binary stream, with their line feeds.

    >>> import io
    >>> list(TextLines(io.BytesIO("\ufeffone\r\ntwo".encode())))
    ['one\r\n', 'two']
    """

    def __init__(self, stream: BinaryIO, encoding: str = "utf-8", longest: int = 20_000_000) -> None:
        check_encoding(encoding)
        # One system call at a time: what a pipe has is used at once, and an interruption is noticed between two calls.
        self._read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="strict")
        self._longest = longest
        self.number = 0
        """Number of the line that was yielded last, from 1."""
        self.bytes_read = 0
        self.byte_order_mark = False

    def __iter__(self) -> Iterator[str]:
        held: list[str] = []
        length = 0
        at_start = True
        while True:
            chunk = self._read(_CHUNK)
            text = self._decoded(chunk)
            if at_start and text:
                self.byte_order_mark = text.startswith(_BOM)
                text = text.removeprefix(_BOM)
                at_start = False
            self._refuse_nul(text)
            *whole, rest = text.split("\n")
            for piece in whole:
                self._check_length(length + len(piece))
                self.number += 1
                yield "".join((*held, piece, "\n")) if held else piece + "\n"
                held, length = [], 0
            if rest:
                held.append(rest)
                length += len(rest)
                self._check_length(length)
            if not chunk:
                break
        if held:
            self.number += 1
            yield "".join(held)

    def _decoded(self, chunk: bytes) -> str:
        pending = len(self._decoder.getstate()[0])
        start = self.bytes_read - pending
        self.bytes_read += len(chunk)
        try:
            return self._decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            place = start + error.start
            line = self.number + 1 + error.object[: error.start].count(b"\n")
        raise DataError(
            f"byte {place} (line {line}) is not {self._encoding}; name the encoding of the file with --encoding, for "
            "instance --encoding cp1252"
        )

    def _refuse_nul(self, text: str) -> None:
        place = text.find("\0")
        if place >= 0:
            line = self.number + 1 + text.count("\n", 0, place)
            raise DataError(
                f"line {line} holds a NUL character, so this is not text in {self._encoding}; check the format, or "
                "name the encoding with --encoding, for instance --encoding utf-16"
            )

    def _check_length(self, length: int) -> None:
        if length > self._longest:
            raise too_long(f"line {self.number + 1}", self._longest)


def too_long(place: str, longest: int) -> DataError:
    """Return the error for a record that exceeds the limit."""
    return DataError(
        f"{place} is longer than {longest} characters; split it into records, or allow more with --max-record-chars"
    )


def encoded(lines: list[str], first: int) -> bytes:
    """Return lines as UTF-8; where one cannot be written, the error names the record (``first`` is the first's)."""
    try:
        return "".join(lines).encode("utf-8")
    except UnicodeEncodeError:
        pass
    for place, line in enumerate(lines):
        try:
            line.encode("utf-8")
        except UnicodeEncodeError:
            raise DataError(
                f"row {first + place + 1} holds half of a surrogate pair, which UTF-8 cannot write; repair that row, "
                "or write .jsonl"
            ) from None
    raise DataError("a record holds a character that UTF-8 cannot write; repair it, or write .jsonl")
