"""What the supervisor hands to its workers: compiled once, in one file that all of them map.

The file has no name and is reached through an inherited descriptor, so nobody else can read or change it.  Its arrays are
mapped, not copied: however many workers there are, the memory holds the vectors and weights once.
"""

from __future__ import annotations

import mmap
import os
import pickle
import struct
import tempfile
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from sfumato.server.catalogue import Catalogue, Offers
from sfumato.server.settings import Settings

_HEAD = struct.Struct("<QQ")
_PAGE = 4096


@dataclass(frozen=True)
class Handover:
    """Everything a worker needs."""

    settings: Settings
    offers: Offers
    secret: bytes = field(repr=False)

    def catalogue(self) -> Catalogue:
        """Return the catalogue, without compiling anything."""
        return Catalogue(self.settings, self.offers)


def written(handover: Handover) -> int:
    """Return the descriptor of a file that holds a handover."""
    descriptor = _nameless_file()
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(handover, protocol=5, buffer_callback=buffers.append)
    with os.fdopen(os.dup(descriptor), "wb") as stream:
        table = [buffer.raw().nbytes for buffer in buffers]
        stream.write(_HEAD.pack(len(body), len(table)) + struct.pack(f"<{len(table)}Q", *table) + body)
        for buffer in buffers:
            _to_next_page(stream)
            stream.write(buffer.raw())
    return descriptor


def read(descriptor: int) -> Handover:
    """Return the handover in a file; its arrays stay in the file and cannot be written to."""
    mapped = memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))
    length, count = _HEAD.unpack_from(mapped, 0)
    sizes = struct.unpack_from(f"<{count}Q", mapped, _HEAD.size)
    begin = _HEAD.size + 8 * count
    body, place = mapped[begin : begin + length], begin + length
    buffers: list[Any] = []
    for size in sizes:
        place = -(-place // _PAGE) * _PAGE
        buffers.append(mapped[place : place + size])
        place += size
    found: Handover = pickle.loads(body, buffers=buffers)
    return found


def _nameless_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("sfumato-handover")
    handle, path = tempfile.mkstemp(prefix="sfumato-handover-")
    os.unlink(path)
    return handle


def _to_next_page(stream: BinaryIO) -> None:
    stream.write(b"\0" * (-stream.tell() % _PAGE))
