"""Vectors on disk: what was accepted is there after a crash.

One file that only grows.  Batches that arrive together are written as one group and flushed to the disk before any of
them is accepted, so a group may be torn only if nothing of it was accepted, and only at the end of the file: there it is
cut off when the file is opened.  A damaged group with others behind it was accepted once, and is reported.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sfumato.foundation.checks import require_count
from sfumato.foundation.errors import DataError, SfumatoError

_MAGIC = b"sfuLat01"
_HEADER = struct.Struct("<8sQII")
"""Of a group: magic, bytes that follow, their checksum, and the checksum of what is before it."""
_BATCH = struct.Struct("<16sIH")
"""Of a batch: its number, how many vectors, and how many numbers each has."""
_MOST_VECTORS = 5_000_000


class StoreError(SfumatoError):
    """Vectors cannot be kept."""


class StoreFullError(StoreError):
    """There is no room for more vectors."""


class ReusedBatchError(StoreError):
    """The number of a batch stands for another batch already."""


@dataclass(frozen=True)
class Batch:
    """Vectors and labels that were sent together."""

    number: int
    """Chosen at random by the sender; 128 bits."""
    vectors: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int32]

    def encoded(self) -> bytes:
        """Return the batch as bytes."""
        count, dimension = self.vectors.shape
        head = _BATCH.pack(self.number.to_bytes(16, "little"), count, dimension)
        return head + self.labels.astype("<i4").tobytes() + self.vectors.astype("<f4").tobytes()


@dataclass
class _Entry:
    """A batch on its way to the disk."""

    data: bytes
    count: int
    digest: bytes
    done: bool = False
    error: SfumatoError | None = field(default=None)


class VectorStore:
    """Keeps batches of vectors; safe for many threads, and for one process at a time.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = VectorStore(Path(folder.name) / "vectors", dimension=2)
    >>> batch = Batch(7, np.zeros((3, 2), np.float32), np.zeros(3, np.int32))
    >>> store.append(batch), store.append(batch), store.count
    (True, False, 3)
    >>> store.close(); folder.cleanup()
    """

    def __init__(self, path: Path, dimension: int, most: int = _MOST_VECTORS) -> None:
        require_count(dimension=dimension, most=most)
        self._path, self._dimension, self._most = path, dimension, most
        self._known: dict[int, bytes] = {}
        self._waiting: dict[int, _Entry] = {}
        self._queue = threading.Lock()
        self._disk = threading.Lock()
        self.count = 0
        self.cut_off = 0
        """Bytes of a group that a crash left unfinished; nothing of it had been accepted."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self._lock()
            self._recover()
        except BaseException:
            os.close(self._file)
            raise

    def append(self, batch: Batch) -> bool:
        """Keep a batch; True once it is on the disk, False where the very same batch was there already."""
        data = batch.encoded()
        entry = _Entry(data, len(batch.vectors), hashlib.sha256(data).digest())
        with self._queue:
            known = self._known.get(batch.number)
            ahead = self._waiting.get(batch.number)
            if known is None and ahead is None:
                waiting = sum(one.count for one in self._waiting.values())
                if self.count + waiting + entry.count > self._most:
                    raise StoreFullError(f"{self._most} vectors are the most that is kept here; train, then begin anew")
                self._waiting[batch.number] = entry
        same = known if known is not None else ahead.digest if ahead is not None else entry.digest
        if same != entry.digest:
            raise ReusedBatchError("this number stands for another batch; choose a new random number for each batch")
        if known is None:
            mine = ahead or entry
            self._settle(mine)
            if mine.error is not None:
                raise mine.error
        return known is None and ahead is None

    def _settle(self, entry: _Entry) -> None:
        """Wait until an entry is on the disk; whoever gets the disk first writes what all others have brought."""
        with self._disk:
            if entry.done:
                return
            with self._queue:
                group = dict(self._waiting)
            payload = b"".join(one.data for one in group.values())
            error = self._write(payload)
            with self._queue:
                for number, one in group.items():
                    one.done, one.error = True, error
                    del self._waiting[number]
                    if error is None:
                        self._known[number] = one.digest
                        self.count += one.count

    def _write(self, payload: bytes) -> SfumatoError | None:
        end = os.lseek(self._file, 0, os.SEEK_END)
        head = _MAGIC + struct.pack("<QI", len(payload), zlib.crc32(payload))
        group = memoryview(head + struct.pack("<I", zlib.crc32(head)) + payload)
        try:
            while group:
                group = group[os.write(self._file, group) :]
            os.fsync(self._file)
        except OSError as error:
            try:
                os.ftruncate(self._file, end)
            except OSError:
                os.close(self._file)
                self._file = -1
            return StoreFullError(f"the disk does not take more ({error.strerror}); nothing of this batch was kept")
        return None

    def batches(self) -> Iterator[Batch]:
        """Return everything that was accepted, in the order it was written."""
        with self._path.open("rb") as file:
            size = os.fstat(self._file).st_size
            while file.tell() < size:
                payload = _read_group(file.read(_HEADER.size), file.read)
                if payload is None:
                    return  # a group that is being written just now
                yield from self._decoded(payload)

    def arrays(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Return all vectors and labels."""
        vectors = [np.empty((0, self._dimension), np.float32)]
        labels = [np.empty(0, np.int32)]
        for batch in self.batches():
            vectors.append(batch.vectors)
            labels.append(batch.labels)
        return np.concatenate(vectors), np.concatenate(labels).astype(np.int64)

    def close(self) -> None:
        """Give the file back."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StoreError("another server uses this folder; stop it, or name another folder") from None

    def _recover(self) -> None:
        """Read what is there, and cut off what a crash left unfinished."""
        end = 0
        with self._path.open("rb") as file:
            while True:
                payload = _read_group(file.read(_HEADER.size), file.read)
                if payload is None:
                    break
                for batch in self._decoded(payload):
                    self._known[batch.number] = hashlib.sha256(batch.encoded()).digest()
                    self.count += len(batch.vectors)
                end = file.tell()
            size = os.fstat(self._file).st_size
            if end < size:
                file.seek(end)
                _refuse_damage(file.read(), end)
        self.cut_off = size - end
        if self.cut_off:
            os.ftruncate(self._file, end)
        os.fsync(self._file)
        folder = os.open(self._path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def _decoded(self, payload: bytes) -> Iterator[Batch]:
        place = 0
        while place < len(payload):
            number, count, dimension = _BATCH.unpack_from(payload, place)
            if dimension != self._dimension:
                raise StoreError(
                    f"the kept vectors have {dimension} numbers each, the terms say {self._dimension}; use a new folder"
                )
            place += _BATCH.size
            labels = np.frombuffer(payload, "<i4", count, place)
            place += labels.nbytes
            vectors = np.frombuffer(payload, "<f4", count * dimension, place).reshape(count, dimension)
            place += vectors.nbytes
            yield Batch(int.from_bytes(number, "little"), vectors, labels)


def _read_group(head: bytes, read: object) -> bytes | None:
    """Return what a group holds, or None where it is not whole."""
    if len(head) < _HEADER.size:
        return None
    magic, length, checksum, own = _HEADER.unpack(head)
    if magic != _MAGIC or zlib.crc32(head[:-4]) != own:
        return None
    payload: bytes = read(length)  # type: ignore[operator]
    return payload if len(payload) == length and zlib.crc32(payload) == checksum else None


def _refuse_damage(rest: bytes, start: int) -> None:
    """Raise where a whole group lies behind a damaged one: then the damaged one had been accepted."""
    place = rest.find(_MAGIC, 1)
    while place >= 0:
        body = place + _HEADER.size
        if _read_group(rest[place:body], lambda length, body=body: rest[body : body + length]) is not None:
            raise DataError(
                f"the kept vectors are damaged at byte {start}, and good ones follow; restore the file from a copy"
            )
        place = rest.find(_MAGIC, place + 1)
