"""Rate limits that all processes of the service share.

Each caller has a bucket that fills at its rate up to a burst; a request takes one from it.  The buckets lie in a file that
every process maps, and a record lock of the operating system keeps them apart; such a lock ends with its process.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import tempfile
import threading
import time
from collections.abc import Mapping

_ENTRY = struct.Struct("dd")


class Buckets:
    """One bucket for each name.

    >>> buckets = Buckets({"app": 60.0}, burst=2, descriptor=new_file(1))
    >>> [buckets.take("app", now=100.0) for _ in range(3)], buckets.take("app", now=101.0)
    ([0.0, 0.0, 1.0], 0.0)
    """

    def __init__(self, per_minute: Mapping[str, float], *, burst: int, descriptor: int) -> None:
        self._places = {name: place for place, name in enumerate(per_minute)}
        self._rates = {name: rate / 60 for name, rate in per_minute.items()}
        self._burst = float(burst)
        self._file = descriptor
        self._map = mmap.mmap(descriptor, _size(len(per_minute)))
        self._lock = threading.Lock()

    def take(self, name: str, *, now: float | None = None) -> float:
        """Take one; return 0, or in how many seconds there will be one."""
        now = time.monotonic() if now is None else now
        start = self._places[name] * _ENTRY.size
        rate = self._rates[name]
        with self._lock:
            fcntl.lockf(self._file, fcntl.LOCK_EX, _ENTRY.size, start)
            try:
                missing, last = _ENTRY.unpack_from(self._map, start)
                missing = max(0.0, missing - max(0.0, now - last) * rate)
                wait: float = max(0.0, (missing + 1 - self._burst) / rate)
                _ENTRY.pack_into(self._map, start, missing if wait else missing + 1, now)
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN, _ENTRY.size, start)
        return wait


def new_file(names: int) -> int:
    """Return a descriptor of an empty file for so many buckets; it vanishes with its last user."""
    handle, path = tempfile.mkstemp(prefix="sfumato-rates-")
    os.unlink(path)
    os.ftruncate(handle, _size(names))
    return handle


def _size(names: int) -> int:
    return max(1, names) * _ENTRY.size
