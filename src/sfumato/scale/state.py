"""What is known about a run that has not ended: its key and how far it is, in a folder of the owner.

The folder is ``$SFUMATO_STATE_DIR``, else ``$XDG_STATE_HOME/sfumato``, else ``~/.local/state/sfumato``, and readable by
its owner alone.  It is written when a run has lasted a while, and removed when the run has ended.  No text is in it.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from sfumato.foundation.errors import DataError
from sfumato.foundation.randomness import RunKey
from sfumato.sanitize.sanitizer import Counts
from sfumato.scale.keyfile import check_place, write_private
from sfumato.scale.runner import RunSummary

_FORMAT = 1


def state_folder() -> Path:
    """Return the folder, which may not exist yet."""
    explicit = os.environ.get("SFUMATO_STATE_DIR")
    if explicit:
        return Path(explicit)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "sfumato"


@dataclass(frozen=True)
class Checkpoint:
    """How far a run is."""

    files: int = 0
    """Outputs that are finished."""
    position: int = 0
    """Bytes of the output that was begun."""
    parts: int = 0
    """Row groups of it that lie beside it, for formats that are put together at the end."""
    summary: RunSummary = field(default_factory=RunSummary)
    """Of the output that was begun."""
    done: RunSummary = field(default_factory=RunSummary)
    """Of the finished ones."""
    tally: dict[str, int] = field(default_factory=dict)
    """Records that were released and held back, where subjects pay."""
    stopped: bool = False


class RunState:
    """The state of the run that writes a certain output (a file or a folder)."""

    def __init__(self, output: Path, settings: dict[str, Any], seed: int | None = None) -> None:
        self.folder = state_folder() / "runs" / sha256(os.fsencode(output)).hexdigest()[:32]
        check_place(self.folder / "key", [output])
        self._settings = sha256(json.dumps([_FORMAT, settings, seed], sort_keys=True).encode()).hexdigest()

    @property
    def _file(self) -> Path:
        return self.folder / "run.json"

    def load(self) -> tuple[RunKey, Checkpoint] | None:
        """Return the key and the place of a run that was not ended, or None where there is none."""
        try:
            data = json.loads(self._file.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError:
            raise DataError(f"{self._file} is damaged; begin anew, without --resume") from None
        if data["settings"] != self._settings:
            raise DataError(
                "the run to resume had other inputs, outputs or settings, or an input has changed since; give the same, "
                "or begin anew without --resume"
            )
        key = RunKey(bytes.fromhex(data["key"]), data["secure"])
        return key, _checkpoint(data["checkpoint"])

    def save(self, key: RunKey, checkpoint: Checkpoint) -> None:
        """Note how far the run is."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        data = {
            "settings": self._settings,
            "key": key.secret.hex(),
            "secure": key.secure,
            "checkpoint": asdict(checkpoint),
        }
        for summary in ("summary", "done"):
            data["checkpoint"][summary].pop("samples")  # type: ignore[index]
        write_private(self._file, json.dumps(data).encode())

    def forget(self) -> None:
        """Remove everything about the run, its key too."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _checkpoint(data: dict[str, Any]) -> Checkpoint:
    return Checkpoint(**{**data, "summary": _summary(data["summary"]), "done": _summary(data["done"])})


def _summary(data: dict[str, Any]) -> RunSummary:
    return RunSummary(**{**data, "counts": Counts(**data["counts"])})
