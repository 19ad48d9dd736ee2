"""P(unchanged) and expected distance of the tunings of TEM on the default space, at the same certified epsilon.

What is realised comes from ``sfumato.verify``: exact fractions of the integers at the worst pair, below a bound that is
recomputed over all pairs of words.  Writes ``results/tunings.json`` and, from it, the table between the markers of
``docs/mechanisms/tem.md`` and the figure above it. With ``--table`` the table and the figure are made again from the saved
figures.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

import sfumato
from setting import RESULTS, save
from sfumato.foundation.errors import CertificationError
from sfumato.mechanism.exponential import ExponentialMechanism, tem
from sfumato.mechanism.filled import ceiling

EPSILONS = (1.0, 2.0, 4.0, 6.0, 8.0)
TUNINGS = ("published", "calibrated", "floored", "filled", "tight")
CEILING_STEPS = 60
SAMPLED_WORDS = 2000
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


def measure() -> list[dict[str, object]]:
    """Return a row of figures for every epsilon and tuning."""
    space = sfumato.Space.load()
    rows: list[dict[str, object]] = []
    for epsilon in EPSILONS:
        highest = None
        for tuning in TUNINGS:
            start = time.perf_counter()
            row: dict[str, object] = {"epsilon": epsilon, "tuning": tuning}
            try:
                mechanism = tem(space, epsilon=epsilon, tuning=tuning)
            except CertificationError as refusal:
                row["refused"] = str(refusal)
            else:
                found = sfumato.verify(mechanism)
                if highest is None:
                    highest = ceiling(mechanism.ground, epsilon, steps=CEILING_STEPS)
                row |= {
                    "ceiling": highest,
                    "certified": mechanism.certificate.epsilon,
                    "realised": found.realised,
                    "verified": found.passed,
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
        "| epsilon | tuning | certified | realised | P(unchanged) | ceiling | expected distance |",
        "|---:|---|---:|---:|---:|---:|---:|",
    ]
    for row in data["rows"]:
        if "refused" in row:
            lines.append(f"| {row['epsilon']:g} | {row['tuning']} | does not exist | | | | |")
        else:
            lines.append(
                f"| {row['epsilon']:g} | {row['tuning']} | {row['certified']:.4f} | {row['realised']:.4f} | "
                f"{row['unchanged']:.4f} | {row['ceiling']:.4f} | {row['expected_distance']:.3f} |"
            )
    lines += ["", f"Default space, whole vocabulary; {data['machine']}, commit {data['commit']}."]
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

    rows = json.loads((RESULTS / "tunings.json").read_text())["rows"]
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
            highest = sorted({(row["epsilon"], row["ceiling"]) for row in rows if "ceiling" in row})
            panel.plot(*zip(*highest, strict=True), color="black", linestyle=":", label="ceiling of all mechanisms")
        panel.set(xlabel="epsilon that is promised", ylabel=label, ylim=(0, None))
        panel.grid(alpha=0.25)
    figure.axes[0].legend(title="tuning of TEM")
    figure.savefig(FIGURE, metadata={"Date": None})


if __name__ == "__main__":
    if "--table" not in sys.argv:
        save("tunings", {"rows": measure(), "sampled_words": SAMPLED_WORDS})
    write_page()
    draw()
