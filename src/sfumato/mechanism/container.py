"""A file of named arrays that is read through a memory map and refuses to be read when it was cut short or altered.

Layout (little-endian)::

    8 bytes   b"SFUMATO\\0"
    4 bytes   version of this layout
    4 bytes   zero
    8 bytes   length of the header
    8 bytes   length of the whole file
    32 bytes  SHA-256 of the header
    ...       the header: JSON with what is said about the content, and the place and SHA-256 of every section
    ...       the sections: plain arrays, each at a multiple of 64 bytes

The digest of the header covers the digests of the sections, so it stands for the whole file.  Sections are checked when
the file is opened, except *streamed* ones, which are as long as they like: those are checked a chunk of rows at a time
before the rows are used (see :mod:`sfumato.mechanism.artifact`).  A digest finds damage; whoever may rewrite the whole
file can also write new digests, so keep the digest where others cannot change it and hand it to :func:`open_container`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import mmap
import os
import secrets
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.foundation.errors import DataError

VERSION = 1
_MAGIC = b"SFUMATO\0"
_PREFIX = struct.Struct("<8sIIQQ32s")
_ALIGNMENT = 64
_COPY_BYTES = 1 << 22
AnyArray = npt.NDArray[Any]


@dataclass(frozen=True)
class Container:
    """An open file of arrays."""

    path: Path
    facts: dict[str, Any] = field(repr=False)
    sections: dict[str, AnyArray] = field(repr=False)
    digest: str
    """SHA-256 of the header, in hexadecimal; it stands for the whole content."""
    size: int


def _refuse(path: Path, reason: str) -> DataError:
    return DataError(f"{path} {reason}; write it again with: sfumato compile")


def _aligned(position: int) -> int:
    return -(-position // _ALIGNMENT) * _ALIGNMENT


class ContainerWriter:
    """Writes a file of arrays beside its place and moves it there when it is whole."""

    def __init__(self, path: Path) -> None:
        self._target = path
        self._stem = path.with_name(f".{secrets.token_hex(8)}.sfumato.part")
        self._streams: dict[str, Path] = {}
        self._dtypes: dict[str, np.dtype[Any]] = {}

    def __enter__(self) -> ContainerWriter:
        return self

    def __exit__(self, *_: object) -> None:
        for path in (self._stem, *self._streams.values()):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def append(self, name: str, array: AnyArray) -> None:
        """Add to a streamed section, whose length need not be known beforehand."""
        path = self._streams.setdefault(name, self._stem.with_name(f"{self._stem.name}.{len(self._streams)}"))
        self._dtypes[name] = array.dtype
        with path.open("ab") as file:
            file.write(np.ascontiguousarray(array).data)

    def finish(self, facts: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> str:
        """Put everything together and move it to its place; return the digest."""
        table: dict[str, dict[str, Any]] = {}
        for name, array in arrays.items():
            content = np.ascontiguousarray(array)
            table[name] = {
                "dtype": content.dtype.newbyteorder("<").str,
                "shape": list(content.shape),
                "sha256": hashlib.sha256(content.data).hexdigest(),
            }
        for name, path in self._streams.items():
            dtype = self._dtypes[name]
            table[name] = {"dtype": dtype.newbyteorder("<").str, "shape": [path.stat().st_size // dtype.itemsize]}
        # Places are relative to the end of the header, whose length depends on how they are written.
        position = 0
        for entry in table.values():
            entry["offset"] = position
            position = _aligned(position + _bytes_of(entry))
        header = json.dumps({**facts, "sections": table}).encode()  # infinite amounts are written as Python reads them
        digest = hashlib.sha256(header).digest()
        start = _aligned(_PREFIX.size + len(header))
        # Not tempfile: an artifact is public and has the usual permissions of a new file.
        with os.fdopen(os.open(self._stem, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            file.write(_PREFIX.pack(_MAGIC, VERSION, 0, len(header), start + position, digest))
            file.write(header)
            for name, entry in table.items():
                _pad(file, start + entry["offset"])
                if name in arrays:
                    file.write(np.ascontiguousarray(arrays[name]).data)
                else:
                    with self._streams[name].open("rb") as stream:
                        while piece := stream.read(_COPY_BYTES):
                            file.write(piece)
            _pad(file, start + position)
            file.flush()
            os.fsync(file.fileno())
        self._stem.replace(self._target)
        return digest.hex()


def _pad(file: Any, position: int) -> None:
    file.write(bytes(position - file.tell()))


def _bytes_of(entry: Mapping[str, Any]) -> int:
    return int(math.prod(entry["shape"]) * np.dtype(entry["dtype"]).itemsize)


def read_header(path: Path) -> tuple[dict[str, Any], str, int, int]:
    """Return the header, its digest, where the sections begin and the length of the file, all of them checked."""
    with path.open("rb") as file:
        prefix = file.read(_PREFIX.size)
        size = os.fstat(file.fileno()).st_size
        if len(prefix) < _PREFIX.size or not prefix.startswith(_MAGIC):
            raise _refuse(path, "is not a compiled mechanism")
        _, version, _, length, whole, digest = _PREFIX.unpack(prefix)
        if version != VERSION:
            raise _refuse(path, f"has version {version} of the format, and this program reads version {VERSION}")
        if size != whole:
            raise _refuse(path, f"is cut short or has grown: it has {size} bytes where {whole} were written")
        header = file.read(min(length, size))
    if hashlib.sha256(header).digest() != digest:
        raise _refuse(path, "was altered or damaged (its header does not match its digest)")
    return json.loads(header), digest.hex(), _aligned(_PREFIX.size + length), size


def open_container(path: Path, digest: str | None = None) -> Container:
    """Map a file into memory and check it; ``digest`` is what it must have, where that is known from elsewhere."""
    facts, found, start, size = read_header(path)
    if digest is not None and digest != found:
        raise _refuse(path, "is not the file that was expected (it has another digest)")
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    sections = {}
    for name, entry in facts["sections"].items():
        offset = start + entry["offset"]
        count = math.prod(entry["shape"])
        array = np.frombuffer(mapped, dtype=entry["dtype"], count=count, offset=offset).reshape(entry["shape"])
        if "sha256" in entry and hashlib.sha256(array.data).hexdigest() != entry["sha256"]:
            raise _refuse(path, f"was altered or damaged (section {name})")
        sections[name] = array
    return Container(path, facts, sections, found, size)
