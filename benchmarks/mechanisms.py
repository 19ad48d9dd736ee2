"""Every mechanism on the default space at several epsilons: certified epsilon, deniability and speed.

Writes ``results/mechanisms.json`` and, from it, the table between the markers of ``docs/mechanisms/comparison.md``.
"""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path

import numpy as np

import sfumato
from setting import RESULTS, save
from sfumato.audit import deniability
from sfumato.foundation.errors import CertificationError, ParameterError
from sfumato.foundation.randomness import SystemSource
from sfumato.foundation.registry import Entry

EPSILONS = (2.0, 6.0, 10.0)
MORE_EPSILONS = {"truncated-gumbel": (140.0,)}
"""Where a mechanism exists only above the others' epsilons."""
TUNINGS = {
    "tem": ("published", "calibrated", "best"),
    "santext": ("published",),
    "santext-plus": ("published", "best"),
    "custext": ("published", "calibrated", "lp"),
}
NOISES = ("plain", "calibrated")
WORDS, DRAWS, TOKENS = 100, 200, 20_000
PAGE = Path(__file__).parent.parent / "docs" / "mechanisms" / "comparison.md"
MARKERS = ("<!-- mechanisms at equal epsilon -->", "<!-- end of mechanisms at equal epsilon -->")


def variants(entry: Entry) -> list[dict[str, object]]:
    """Return the named choices of a mechanism that are worth a row."""
    if entry.name in TUNINGS:
        return [{"tuning": tuning} for tuning in TUNINGS[entry.name]]
    if "noise" in entry.options:
        return [{"noise": noise} for noise in NOISES]
    return [{}]


def tokens_per_second(mechanism: sfumato.Mechanism) -> float:
    """Return warm draws per second of processor time, best of three, for words as frequent as in English."""
    chances = 1.0 / (np.arange(len(mechanism.space)) + 10)
    ids = np.random.default_rng(0).choice(len(mechanism.space), TOKENS, p=chances / chances.sum())
    mechanism.sample(ids, SystemSource())
    spent = []
    for _ in range(3):
        start = time.process_time()
        mechanism.sample(ids, SystemSource())
        spent.append(time.process_time() - start)
    return TOKENS / min(spent)


def measure() -> list[dict[str, object]]:
    """Return a row of figures for every mechanism, variant and epsilon."""
    space = sfumato.Space.load()
    rows: list[dict[str, object]] = []
    for entry in sfumato.mechanisms():
        for options in variants(entry):
            for epsilon in (*EPSILONS, *MORE_EPSILONS.get(entry.name, ())) if entry.takes_epsilon else (None,):
                given = dict(options) | ({} if epsilon is None else {"epsilon": epsilon})
                row: dict[str, object] = {
                    "mechanism": entry.name,
                    "sound": entry.sound,
                    "kind": entry.guarantee_kind,
                    **given,
                }
                start = time.perf_counter()
                try:
                    mechanism = sfumato.compile(entry.name, space, **given)
                    certified = getattr(mechanism.guarantee, "certified", math.inf)
                    row |= {
                        "seconds_to_compile": time.perf_counter() - start,
                        "certified": certified if math.isfinite(certified) else None,
                        **deniability(mechanism, words=WORDS, draws=DRAWS).to_json(),
                        "draws_per_cpu_second": tokens_per_second(mechanism),
                    }
                except (CertificationError, ParameterError) as refusal:
                    row["refused"] = str(refusal)
                rows.append(row)
                print(json.dumps(row), flush=True)
    return rows


def table() -> str:
    """Return the saved figures as a Markdown table."""
    data = json.loads((RESULTS / "mechanisms.json").read_text())
    lines = [
        "| mechanism | epsilon | guarantee | certified | P(unchanged) = N_w | expected distance | S_w | draws/s |",
        "|---|---:|---|---:|---:|---:|---:|---:|",
    ]
    for row in data["rows"]:
        name = " ".join(str(row[part]) for part in ("mechanism", "tuning", "noise") if part in row)
        epsilon = f"{row['epsilon']:g}" if "epsilon" in row else "-"
        kind = row["kind"] if row["sound"] else f"{row['kind']}, unsound"
        if "refused" in row:
            lines.append(f"| {name} | {epsilon} | {kind} | refused | | | | |")
            continue
        certified = "-" if row["certified"] is None else f"{row['certified']:.3f}"
        lines.append(
            f"| {name} | {epsilon} | {kind} | {certified} | {row['unchanged']:.4f} | {row['distance']:.3f} | "
            f"{'' if row['exact'] else '≥ '}{row['spread']:,.0f} | {row['draws_per_cpu_second']:,.0f} |"
        )
    refusals = sorted({row["refused"] for row in data["rows"] if "refused" in row})
    lines += ["", f"Means over {WORDS} words of the default space; {data['machine']}, commit {data['commit']}."]
    lines += [
        f"Rows with *≥* are counted in {DRAWS} draws of each word, which cannot show more words; the others are exact."
    ]
    lines += ["", f"Refused: {refusals[0]}."] if refusals else []
    return "\n".join(lines)


def write_page() -> None:
    """Put the table into the documentation."""
    text = PAGE.read_text()
    before, rest = text.split(MARKERS[0])
    after = rest.split(MARKERS[1])[1]
    PAGE.write_text(f"{before}{MARKERS[0]}\n{table()}\n{MARKERS[1]}{after}")


if __name__ == "__main__":
    if "--table" not in sys.argv:  # --table: write the table again from the saved figures
        save("mechanisms", {"rows": measure(), "words": WORDS})
    write_page()
