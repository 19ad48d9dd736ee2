"""pypantera on a data frame: ``drive_pypantera.py MECHANISM EPSILON VECTORS TEXTS SECONDS``.

It installs itself as a package named ``src``, and takes the first line of the file for a word.
"""

from __future__ import annotations

import sys
from pathlib import Path

from stopwatch import Replace, measure

NAME, EPSILON = sys.argv[1], float(sys.argv[2])


def prepare(vectors: Path) -> Replace:
    """Read the vectors and make the mechanism."""
    import pandas as pd
    from src.EmbeddingPerturbationMechanism.cmp import CMP
    from src.EmbeddingPerturbationMechanism.vickrey import VickreyCMP
    from src.SamplingPerturbationMechanism.tem import TEM

    kinds = {"CMP": (CMP, {}), "TEM": (TEM, {"beta": 0.001}), "VickreyCMP": (VickreyCMP, {"t": 0.75})}
    kind, options = kinds[NAME]
    mechanism = kind({"embPath": str(vectors.with_suffix(".plain.txt")), "epsilon": EPSILON, **options})

    def replace(texts: list[str]) -> list[str]:
        frame = pd.DataFrame({"id": range(len(texts)), "text": texts})
        column = mechanism.obfuscateText(frame, 1)["obfuscatedText"]
        return [" ".join(text) if isinstance(text, list) else text for text in column]

    return replace


measure(prepare)
