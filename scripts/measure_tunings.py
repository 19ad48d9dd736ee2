"""Measure what the tunings of TEM keep at the same promise, and print the table of docs/mechanisms/tem.md.

::

    python scripts/measure_tunings.py              # the default space, epsilon 1, 2, 4 and 8
    python scripts/measure_tunings.py --words 2000 --epsilons 2 6

P(self) is the mean over all words, the expected distance the mean over words chosen with a fixed seed, each from its
exact row.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from sfumato.foundation.errors import CertificationError
from sfumato.mechanism.exponential import ExponentialMechanism, tem
from sfumato.space import Space

RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results" / "tem_tunings.json"
SAMPLED_WORDS = 400


@dataclass(frozen=True)
class Figures:
    """One line of the table."""

    epsilon: float
    tuning: str
    used: str
    certified: float
    keeps: float
    expected_distance: float


def expected_distance(mechanism: ExponentialMechanism, sample: np.ndarray) -> float:
    """Return the mean distance of an output from its input, over some input words."""
    weights = mechanism.weights(sample).astype(np.float64)
    distances = mechanism.space.distances(sample)[:, mechanism.outputs]
    return float(np.mean((weights * distances).sum(axis=1) / weights.sum(axis=1)))


def measure(space: Space, epsilon: float, tuning: str, sample: np.ndarray) -> Figures | None:
    """Return the figures of a tuning, or None where it does not exist at this epsilon."""
    try:
        mechanism = tem(space, epsilon=epsilon, tuning=tuning)
    except CertificationError:
        return None
    tuned = mechanism.tuned
    distance = expected_distance(mechanism, sample)
    return Figures(epsilon, tuning, tuned.tuning, tuned.certificate.epsilon, tuned.keeps, distance)


def line(epsilon: float, tuning: str, figures: Figures | None) -> str:
    """Return a line of the Markdown table."""
    if figures is None:
        return f"| {epsilon:g} | {tuning} | does not exist | | |"
    name = tuning if figures.used == tuning else f"{tuning} ({figures.used})"
    return f"| {epsilon:g} | {name} | {figures.certified:.4f} | {figures.keeps:.4f} | {figures.expected_distance:.3f} |"


def main(arguments: list[str]) -> int:
    """Measure, print the table and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, help="use the first words of the space only")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 2.0, 4.0, 8.0])
    parser.add_argument("--tunings", nargs="+", default=["published", "calibrated", "tight", "best"])
    options = parser.parse_args(arguments)
    space = Space.load(limit=options.words)
    sample = np.sort(np.random.default_rng(0).choice(len(space), min(SAMPLED_WORDS, len(space)), replace=False))
    found = []
    print("| epsilon | tuning | certified epsilon | P(self) | expected distance |\n|---|---|---|---|---|")
    for epsilon in options.epsilons:
        for tuning in options.tunings:
            figures = measure(space, epsilon, tuning, sample)
            print(line(epsilon, tuning, figures), flush=True)
            if figures is not None:
                found.append(asdict(figures))
    if options.words is None:
        content = {"space": space.name, "digest": space.digest, "sampled_words": len(sample), "figures": found}
        RESULTS.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
