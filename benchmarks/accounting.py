"""All accountants on Gaussian noise: loss against steps, noise against loss, and how far the central limit is off.

Writes ``results/accounting.json`` and, from it, the two figures and the table of ``docs/accounting.md``. With
``--table`` these are made again from the saved figures.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from setting import RESULTS, save
from sfumato.accounting import GaussianEvent, SampledGaussianEvent, compare
from sfumato.accounting.curves import Figure, epsilon_against_steps, noise_against_epsilon, spread
from sfumato.accounting.events import Event
from sfumato.report.figures import draw_figures

DELTA = 1e-5
RUNS = (
    (1.0, 0.01, 1000),
    (1.0, 0.001, 10_000),
    (0.6, 0.01, 1000),
    (0.6, 0.001, 1000),
    (0.5, 0.001, 1000),
    (2.0, 0.02, 500),
    (4.0, 0.1, 1000),
    (1.0, 0.5, 10),
)
"""Noise, rate and steps of the table."""
COLUMNS = ("rdp", "pld", "clt")
DOCS = Path(__file__).parent.parent / "docs"
PAGE, IMAGES = DOCS / "accounting.md", DOCS / "images"
MARKERS = ("<!-- accountants -->", "<!-- end of accountants -->")


def run(sigma: float, rate: float) -> Event:
    """Return one step."""
    return GaussianEvent(sigma) if rate == 1 else SampledGaussianEvent(sigma, rate)


def steps_up_to(most: int) -> list[int]:
    """Return numbers of steps in about equal ratios."""
    return sorted({round(count) for count in spread(1, most, 13)})


def figures() -> dict[str, list[Figure]]:
    """Return the curves: with sampling, and without."""
    return {
        "sampled": [
            epsilon_against_steps(run(1.0, 0.01), steps_up_to(10_000), DELTA),
            noise_against_epsilon(lambda sigma: run(sigma, 0.01) * 1000, spread(0.5, 8, 13), DELTA),
        ],
        "unsampled": [
            epsilon_against_steps(run(20.0, 1), steps_up_to(10_000), DELTA),
            noise_against_epsilon(lambda sigma: run(sigma, 1) * 1000, spread(10, 1000, 13), DELTA),
        ],
    }


def rows() -> list[dict[str, Any]]:
    """Return what every accountant says of each run of the table."""
    found = []
    for sigma, rate, steps in RUNS:
        start = time.perf_counter()
        comparison = compare(run(sigma, rate) * steps, DELTA).to_json()
        row = {"sigma": sigma, "rate": rate, "steps": steps, "seconds": time.perf_counter() - start}
        found.append(row | {one["accountant"]: one["epsilon"] for one in comparison["accountants"]})
        print(json.dumps(found[-1]), flush=True)
    return found


def table(data: dict[str, Any]) -> str:
    """Return the runs as a Markdown table."""
    lines = [
        "| noise | rate | steps | Renyi | loss distributions | central limit | central limit over the truth |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in data["runs"]:
        shown = [f"{row[name]:.4f}" for name in COLUMNS]
        lines.append(
            f"| {row['sigma']:g} | {row['rate']:g} | {row['steps']:,} | {' | '.join(shown)} | "
            f"{row['clt'] / row['pld']:.2f} |"
        )
    return "\n".join([*lines, "", f"Epsilon at delta {data['delta']:g}; commit {data['commit']}."])


def write_page() -> None:
    """Draw the figures and put the table into the documentation, from the saved figures."""
    data = json.loads((RESULTS / "accounting.json").read_text())
    for name, saved in data["figures"].items():
        draw_figures([Figure.from_json(figure) for figure in saved], IMAGES / f"accountants-{name}.svg")
    text = PAGE.read_text()
    before, rest = text.split(MARKERS[0])
    after = rest.split(MARKERS[1])[1]
    PAGE.write_text(f"{before}{MARKERS[0]}\n{table(data)}\n{MARKERS[1]}{after}")


if __name__ == "__main__":
    if "--table" not in sys.argv:
        curves = {name: [figure.to_json() for figure in pair] for name, pair in figures().items()}
        save("accounting", {"delta": DELTA, "runs": rows(), "figures": curves})
    write_page()
