"""Print the oldest supported version of every base dependency, one requirement for each line.

The lower bounds are read from pyproject.toml, so they cannot drift from what is promised there::

    python scripts/oldest_versions.py > constraints.txt
    python scripts/oldest_versions.py --installed     # exit code 1 where something newer is installed
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

_LOWER_BOUND = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*>=\s*(?P<version>[0-9]+(?:\.[0-9]+)*)")


def lower_bounds(pyproject: Path) -> dict[str, str]:
    """Return the least version of every base dependency, by name."""
    requirements: list[str] = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]["dependencies"]
    bounds = {}
    for requirement in requirements:
        match = _LOWER_BOUND.match(requirement)
        if match is None:
            raise SystemExit(f"the dependency {requirement!r} has no lower bound; give it one in pyproject.toml")
        bounds[match["name"]] = match["version"]
    return bounds


def pinned(bound: str) -> str:
    """Return the version to install for a lower bound: its newest patch release, or exactly it where it names one.

    >>> pinned("14"), pinned("1.26"), pinned("0.12.4")
    ('14.0.*', '1.26.*', '0.12.4')
    """
    parts = bound.split(".")
    return bound if len(parts) > 2 else ".".join((*parts, "0")[:2]) + ".*"


def is_pinned(installed: str, bound: str) -> bool:
    """Return whether an installed version is the one :func:`pinned` asks for.

    >>> is_pinned("1.26.4", "1.26"), is_pinned("1.27.0", "1.26"), is_pinned("14.0.2", "14")
    (True, False, True)
    """
    wanted = pinned(bound).removesuffix("*")
    return installed == wanted or (wanted.endswith(".") and f"{installed}.".startswith(wanted))


def main(arguments: list[str]) -> int:
    """Print requirements, or compare them with what is installed."""
    bounds = lower_bounds(Path(__file__).resolve().parents[1] / "pyproject.toml")
    if arguments != ["--installed"]:
        print("\n".join(f"{name}=={pinned(bound)}" for name, bound in bounds.items()))
        return 0
    installed = {name: version(name) for name in bounds}
    print("Installed: " + ", ".join(f"{name} {found}" for name, found in installed.items()))
    newer = [name for name, bound in bounds.items() if not is_pinned(installed[name], bound)]
    if newer:
        print("Not the oldest supported version: " + ", ".join(newer))
    return 1 if newer else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
