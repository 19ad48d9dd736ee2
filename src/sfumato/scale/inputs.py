"""One file, the files of a folder, or those that a pattern names; and where the output of each goes."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.foundation.errors import DataError
from sfumato.scale.formats import format_of

_MAGIC = ("*", "?", "[")


@dataclass(frozen=True)
class Input:
    """A file to read, and its name relative to the others."""

    path: Path
    name: Path
    """Where its output goes, below the output's folder."""

    def identity(self) -> list[Any]:
        """Return what tells whether the file has changed since."""
        facts = self.path.stat()
        return [str(self.name), facts.st_size, facts.st_mtime_ns]


def several(source: str) -> bool:
    """Return whether this names a folder or a pattern, and not one file.

    >>> several("reviews.csv"), several("parts/*.csv")
    (False, True)
    """
    return Path(source).is_dir() or (not Path(source).exists() and any(sign in source for sign in _MAGIC))


def inputs_of(source: str) -> list[Input]:
    """Return the files that a folder or a pattern names, sorted by name; hidden ones and other formats are left out."""
    path = Path(source)
    if path.is_dir():
        base, found = path, _files_below(path)
    else:
        base = Path(os.path.dirname(source[: min(source.find(sign) for sign in _MAGIC if sign in source)]) or ".")
        found = iter(one for one in map(Path, glob.glob(source, recursive=True)) if one.is_file())
    chosen = [one for one in found if format_of(one) is not None and not _hidden(one.relative_to(base))]
    if not chosen:
        raise DataError(
            f"there is no file in {source} whose name says that it can be read; the names end with .csv, .tsv, .jsonl, "
            ".parquet or .txt, and .gz or .zst behind it"
        )
    return sorted((Input(one, one.relative_to(base)) for one in chosen), key=lambda one: one.name.parts)


def _files_below(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        for name in files:
            yield Path(place) / name


def _hidden(name: Path) -> bool:
    return any(part.startswith((".", "_")) for part in name.parts) or name.name.endswith(".guarantee.json")
