"""What an experiment is: a configuration, steps that are kept on disk, and a result from which everything is drawn.

A step is a pure function of its parameters: it is computed once, written as JSON under the digest of what it was computed from,
and read back when an interrupted run is started again.  Nothing is kept that is not a figure: no text, no model.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

import sfumato
from sfumato.foundation.errors import DataError, ParameterError

Json = Any


Config = Any
"""The configuration of an experiment: a frozen dataclass of plain values."""


@dataclass(frozen=True)
class Line:
    """One line of a figure, with intervals where there are any."""

    name: str
    x: list[float]
    y: list[float]
    low: list[float | None] = field(default_factory=list)
    high: list[float | None] = field(default_factory=list)
    dashed: bool = False

    @classmethod
    def of(cls, name: str, points: Sequence[tuple[float, Mapping[str, Json]]], dashed: bool = False) -> Line:
        """Return the line of some estimates, in the order of their places."""
        ordered = sorted(points, key=lambda point: point[0])
        return cls(
            name,
            [place for place, _ in ordered],
            [found["mean"] for _, found in ordered],
            [found["low"] for _, found in ordered],
            [found["high"] for _, found in ordered],
            dashed,
        )


@dataclass(frozen=True)
class Figure:
    """A figure as data."""

    title: str
    x_label: str
    y_label: str
    lines: list[Line]
    log_x: bool = False
    levels: dict[str, float] = field(default_factory=dict)
    """Horizontal lines by name, such as chance or no privacy."""


@dataclass(frozen=True)
class Table:
    """A table as data; a cell is text, a number, or an estimate with its interval."""

    title: str
    columns: list[str]
    rows: list[list[Json]]
    note: str = ""


@dataclass(frozen=True)
class Claim:
    """What was published, and what was measured here."""

    claim: str
    published: str
    measured: str
    holds: bool | None
    """Whether the measurement agrees; None where it decides nothing."""


@dataclass(frozen=True)
class Outcome:
    """What a run found."""

    tables: list[Table]
    figures: list[Figure]
    claims: list[Claim]
    findings: list[str]
    """Sentences computed from the figures of this run."""
    differences: list[str]
    """How the setting differs from the published one, and what that changes."""
    data: str
    """Where the texts came from."""


@dataclass(frozen=True)
class Seconds:
    """How long something took by the clock, and for how long it had a processor."""

    passed: float = 0.0
    computed: float = 0.0

    @classmethod
    def now(cls) -> Seconds:
        """Return the readings of both clocks, of which only differences mean anything."""
        return cls(time.perf_counter(), time.process_time())

    def __add__(self, other: Seconds) -> Seconds:
        return Seconds(self.passed + other.passed, self.computed + other.computed)

    def __sub__(self, other: Seconds) -> Seconds:
        return Seconds(self.passed - other.passed, self.computed - other.computed)


class Run:
    """The steps of one run: kept in a folder, said to whoever watches."""

    def __init__(
        self, experiment: str, folder: Path | None, data: Path | None = None, say: Callable[[str], None] | None = None
    ) -> None:
        self._experiment = experiment
        self._folder = None if folder is None else folder / experiment
        self._say = say
        self.data = data
        """The folder of the user's data files."""
        self.reused = 0
        """Steps that were read back."""
        self.earlier = Seconds()
        """What the steps that were read back took when they were computed."""

    def step(self, name: str, parameters: Mapping[str, Json], compute: Callable[[], Json]) -> Json:
        """Return what ``compute`` returns (plain data), computing it once for these parameters."""
        label = json.dumps([sfumato.__version__, self._experiment, name, parameters], sort_keys=True, default=str)
        path = None
        if self._folder is not None:
            path = self._folder / f"{name}-{hashlib.sha256(label.encode()).hexdigest()[:24]}.json"
            known = _read(path)
            if known is not None:
                self.reused += 1
                self.earlier += Seconds(known["seconds"], known["processor_seconds"])
                return known["result"]
        if self._say:
            self._say(f"{name} {', '.join(f'{key}={value}' for key, value in parameters.items() if _is_short(value))}")
        start = Seconds.now()
        result = compute()
        took = Seconds.now() - start
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(".part")
            kept = {
                "parameters": dict(parameters), "seconds": took.passed, "processor_seconds": took.computed, "result": result,
            }  # fmt: skip
            partial.write_text(json.dumps(kept, default=str) + "\n")
            os.replace(partial, path)
        return result


