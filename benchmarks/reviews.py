"""English reviews to measure with: SST-2 from the shared data, or text that follows Zipf's law where it is absent."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

_SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "sst2_train.tsv"


def sst2() -> list[str]:
    """Return the sentences of SST-2's training part."""
    if not _SHARED.exists():
        raise SystemExit("SST-2 is not here: put sst2_train.tsv into ../shared/data beside the project")
    with _SHARED.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row[0] for row in rows if len(row) > 1 and row[0] != "sentence"]


def reviews(count: int, seed: int = 0) -> list[str]:
    """Return so many sentences, drawn with repetition."""
    texts = sst2()
    return [texts[place] for place in np.random.default_rng(seed).integers(0, len(texts), count).tolist()]
