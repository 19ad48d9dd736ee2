"""Output files appear whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, cast

from sfumato.foundation.errors import DataError


def checked_target(path: Path, *, sources: Sequence[Path] = (), force: bool = False) -> Path:
    """Return where a file may be written (behind any symbolic link), or raise and say why it may not.

    Only a regular file is ever replaced, never one of the sources, and an existing one only with ``force``.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise DataError(f"{target.parent} is not a folder; make it, or choose another place for the output")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise DataError(
            f"nothing may be written to the folder {target.parent}; choose another place for the output, or change the folder's "
            "permissions"
        )
    try:
        kind = target.stat().st_mode
    except FileNotFoundError:
        return target
    if not stat.S_ISREG(kind):
        raise DataError(
            f"{path} is not a regular file and is not replaced; choose another output, or - to write to a pipe"
        )
    if any(source.exists() and target.samefile(source) for source in sources):
        raise DataError(
            f"{path} is one of the inputs and is not replaced, not even with --force; choose another output"
        )
    if not force:
        raise DataError(f"{path} exists; choose another output, or replace it with --force")
    return target


class PendingFile:
    """A file that is written beside its place and moved there by :meth:`commit`; otherwise it leaves nothing.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> target = Path(folder.name) / "out.txt"
    >>> with PendingFile(target) as pending:
    ...     _ = pending.stream.write(b"done")
    ...     pending.commit()
    >>> target.read_text(), len(list(target.parent.iterdir()))
    ('done', 1)
    >>> folder.cleanup()
    """

    def __init__(self, target: Path) -> None:
        self.target = target
        self._temporary = target.with_name(f".{secrets.token_hex(8)}.sfumato.part")
        # Not tempfile: its files are for their owner alone, an output has the usual permissions of a new file.
        handle = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        self.stream = cast(BinaryIO, os.fdopen(handle, "wb"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Closing flushes, which fails again on a full disk: the file has to go all the same.
        with contextlib.suppress(OSError):
            self.stream.close()
        self._temporary.unlink(missing_ok=True)

    def sha256(self) -> str:
        """Finish writing and return the SHA-256 of the content."""
        self._finish()
        with self._temporary.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def commit(self) -> None:
        """Finish writing and move the file to its place."""
        self._finish()
        self._temporary.replace(self.target)

    def _finish(self) -> None:
        if not self.stream.closed:
            self.stream.flush()
            os.fsync(self.stream.fileno())
            self.stream.close()
