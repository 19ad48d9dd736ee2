"""P(unchanged) and expected distance of the tunings of TEM on the default space, at the same certified epsilon.

What is realised comes from ``sfumato.verify``: exact fractions of the integers at the worst pair, below a bound that is
recomputed over all pairs of words.  Writes ``results/tunings.json`` and, from it, the table between the markers of
``docs/mechanisms/tem.md`` and the figure above it.  With names of tunings, or ``ceiling``, only these are measured anew, with
``missing`` what was never measured; every row says at which commit.  With ``--table`` the page is made again from
the saved figures.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import sfumato
from setting import RESULTS, save, setting
from sfumato.foundation.errors import CertificationError
from sfumato.mechanism.exponential import ExponentialMechanism, tem
from sfumato.mechanism.filled import ceiling
from sfumato.mechanism.kernel import Ground

EPSILONS = (1.0, 2.0, 4.0, 6.0, 8.0)
TUNINGS = ("published", "calibrated", "floored", "filled", "tight")
CEILING_STEPS = 30
SAMPLED_WORDS = 2000
Row = dict[str, Any]
DOCS = Path(__file__).parent.parent / "docs"
PAGE, FIGURE = DOCS / "mechanisms" / "tem.md", DOCS / "images" / "tunings.svg"
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


def measured(space: sfumato.Space, epsilon: float, tuning: str) -> Row:
    """Return the figures of a tuning at an epsilon."""
    start = time.perf_counter()
    row: Row = {"epsilon": epsilon, "tuning": tuning, "commit": setting()["commit"]}
    try:
        mechanism = tem(space, epsilon=epsilon, tuning=tuning)
    except CertificationError as refusal:
        row["refused"] = str(refusal)
    else:
        found = sfumato.verify(mechanism)
        row |= {
            "certified": mechanism.certificate.epsilon,
            "realised": found.realised,
            "verified": found.passed,
            "rate": mechanism.rate,
            "unchanged": mechanism.tuned.keeps,
            "expected_distance": expected_distance(mechanism),
        }
    return row | {"seconds": time.perf_counter() - start}


def measure(chosen: list[str]) -> None:
    """Measure some tunings at every epsilon, and what no mechanism exceeds; the others stay as they were measured before."""
    space = sfumato.Space.load()
    every = np.arange(len(space))
    saved = json.loads((RESULTS / "tunings.json").read_text())
    rows = {(row["epsilon"], row["tuning"]): row for row in saved["rows"]}
    ceilings = dict(saved.get("ceilings", {}))
    for epsilon in EPSILONS:
        if "ceiling" in chosen or str(epsilon) not in ceilings:
            ground = Ground(space, every, every, space.statistics.diameter)
            ceilings[str(epsilon)] = ceiling(ground, epsilon, steps=CEILING_STEPS)
        for tuning in TUNINGS:
            if tuning in chosen or (epsilon, tuning) not in rows:
                rows[epsilon, tuning] = measured(space, epsilon, tuning)
                print(json.dumps(rows[epsilon, tuning]), flush=True)
        ordered = [rows[key] for key in itertools.product(EPSILONS, TUNINGS) if key in rows]
        save("tunings", {"rows": ordered, "ceilings": ceilings, "sampled_words": SAMPLED_WORDS})


def table() -> str:
    """Return the saved figures as a Markdown table."""
    data = json.loads((RESULTS / "tunings.json").read_text())
    lines = [
        "| epsilon | tuning | certified | realised | P(unchanged) | ceiling | expected distance |",
        "|---:|---|---:|---:|---:|---:|---:|",
    ]
    for row in data["rows"]:
        if "refused" in row:
            lines.append(f"| {row['epsilon']:g} | {row['tuning']} | does not exist | | | | |")
        else:
            lines.append(
                f"| {row['epsilon']:g} | {row['tuning']} | {row['certified']:.4f} | {row['realised']:.4f} | "
                f"{row['unchanged']:.4f} | {data['ceilings'][str(row['epsilon'])]:.4f} | {row['expected_distance']:.3f} |"
            )
    commits = ", ".join(sorted({row["commit"] for row in data["rows"]}))
    lines += ["", f"Default space, whole vocabulary; {data['machine']}, commits {commits}."]
    return "\n".join(lines)


def write_page() -> None:
    """Put the table into the documentation."""
    text = PAGE.read_text()
    before, rest = text.split(MARKERS[0])
    after = rest.split(MARKERS[1])[1]
    PAGE.write_text(f"{before}{MARKERS[0]}\n{table()}\n{MARKERS[1]}{after}")


def draw() -> None:
    """Draw the share of words that stay, and their expected distance, against epsilon."""
    from matplotlib.figure import Figure

    data = json.loads((RESULTS / "tunings.json").read_text())
    rows = data["rows"]
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for panel, name, label in zip(
        figure.subplots(1, 2),
        ("unchanged", "expected_distance"),
        ("P(unchanged)", "expected distance of a replacement"),
        strict=True,
    ):
        for tuning, marker in zip(TUNINGS, "osDv^", strict=True):
            points = [(row["epsilon"], row[name]) for row in rows if row["tuning"] == tuning and name in row]
            panel.plot(*zip(*points, strict=True), marker=marker, markersize=4, label=tuning)
        if name == "unchanged":
            highest = [(float(epsilon), highest) for epsilon, highest in data["ceilings"].items()]
            panel.plot(*zip(*highest, strict=True), color="black", linestyle=":", label="ceiling of all mechanisms")
        panel.set(xlabel="epsilon that is promised", ylabel=label, ylim=(0, None))
        panel.grid(alpha=0.25)
    figure.axes[0].legend(title="tuning of TEM")
    figure.savefig(FIGURE, metadata={"Date": None})


if __name__ == "__main__":
    if "--table" not in sys.argv:
        measure(sys.argv[1:] or [*TUNINGS, "ceiling"])
    write_page()
    draw()
