"""A folder of computed public figures, named by content digest.

Only figures about public spaces go in here, never anything computed from a user's text.  The folder is
``$SFUMATO_CACHE_DIR``, else ``$XDG_CACHE_HOME/sfumato``, else ``~/.cache/sfumato``.  A cache that cannot be written is
silently not used: it saves time and nothing depends on it.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any


def cache_folder() -> Path:
    """Return the folder, which may not exist yet."""
    explicit = os.environ.get("SFUMATO_CACHE_DIR")
    if explicit:
        return Path(explicit)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sfumato"


def read_bytes(name: str) -> bytes | None:
    """Return a cached file's content, or None."""
    try:
        return (cache_folder() / name).read_bytes()
    except OSError:
        return None


def write_bytes(name: str, content: bytes) -> None:
    """Store a file whole or not at all."""
    with contextlib.suppress(OSError):
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            Path(temporary).replace(folder / name)
        except OSError:
            Path(temporary).unlink(missing_ok=True)


def read_json(name: str) -> dict[str, Any] | None:
    """Return cached figures, or None where they are absent or damaged."""
    content = read_bytes(name)
    if content is None:
        return None
    try:
        data = json.loads(content)
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def write_json(name: str, data: dict[str, Any]) -> None:
    """Store figures."""
    write_bytes(name, json.dumps(data).encode())
