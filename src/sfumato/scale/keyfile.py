"""Run keys in files that only their owner can read.

Whoever has the key of a run can undo its noise, so the file has mode 0600 and never lies beside an output.  It remembers,
under a keyed hash, which texts and settings it was used for: the same noise on two texts would give both away.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sfumato.foundation.errors import DataError, ParameterError
from sfumato.foundation.randomness import KEY_BYTES, RunKey


@dataclass(frozen=True)
class KeyFile:
    """A key and what it was used for."""

    path: Path
    key: RunKey
    used_for: str | None = field(default=None, repr=False)

    @classmethod
    def open(cls, path: Path, outputs: Sequence[Path] = ()) -> KeyFile:
        """Read the key in a file, or make one; ``outputs`` are files that it may not lie beside.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = KeyFile.open(Path(folder) / "run.key")
        ...     (KeyFile.open(made.path).key == made.key, oct(made.path.stat().st_mode & 0o777))
        (True, '0o600')
        """
        check_place(path, outputs)
        try:
            return cls._read(path)
        except FileNotFoundError:
            made = cls(path, RunKey.generate())
            made._write()
            return made

    @classmethod
    def _read(cls, path: Path) -> KeyFile:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise DataError(f"{path} can be read by others than its owner; take that away: chmod 600 {path}")
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            secret, used_for = bytes.fromhex(data["key"]), data.get("used_for")
        except (ValueError, KeyError, TypeError):
            raise DataError(f"{path} does not hold a run key; name another file, and one is made") from None
        if len(secret) != KEY_BYTES or not isinstance(used_for, str | None):
            raise DataError(f"{path} does not hold a run key; name another file, and one is made")
        return cls(path, RunKey(secret), used_for)

    def used(self, description: str) -> KeyFile:
        """Note what the key is used for, or raise where it was used for something else before."""
        mark = hmac.new(self.key.secret, description.encode(), hashlib.sha256).hexdigest()
        if self.used_for is None:
            marked = KeyFile(self.path, self.key, mark)
            marked._write()
            return marked
        if not hmac.compare_digest(self.used_for, mark):
            raise ParameterError(
                f"the key in {self.path} was used for other texts or other settings; the same noise on both would give "
                "them away: name a new file, and a key is made"
            )
        return self

    def _write(self) -> None:
        content = json.dumps({"key": self.key.secret.hex(), "used_for": self.used_for}) + "\n"
        write_private(self.path, content.encode())


def check_place(path: Path, outputs: Sequence[Path]) -> None:
    """Raise where a key would lie beside an output, or in a folder of outputs, and could be handed over with it."""
    folder = Path(os.path.realpath(path)).parent
    for output in outputs:
        real = Path(os.path.realpath(output))
        if (folder == real.parent and not real.is_dir()) or real == folder or real in folder.parents:
            raise ParameterError(
                "the key would lie in the output's folder, and whoever gets it can undo the noise; keep it elsewhere, for "
                "instance in a folder of its own"
            )


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    temporary = path.with_name(f".{secrets.token_hex(8)}.part")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
