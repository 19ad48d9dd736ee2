"""dp-diffractor on a list of texts: ``drive_dp_diffractor.py METHOD EPSILON VECTORS TEXTS SECONDS``.

It looks for its vectors in a folder below the home folder, which must be one made for this run.  Its tokenizer and its
list of stop words need data that NLTK downloads; where they are not here, the texts, whose tokens are separated by
spaces already, are split there, and the list is empty.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from stopwatch import Replace, measure

NAME, EPSILON = sys.argv[1], float(sys.argv[2])
MODEL = "glove-commoncrawl-30"
pools = []


def prepare(vectors: Path) -> Replace:
    """Put the vectors where it looks for them, and make the mechanism."""
    import nltk

    for name, stand_in in (("tokenizers/punkt_tab", _split), ("corpora/stopwords", _without_stop_words)):
        try:
            nltk.data.find(name)
        except LookupError:
            stand_in(nltk)
    cache = Path.home() / ".cache" / "diffractor"
    cache.mkdir(parents=True, exist_ok=True)
    shutil.copy(vectors, cache / f"{MODEL}.txt")
    from diffractor import Diffractor, DiffractorConfig

    mechanism = Diffractor(DiffractorConfig(epsilon=EPSILON, method=NAME, verbose=False), [MODEL])
    mechanism.start()
    pools.append(mechanism)
    return mechanism.rewrite


def _split(nltk: object) -> None:
    nltk.word_tokenize = str.split


class _NoStopWords:
    def words(self, language: str) -> list[str]:
        return []


def _without_stop_words(nltk: object) -> None:
    nltk.corpus.stopwords = _NoStopWords()


measure(prepare, lambda: [pool.close() for pool in pools])
