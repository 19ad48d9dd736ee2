"""A training plan as a file: which sentences, which model, which promise.

Sections and their settings are checked all at once; an unknown one is an error, for a misspelled limit would protect
nothing.
"""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sfumato.foundation.errors import DataError, ParameterError

SECTIONS: dict[str, tuple[str, ...]] = {
    "data": ("train", "held_out", "text", "user", "label", "protect", "length"),
    "model": (
        "kind", "words", "space", "embedding", "hidden", "layers", "classes", "freeze_embedding", "dropout", "source",
        "file", "adapters", "train_encoder", "seed",
    ),
    "privacy": (
        "method", "epsilon", "delta", "noise", "clip", "rate", "steps", "per_user", "per_entity", "entity_rate",
        "estimator", "allow_unsound", "budget",
    ),
    "training": (
        "optimizer", "learning_rate", "momentum", "local_rate", "local_epochs", "local_batch", "engine", "chunk", "every",
    ),
    "output": ("model", "log", "run"),
    "ledger": ("address", "subject", "subject_key"),
}  # fmt: skip


@dataclass(frozen=True)
class PlanFile:
    """The content of a plan file; paths are relative to it."""

    folder: Path
    data: Mapping[str, Any]
    model: Mapping[str, Any]
    privacy: Mapping[str, Any]
    training: Mapping[str, Any] = field(default_factory=dict)
    output: Mapping[str, Any] = field(default_factory=dict)
    ledger: Mapping[str, Any] = field(default_factory=dict)

    def path(self, name: str) -> Path:
        """Return a path of the file, relative to where the file is."""
        return self.folder / name


def read_plan_file(path: Path) -> PlanFile:
    """Read and check a plan file."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path.name} is not a TOML file: {error}") from None
    problems = [_unlike("section", name, SECTIONS) for name in found if name not in SECTIONS]
    for section, names in SECTIONS.items():
        given = found.get(section, {})
        if not isinstance(given, dict):
            problems.append(f"[{section}] must be a section")
            continue
        problems += [_unlike(f"setting of [{section}]", name, names) for name in given if name not in names]
    for section, needed in {"data": ("train",), "privacy": ("method", "rate", "steps")}.items():
        given = found.get(section, {})
        problems += [f"[{section}] needs {name}" for name in needed if isinstance(given, dict) and name not in given]
    if problems:
        raise ParameterError("; ".join(problems))
    values = {one.name: found.get(one.name, {}) for one in dataclasses.fields(PlanFile) if one.name != "folder"}
    return PlanFile(path.parent, **values)


def _unlike(what: str, name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"unknown {what} {name!r}" + (f", did you mean {near[0]!r}?" if near else "")
