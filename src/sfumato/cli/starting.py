"""Where the noise of a run comes from, and where a run that was killed is taken up."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.cli.running import Job
from sfumato.foundation.errors import ParameterError
from sfumato.foundation.randomness import RunKey
from sfumato.scale.inputs import Input
from sfumato.scale.keyfile import KeyFile
from sfumato.scale.part import part_path
from sfumato.scale.state import Checkpoint, RunState


@dataclass(frozen=True)
class Start:
    """The options of a command that are about its beginning."""

    output: str
    resume: bool = False
    key_file: Path | None = None
    seed: int | None = None
    with_ledger: bool = False

    def __post_init__(self) -> None:
        if self.seed is not None and self.key_file is not None:
            raise ParameterError("give either --seed or --key: the noise follows from one of them")
        if self.resume and self.output == "-":
            raise ParameterError("a run that writes to a pipe cannot be taken up; name a file with --output")

    @property
    def seeded(self) -> RunKey | None:
        """The key of the seed, where one is given."""
        return None if self.seed is None else RunKey.from_seed(self.seed)

    def begin(
        self, jobs: Sequence[Job], settings: dict[str, Any]
    ) -> tuple[RunKey | None, RunState | None, Checkpoint | None]:
        """Return the key, where the state is kept, and the place to go on from."""
        given = self._given_key(jobs, settings)
        state = self._state(jobs, settings)
        if state is None:
            return given, None, None
        known = state.load() if self.resume else None
        if known is None:
            if self.resume:
                print("sfumato: there is nothing to take up; the run begins", file=sys.stderr)
            state.forget()
            _remove_parts(jobs)
            return given or RunKey.generate(), state, None
        key, place = known
        if given is not None and given != key:
            raise ParameterError("the run to resume had another key; give that one, or begin anew without --resume")
        return key, state, place

    def _given_key(self, jobs: Sequence[Job], settings: dict[str, Any]) -> RunKey | None:
        if self.key_file is None:
            return self.seeded
        if not all(job.source is not None and job.source.is_file() for job in jobs):
            raise ParameterError(
                "a key remembers the texts it was used for, and those of a pipe cannot be read twice: two of them would get the "
                "same noise, which gives both away; name a file as the input, or leave --key out"
            )
        outputs = [job.target for job in jobs if job.target is not None]
        file = KeyFile.open(self.key_file, [Path(self.output), *outputs] if outputs else [])
        return file.used(_description(jobs, settings)).key

    def _state(self, jobs: Sequence[Job], settings: dict[str, Any]) -> RunState | None:
        """Return where the state is kept; None where nothing could be taken up."""
        from_file = all(job.source is not None and job.source.is_file() for job in jobs)
        # With a run key every record is a charge of its own; else those of a batch are charged together.
        wanted = self.resume or not self.with_ledger
        if self.output == "-" or not from_file or not wanted:
            if self.resume:
                raise ParameterError("only a run that reads files can be taken up; name a file as the input")
            return None
        inputs = [Input(job.source, Path(job.name or job.source.name)).identity() for job in jobs if job.source]
        return RunState(Path(self.output).resolve(), {**settings, "inputs": inputs}, self.seed)


def _description(jobs: Sequence[Job], settings: dict[str, Any]) -> str:
    """Return what a key is used for: the settings, and the content of every input."""
    parts = [repr(sorted(settings.items(), key=lambda item: item[0]))]
    for job in jobs:
        assert job.source is not None
        with job.source.open("rb") as file:
            parts.append(f"{job.name}: {hashlib.file_digest(file, 'sha256').hexdigest()}")
    return "\n".join(parts)


def _remove_parts(jobs: Sequence[Job]) -> None:
    """Remove what a run that was killed has left beside its outputs."""
    for job in jobs:
        if job.target is not None:
            part = part_path(job.target)
            for path in part.parent.glob(f"{part.name}.[0-9]*"):
                path.unlink(missing_ok=True)
