"""What every benchmark writes beside its figures: the machine, the commit and the versions."""

from __future__ import annotations

import json
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def setting() -> dict[str, Any]:
    """Return where and with what the figures were measured."""
    model = platform.processor()
    cpu = Path("/proc/cpuinfo")
    if cpu.exists():
        names = [line.partition(":")[2].strip() for line in cpu.read_text().splitlines() if "model name" in line]
        model = f"{len(names)} x {names[0]}" if names else model
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=RESULTS.parent, check=False
    ).stdout.strip()
    packages = {name: version(name) for name in ("numpy", "scipy")}
    return {"machine": model, "python": platform.python_version(), "commit": commit, "packages": packages}


def save(name: str, figures: dict[str, Any]) -> Path:
    """Write figures with their setting to ``results/NAME.json``."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({**setting(), **figures}, indent=1) + "\n")
    return path