def _is_short(value: Json) -> bool:
    return isinstance(value, (int, float)) or (isinstance(value, str) and len(value) < 40)


def _read(path: Path) -> dict[str, Json] | None:
    """Return a step that was finished before; one that cannot be read is computed again."""
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    whole = isinstance(data, dict) and {"seconds", "processor_seconds", "result"} <= set(data)
    return data if whole else None


@dataclass(frozen=True)
class Experiment:
    """One published claim, and what is run to look at it."""

    name: str
    title: str
    source: str
    """The publication."""
    claim: str
    """What it says, in one or two sentences."""
    settings: Mapping[str, Config]
    """Configurations by name: ``small`` takes seconds, ``cpu`` less than an hour on two cores."""
    run: Callable[[Any, Run], Outcome]
    needs: tuple[str, ...] = ()
    """Packages of extras that it cannot do without."""

    def setting(self, name: str) -> Config:
        """Return the configuration of that name."""
        if name not in self.settings:
            raise ParameterError(f"{self.name} has no setting of that name; choose one of {', '.join(self.settings)}")
        return self.settings[name]


def run_experiment(experiment: Experiment, setting: str, run: Run) -> dict[str, Json]:
    """Run an experiment and return its result as plain data."""
    config = experiment.setting(setting)
    start = Seconds.now()
    # One thread for each process: small matrices gain nothing from more, and several runs may share a machine.
    with threadpool_limits(1):
        outcome = experiment.run(config, run)
    took = Seconds.now() - start + run.earlier
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "source": experiment.source,
        "claim": experiment.claim,
        "setting": setting,
        "config": dataclasses.asdict(config),
        **dataclasses.asdict(outcome),
        "machine": machine(),
        "seconds": took.passed,
        "processor_seconds": took.computed,
        "steps_read_back": run.reused,
    }


def machine() -> dict[str, Json]:
    """Return where and with what figures were measured."""
    cpu = Path("/proc/cpuinfo")
    names = []
    if cpu.exists():
        names = [line.partition(":")[2].strip() for line in cpu.read_text().splitlines() if "model name" in line]
    here = Path(__file__).parent
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=here, check=False
    ).stdout.strip()
    return {
        "machine": f"{len(names)} x {names[0]}" if names else platform.processor(),
        "python": platform.python_version(),
        "sfumato": sfumato.__version__,
        "commit": commit,
        "packages": {name: version(name) for name in ("numpy", "scipy")},
    }


_MODULES = (
    "tem_figure",
    "custext_tables",
    "riecker_tables",
    "smdp_figures",
    "gaudp_figures",
    "uedp_tables",
    "same_promise",
)


def experiments() -> tuple[Experiment, ...]:
    """Return every registered experiment."""
    found = [importlib.import_module(f"sfumato.experiments.{module}").EXPERIMENT for module in _MODULES]
    return tuple(found)


def experiment(name: str) -> Experiment:
    """Return the experiment of that name."""
    known = {one.name: one for one in experiments()}
    if name not in known:
        shown = repr(name) if len(name) <= 40 else "a long name"
        raise ParameterError(f"there is no experiment {shown}; choose one of {', '.join(known)}")
    return known[name]


def load_result(path: Path) -> dict[str, Json]:
    """Read the saved result of an experiment."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({type(error).__name__})") from None
    if not isinstance(data, dict) or not {"experiment", "tables", "figures"} <= set(data):
        raise DataError(f"{path} is not the result of an experiment; give a file that sfumato experiment run wrote")
    return data
