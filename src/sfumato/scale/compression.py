"""Compressed files, in members that can be written one after the other.

A compressed output is cut into members (frames, for Zstandard) behind the batch that brings a member to 16 MiB of text.
Where a member ends follows from the content alone, so a run that was taken up writes the bytes of one that was not.
Every decompressor reads such a file as one.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

from sfumato.foundation.errors import DataError, MissingExtraError

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
MEMBER_BYTES = 1 << 24
_PIECE = 1 << 13
_ZSTD_LEVEL = 3
_GZIP_LEVEL = 6


def compression_of(name: str | Path) -> str | None:
    """Return how a file is compressed, by its name.

    >>> compression_of("reviews.csv.GZ"), compression_of("reviews.csv")
    ('gzip', None)
    """
    return COMPRESSIONS.get(Path(name).suffix.lower())


def plain_name(name: str | Path) -> Path:
    """Return the name without the suffix of a compression.

    >>> plain_name("reviews.csv.gz").name
    'reviews.csv'
    """
    path = Path(name)
    return path.with_suffix("") if compression_of(path) else path


class _Members:
    """The content of compressed members, one after the other; a member that is cut short is an error."""

    def __init__(self, stream: BinaryIO, begin: Callable[[], Any], errors: tuple[type[Exception], ...]) -> None:
        self._stream = stream
        self._begin = begin
        self._errors = errors
        self._current: Any = None
        self._rest = b""
        self._begun = False

    def read(self, size: int = -1) -> bytes:
        """Return what comes next, and nothing at the end; how much it is follows from the file, not from ``size``."""
        try:
            return self._next()
        except self._errors:
            raise DataError("the compressed input is damaged; get it again, or decompress it first") from None

    read1 = read

    def _next(self) -> bytes:
        while True:
            piece = self._rest or self._stream.read(_PIECE)
            self._rest = b""
            if not piece:
                if self._current is not None:
                    raise DataError("the compressed input is cut short; get it again, or decompress it first")
                return b""
            if self._current is None:
                piece = piece.lstrip(b"\0") if self._begun else piece  # members may be padded with zeros
                if not piece:
                    continue
                self._current = self._begin()
                self._begun = True
            text = cast(bytes, self._current.decompress(piece))
            if self._current.eof:
                self._rest = cast(bytes, self._current.unused_data)
                self._current = None
            if text:
                return text


def decompressed(stream: BinaryIO, compression: str | None) -> BinaryIO:
    """Return the stream that is in a compressed one; all of its members."""
    if compression is None:
        return stream
    if compression == "gzip":
        return cast(BinaryIO, _Members(stream, lambda: zlib.decompressobj(16 + zlib.MAX_WBITS), (zlib.error,)))
    zstandard = _zstandard()
    return cast(
        BinaryIO, _Members(stream, lambda: zstandard.ZstdDecompressor().decompressobj(), (zstandard.ZstdError,))
    )


def compressor(compression: str) -> Any:
    """Return a compressor of one member, with ``compress`` and ``flush``."""
    if compression == "gzip":
        # No name and no time in the header: equal content gives equal bytes.
        return zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return _zstandard().ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True).compressobj()


def _zstandard() -> Any:
    try:
        return importlib.import_module("zstandard")
    except ImportError:
        raise MissingExtraError("zstandard", "zstd") from None
