"""Compare saved figures with their floors; exit code 1 where one falls below.

    make bench-check

Nothing is measured here: ``make bench`` and ``make bench-peers`` write the figures.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"
Figures = Mapping[str, Any]


@dataclass(frozen=True)
class Floor:
    """A figure and what it must not fall below, or rise above."""

    what: str
    file: str
    figure: Callable[[Figures], float]
    least: float | None = None
    most: float | None = None

    @property
    def demanded(self) -> str:
        """The floor in words."""
        return f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}"

    def holds(self, value: float) -> bool:
        """Whether a value is on the right side (NaN never is)."""
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)


def _speed(section: str, name: str) -> Callable[[Figures], float]:
    return lambda figures: figures["sections"][section][name]


def resident_growth(figures: Figures) -> float:
    """Return the resident size in the second half of a run over that in the second tenth, when all is loaded."""
    sizes = figures["resident_mib_by_tenth"]
    return max(sizes[len(sizes) // 2 :]) / sizes[1]


FLOORS = (
    Floor("text in to text out: million tokens/s, one core", "speed",
          lambda figures: _speed("text", "keyed_tokens_per_second")(figures) / 1e6, least=1.0),
    Floor("text in to text out, over the naive loop", "speed", _speed("text", "keyed_over_naive"), least=100),
    Floor("compiling published TEM, over the product", "speed", _speed("compiling", "published_over_product"), most=3),
    Floor("compiling tight TEM, over the product", "speed", _speed("compiling", "tight_over_product"), most=15),
    Floor("exact decoding, share of the product's rate", "speed",
          _speed("decoding", "exact_share_of_product_rate"), least=0.6),
    Floor("approximate decoding, over exact", "speed", _speed("decoding", "approximate_over_exact"), least=20),
    Floor("approximate decoding, recall", "speed", _speed("decoding", "recall"), least=0.95),
    Floor("a run killed three times: same bytes", "killed_run", lambda figures: figures["outputs_identical"], least=1),
    Floor("resident size late in a run, over early", "killed_run", resident_growth, most=1.05),
    Floor("two Spark executors of one core each, over one", "spark",
          lambda figures: figures["one_core_each"]["two_over_one"], least=1.6),
    Floor("TEM, over the fastest published package", "peers",
          lambda figures: figures["tem_over_fastest_peer"], least=100),
)  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """A floor and what was measured, or why nothing was."""

    floor: Floor
    value: float | None
    problem: str = ""

    @property
    def passed(self) -> bool:
        """Whether the figure is there and on the right side."""
        return self.value is not None and self.floor.holds(self.value)


def judge(floor: Floor, results: Path = RESULTS) -> Verdict:
    """Look a figure up and compare it."""
    path = results / f"{floor.file}.json"
    try:
        return Verdict(floor, float(floor.figure(json.loads(path.read_text(encoding="utf-8")))))
    except FileNotFoundError:
        return Verdict(floor, None, f"{path.name} is missing")
    except (KeyError, ValueError, TypeError, IndexError):
        return Verdict(floor, None, f"{path.name} does not hold it")


def table(verdicts: Sequence[Verdict]) -> str:
    """Return the verdicts, a line each."""
    lines = []
    for verdict in verdicts:
        measured = verdict.problem if verdict.value is None else f"{verdict.value:,.2f}"
        mark = "ok  " if verdict.passed else "FAIL"
        lines.append(f"{mark}  {verdict.floor.what:50}  {measured:>24}  {verdict.floor.demanded}")
    return "\n".join(lines)


def main(results: Path = RESULTS) -> int:
    """Print the table; return the exit code."""
    verdicts = [judge(floor, results) for floor in FLOORS]
    print(table(verdicts))
    failed = sum(not verdict.passed for verdict in verdicts)
    if failed:
        print(f"{failed} of {len(verdicts)} figures are missing or beyond their floor; measure again with: make bench")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS))
