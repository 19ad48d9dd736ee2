"""mldp-text, word by word as its documentation calls it: ``drive_mldp_text.py MECHANISM EPSILON VECTORS TEXTS SECONDS``."""

from __future__ import annotations

import sys
from pathlib import Path

from stopwatch import Replace, measure

NAME, EPSILON = sys.argv[1], float(sys.argv[2])


def prepare(vectors: Path) -> Replace:
    """Read the vectors and make the mechanism."""
    import nltk

    nltk.download = lambda *_, **__: False  # WordNet, which only a mechanism that is not run here needs
    import mldp_text

    mechanism = mldp_text.get_mechanism(NAME, epsilon=EPSILON, embed=str(vectors))
    return lambda texts: [" ".join(map(mechanism.replace_word, text.split())) for text in texts]


measure(prepare)
