"""An output while it is written: beside its place, in a file that can be taken up again where it was last made durable.

The file's name follows from the output's, so a run that was killed can be found; a lock on it keeps two runs apart.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self, cast

from sfumato.foundation.errors import DataError
from sfumato.scale.compression import MEMBER_BYTES, compressor


def part_path(target: Path) -> Path:
    """Return where an output is written before it is whole."""
    return target.with_name(f".{hashlib.sha256(os.fsencode(target)).hexdigest()[:16]}.sfumato.part")


class PartFile:
    """A file that is written beside its place and moved there by :meth:`commit`.

    Unless :attr:`keep` is set, nothing is left of it otherwise (where the process is not killed).

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> target = Path(folder.name) / "out.txt"
    >>> with PartFile(target) as part:
    ...     _ = part.write(b"one, ")
    ...     place = part.durable()
    ...     part.keep = True
    >>> with PartFile(target, position=place) as part:
    ...     _ = part.write(b"two")
    ...     part.commit()
    >>> target.read_text(), len(list(target.parent.iterdir()))
    ('one, two', 1)
    >>> folder.cleanup()
    """

    def __init__(self, target: Path, *, compression: str | None = None, position: int = 0) -> None:
        self.target = target
        self.keep = False
        """Whether what is written stays there when the context is left, to be taken up again."""
        self.muted = False
        """Whether what is written is dropped: a writer's first bytes are there already when a file is taken up."""
        self._path = part_path(target)
        # Not tempfile: its files are for their owner alone, an output has the usual permissions of a new file.
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        self._file = os.fdopen(handle, "r+b", buffering=1 << 18)
        self._lock()
        self._file.seek(0, os.SEEK_END)
        if self._file.tell() < position:
            self._file.close()
            raise DataError(f"{self._path} is shorter than it was; begin anew, without --resume")
        self._file.truncate(position)
        self._file.seek(position)
        self._compression = compression
        self._member: Any = None
        self._in_member = 0

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise DataError(f"another run is writing {self.target}; wait for it, or choose another output") from None

    @property
    def stream(self) -> BinaryIO:
        """What a writer writes to."""
        return cast(BinaryIO, self)

    def write(self, content: bytes) -> int:
        """Write, compressing where that was asked for."""
        if self.muted:
            return len(content)
        if self._compression is None:
            return self._file.write(content)
        if self._member is None:
            self._member = compressor(self._compression)
        self._in_member += len(content)
        self._file.write(self._member.compress(content))
        return len(content)

    def tell(self) -> int:
        """Return the place in the file, for formats that need it."""
        return self._file.tell()

    def flush(self) -> None:
        """Hand everything to the system."""
        self._file.flush()

    @property
    def closed(self) -> bool:
        """Whether the file is finished."""
        return self._file.closed

    def end_batch(self) -> None:
        """End a member of a compressed file that is long enough."""
        if self._in_member >= MEMBER_BYTES:
            self._end_member()

    def _end_member(self) -> None:
        if self._member is not None:
            self._file.write(self._member.flush())
            self._member, self._in_member = None, 0

    def durable(self) -> int | None:
        """Make everything so far durable and return its length; None within a member of a compressed file."""
        if self._member is not None:
            return None
        self._sync()
        return self._file.tell()

    def _sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The name goes before the lock does, so that nobody else's file is removed.
        if not self.keep and not self._file.closed:
            self._path.unlink(missing_ok=True)
        # Closing flushes, which fails again on a full disk.
        with contextlib.suppress(OSError):
            self._file.close()

    def finish(self) -> None:
        """Write what is held back and make it durable."""
        self._end_member()
        if self._compression is not None and self._file.tell() == 0:
            self._file.write(compressor(self._compression).flush())  # an empty file is a member with nothing in it
        self._sync()

    def sha256(self) -> str:
        """Finish writing and return the SHA-256 of the content."""
        self.finish()
        with self._path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def commit(self) -> None:
        """Finish writing and move the file to its place."""
        self.finish()
        self._path.replace(self.target)
        self._file.close()
