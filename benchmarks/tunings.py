"""P(unchanged) and expected distance of the tunings of TEM on the default space, at the same certified epsilon.

Writes ``results/tunings.json`` and, from it, the table between the markers of ``docs/mechanisms/tem.md``.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np

import sfumato
from setting import RESULTS, save
from sfumato.foundation.errors import CertificationError
from sfumato.mechanism.exponential import ExponentialMechanism, tem

EPSILONS = (1.0, 2.0, 4.0, 6.0, 8.0)
TUNINGS = ("published", "calibrated", "floored", "tight")
SAMPLED_WORDS = 2000
PAGE = Path(__file__).parent.parent / "docs" / "mechanisms" / "tem.md"
MARKERS = ("<!-- tunings -->", "<!-- end of tunings -->")


def expected_distance(mechanism: ExponentialMechanism) -> float:
    """Return the mean distance from a word to its replacement, over sampled words (standard error below 0.01)."""
    space = mechanism.space
    words = np.sort(np.random.default_rng(0).choice(len(space), SAMPLED_WORDS, replace=False))
    total = 0.0
    for start in range(0, len(words), 50):
        ids = words[start : start + 50]
        weights = mechanism.weights(ids).astype(np.float64)
        distances = space.distances(ids, mechanism.outputs)
        total += float(((weights * distances).sum(axis=1) / weights.sum(axis=1)).sum())
    return total / len(words)


def measure() -> list[dict[str, object]]:
    """Return a row of figures for every epsilon and tuning."""
    space = sfumato.Space.load()
    rows: list[dict[str, object]] = []
    for epsilon in EPSILONS:
        for tuning in TUNINGS:
            start = time.perf_counter()
            row: dict[str, object] = {"epsilon": epsilon, "tuning": tuning}
            try:
                mechanism = tem(space, epsilon=epsilon, tuning=tuning)
            except CertificationError as refusal:
                row["refused"] = str(refusal)
            else:
                row |= {
                    "certified": mechanism.certificate.epsilon,
                    "rate": mechanism.rate,
                    "unchanged": mechanism.tuned.keeps,
                    "expected_distance": expected_distance(mechanism),
                }
            row["seconds"] = time.perf_counter() - start
            rows.append(row)
            print(json.dumps(row), flush=True)
    return rows


def table() -> str:
    """Return the saved figures as a Markdown table."""
    data = json.loads((RESULTS / "tunings.json").read_text())
    lines = [
        "| epsilon | tuning | certified | P(unchanged) | expected distance |",
        "|---:|---|---:|---:|---:|",
    ]
    for row in data["rows"]:
        if "refused" in row:
            lines.append(f"| {row['epsilon']:g} | {row['tuning']} | does not exist | | |")
        else:
            lines.append(
                f"| {row['epsilon']:g} | {row['tuning']} | {row['certified']:.4f} | {row['unchanged']:.4f} | "
                f"{row['expected_distance']:.3f} |"
            )
    lines += ["", f"Default space, whole vocabulary; {data['machine']}, commit {data['commit']}."]
    return "\n".join(lines)


def write_page() -> None:
    """Put the table into the documentation."""
    text = PAGE.read_text()
    before, rest = text.split(MARKERS[0])
    after = rest.split(MARKERS[1])[1]
    PAGE.write_text(f"{before}{MARKERS[0]}\n{table()}\n{MARKERS[1]}{after}")


if __name__ == "__main__":
    save("tunings", {"rows": measure(), "sampled_words": SAMPLED_WORDS})
    write_page()
