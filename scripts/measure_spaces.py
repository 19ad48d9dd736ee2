"""Measure the candidates for the default space and write the figures as JSON.

For every candidate: agreement with human similarity judgements before and after rounding to int8, coverage of
real text under several treatments of contractions, numbers and names in the vocabulary, the shape of the
distances, the neighbours of sample words, and how near, in spaces the candidate was not made from, the words
are that a word mechanism would draw from it.

All inputs are files given by path; the commands that fetch them are in docs/decisions/002-default-space.md.
"""

from __future__ import annotations

import argparse
import csv
import html
import io
import json
import os
import platform
import re
import tarfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from build_default_space import (
    WordList,
    is_word,
    merge,
    nearest_squared,
    quantise,
    ranked_vocabulary,
    read_glove_6b,
    read_glove_840b,
    read_minilm,
    reduce_dimensions,
    safetensor,
    unit_rows,
    with_minilm,
)

QUERIES = (
    "good bad movie house car doctor money happy terrible run walk hospital london monday red water child "
    "mother computer phone food coffee angry cheap big president king teacher love war "
    "7 42 1998 2012 john mary smith garcia"
)
CLITIC = re.compile(r"([a-z]+?)(n't|'(?:s|re|ll|ve|d|m))")
EXPANSION = {
    "n't": "not", "'s": "is", "'re": "are", "'ll": "will", "'ve": "have", "'d": "would", "'m": "am",
}  # fmt: skip
IRREGULAR = {"ca": "can", "wo": "will", "sha": "shall", "ai": "is"}
TOKEN = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
PROBES = 2_000


def member_text(archive: Path, name: str) -> str:
    """Return the text of one member of a zip or tar file."""
    if archive.suffix == ".gz":
        with tarfile.open(archive) as tar:
            handle = tar.extractfile(name)
            if handle is None:
                raise SystemExit(f"{archive.name} has no member {name}")
            return handle.read().decode("utf-8")
    with zipfile.ZipFile(archive) as zipped:
        return zipped.read(name).decode("utf-8")


def read_wordllama(wheel: Path) -> WordList:
    """Read the lower-case whole words of the wordllama token matrix."""
    tokens = json.loads(member_text(wheel, "wordllama/tokenizers/l2_supercat_tokenizer_config.json"))
    matrix = safetensor(wheel, "wordllama/weights/l2_supercat_256.safetensors", "embedding.weight")
    keep = [(t[1:], row) for t, row in tokens["model"]["vocab"].items() if t[0] == "▁" and is_word(t[1:])]
    return WordList([word for word, _ in keep], matrix[[row for _, row in keep]])


def plain(text: str) -> str:
    """Undo the residue of mark-up in the two corpora and lower the case."""
    text = re.sub(r"\s?#39;", "'", text)
    text = re.sub(r"&lt;.*?&gt;|<[^>]{1,40}>", " ", text)
    return html.unescape(text.replace("\\", " ").replace("’", "'").replace("`", "'")).lower()


def count_tokens(texts: Iterable[str]) -> Counter[str]:
    """Count tokens: runs of letters and digits, joined by inner apostrophes and hyphens."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(TOKEN.findall(plain(text)))
    return counts


def read_corpora(movie_reviews: Path, ag_news: Path) -> dict[str, Counter[str]]:
    """Count the tokens of both corpora."""
    csv.field_size_limit(10**9)
    reviews = member_text(movie_reviews, "movie_reviews/data/combined_movie_reviews.csv")
    with ag_news.open(encoding="utf-8", newline="") as handle:
        news = [" ".join(row[1:]) for row in csv.reader(handle)]
    rows = csv.DictReader(io.StringIO(reviews, newline=""))
    return {"movie_reviews": count_tokens(row["text"] for row in rows), "ag_news": count_tokens(news)}


def expand(part: str) -> list[str]:
    """Write a contraction in full: ``don't`` as ``do not``."""
    found = CLITIC.fullmatch(part)
    if found is None:
        return part.split("'")
    return [IRREGULAR.get(found[1], found[1]), EXPANSION[found[2]]]


def clitics(part: str) -> list[str]:
    """Cut a contraction where the Penn Treebank does: ``do n't``."""
    found = CLITIC.fullmatch(part)
    return part.split("'") if found is None else [found[1], found[2]]


TREATMENTS: dict[str, Callable[[str], list[str]]] = {
    "whole": lambda part: [part],
    "split_at_apostrophe": lambda part: part.split("'"),
    "drop_apostrophe": lambda part: [part.replace("'", "")],
    "treebank_clitics": clitics,
    "expand": expand,
}


def coverage(words: set[str], counts: Counter[str]) -> dict[str, Any]:
    """Return the share of tokens in ``words`` for each treatment of contractions, and shares of types."""
    result: dict[str, Any] = {}
    for name, treatment in TREATMENTS.items():
        known = total = 0
        for token, count in counts.items():
            for part in token.split("-"):
                pieces = treatment(part) if "'" in part else [part]
                total += count * len(pieces)
                known += count * sum(piece in words for piece in pieces)
        result[name] = round(known / total, 4)
    pieces_seen: Counter[str] = Counter()
    for token, count in counts.items():
        for piece in re.split("['-]", token):
            pieces_seen[piece] += count
    often = [piece for piece, count in pieces_seen.items() if count >= 5]
    numbers = {piece: count for piece, count in pieces_seen.items() if piece.isdigit()}
    result["types"] = round(sum(p in words for p in pieces_seen) / len(pieces_seen), 4)
    result["types_seen_5_times"] = round(sum(p in words for p in often) / len(often), 4)
    known_numbers = sum(count for number, count in numbers.items() if number in words)
    result["number_tokens"] = round(known_numbers / sum(numbers.values()), 4)
    return result


def read_names(archive: Path) -> dict[str, list[str]]:
    """Read the most common United States first names and surnames, most common first."""
    sizes = {"male.first": 200, "female.first": 200, "all.last": 2000}
    lists = {}
    for kind, size in sizes.items():
        lines = member_text(archive, f"names-0.3.0/names/dist.{kind}").splitlines()
        lists[f"{kind}_{size}"] = [line.split()[0].lower() for line in lines[:size]]
    return lists


def in_vocabulary(words: set[str], names: dict[str, list[str]]) -> dict[str, str]:
    """Count digits, numbers, years, letters, contractions and names in the vocabulary."""
    lists = {
        "digits": [str(n) for n in range(10)],
        "numbers_0_to_100": [str(n) for n in range(101)],
        "years_1900_to_2025": [str(n) for n in range(1900, 2026)],
        "letters": list("abcdefghijklmnopqrstuvwxyz"),
        "contractions": ["don't", "can't", "it's", "n't", "'s", "'re", "'ll", "'ve", "'d", "'m"],
        "contractions_without_apostrophe": ["dont", "cant", "wont", "didnt", "thats", "im", "ive"],
        "left_parts_of_contractions": ["don", "didn", "doesn", "isn", "wasn", "couldn", "wouldn", "hasn"],
        "right_parts_of_contractions": ["t", "s", "re", "ll", "ve", "d", "m"],
        **names,
    }
    return {kind: f"{sum(w in words for w in wanted)}/{len(wanted)}" for kind, wanted in lists.items()}


def read_pairs(gensim: Path, name: str) -> list[tuple[str, str, float]]:
    """Read a list of word pairs with the mean human judgement."""
    lines = member_text(gensim, f"gensim/test/test_data/{name}").splitlines()
    rows = [line.split("\t") for line in lines if line.strip() and not line.startswith("#")]
    return [(row[0].lower(), row[1].lower(), float(row[2])) for row in rows]


def agreement(space: WordList, pairs: list[tuple[str, str, float]]) -> dict[str, Any]:
    """Return Spearman's rho of cosine and of negative euclidean distance with the human judgements."""
    rows = space.index()
    known = [pair for pair in pairs if pair[0] in rows and pair[1] in rows]
    left = space.vectors[[rows[pair[0]] for pair in known]]
    right = space.vectors[[rows[pair[1]] for pair in known]]
    human = [pair[2] for pair in known]
    cosine = (unit_rows(left) * unit_rows(right)).sum(axis=1)
    distance = np.linalg.norm(left - right, axis=1)
    return {
        "pairs": len(known),
        "cosine": round(float(spearmanr(cosine, human)[0]), 4),
        "euclidean": round(float(spearmanr(-distance, human)[0]), 4),
    }


def distances_from(vectors: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """Return euclidean distances from some rows to all, with infinity from a row to itself."""
    lengths = (vectors * vectors).sum(axis=1)
    squared = lengths[rows, None] + lengths[None, :] - 2 * vectors[rows] @ vectors.T
    distances: NDArray[Any] = np.sqrt(np.maximum(squared, 0.0))
    distances[np.arange(len(rows)), rows] = np.inf
    return distances


def shape(space: WordList) -> dict[str, float]:
    """Return figures of the distances after rounding, in units of the median nearest-neighbour distance."""
    codes = quantise(space.vectors)
    nearest = np.sqrt(nearest_squared(codes).astype(np.float64))
    unit = float(np.median(nearest))
    rows = np.sort(np.random.default_rng(1).permutation(len(codes))[:PROBES])
    distances = distances_from(codes.astype(np.float64), rows)
    finite = distances[np.isfinite(distances)]
    return {
        "scale": 1.0 / unit,
        "least_distance": round(float(nearest.min()) / unit, 4),
        "largest_of_2000_rows": round(float(finite.max()) / unit, 4),
        "median_distance": round(float(np.median(finite)) / unit, 4),
        "contrast_nearest_over_median": round(unit / float(np.median(finite)), 4),
        "rows_with_a_duplicate": int((nearest == 0).sum()),
    }


def half_kept(distances: NDArray[Any]) -> tuple[float, NDArray[Any]]:
    """Find lam with mean P(self) = 0.5 for P proportional to exp(-lam d); return it and P without self."""
    low, high = 1e-3, 1e4
    for _ in range(30):
        lam = float(np.sqrt(low * high))
        kept = float((1.0 / (1.0 + np.exp(-lam * distances).sum(axis=1))).mean())
        low, high = (lam, high) if kept < 0.5 else (low, lam)
    weights: NDArray[Any] = np.exp(-lam * distances)
    return lam, weights / (1.0 + weights.sum(axis=1, keepdims=True))


def judged(space: WordList, probes: list[str], judges: dict[str, WordList]) -> dict[str, Any]:
    """Measure how near a drawn word and the ten nearest words are to the true word, in each judge's cosine.

    Figures are above the judge's mean cosine of the probes with all judged words: 0 is a uniform draw.
    """
    rows = space.index()
    at = np.array([rows[word] for word in probes])
    distances = distances_from(space.vectors.astype(np.float32), at)
    lam, probabilities = half_kept(distances)
    nearest = np.sort(np.argpartition(distances, 10, axis=1)[:, :10], axis=1)
    result: dict[str, Any] = {"lam_times_median_nearest": lam * float(np.median(distances.min(axis=1)))}
    for name, judge in judges.items():
        places = judge.index()
        columns = np.array([row for row, word in enumerate(space.words) if word in places])
        vectors = unit_rows(judge.vectors - judge.vectors.mean(axis=0)).astype(np.float32)
        cosines = vectors[[places[word] for word in probes]] @ (
            vectors[[places[space.words[column]] for column in columns]].T
        )
        others = np.isfinite(distances[:, columns])
        base = float(cosines[others].mean())
        drawn = probabilities[:, columns]
        chosen = np.zeros(distances.shape, dtype=bool)
        np.put_along_axis(chosen, nearest, True, axis=1)
        result[name] = {
            "drawn": round(float((drawn * cosines).sum() / drawn.sum()) - base, 4),
            "ten_nearest": round(float(cosines[chosen[:, columns]].mean()) - base, 4),
            "judged_share_of_draws": round(float(drawn.sum() / probabilities.sum()), 3),
        }
    return result


def neighbours(space: WordList, queries: list[str]) -> dict[str, str]:
    """Return the five nearest words of each query that is in the vocabulary."""
    rows = space.index()
    known = [query for query in queries if query in rows]
    distances = distances_from(space.vectors, np.array([rows[query] for query in known]))
    order = np.argsort(distances, axis=1)[:, :5]
    return {query: " ".join(space.words[i] for i in order[n]) for n, query in enumerate(known)}


def first(space: WordList, size: int) -> WordList:
    """Return the first ``size`` words."""
    return space.select(list(range(min(size, len(space.words)))))


def centred_unit(space: WordList, drop: int = 0) -> WordList:
    """Remove the mean and the first ``drop`` principal components (all-but-the-top), then scale rows to 1."""
    vectors = space.vectors - space.vectors.mean(axis=0)
    if drop:
        _, components = np.linalg.eigh(vectors.T @ vectors)
        leading = components[:, -drop:]
        vectors = vectors - (vectors @ leading) @ leading.T
    return WordList(space.words, unit_rows(vectors))


def reduced(space: WordList, dimensions: int, unit: bool = True) -> WordList:
    """Reduce by principal components, optionally to the unit sphere."""
    vectors = reduce_dimensions(space.vectors, dimensions)
    return WordList(space.words, unit_rows(vectors) if unit else vectors)


def candidates(sources: dict[str, WordList]) -> dict[str, WordList]:
    """Return every candidate by name, in full precision."""
    wink, minilm, glove = first(sources["glove_6b"], 50_000), sources["minilm"], sources["glove_840b"]
    merged = merge(glove, sources["glove_6b"], 40_000)
    larger = merge(glove, sources["glove_6b"], 45_000)
    return {
        "a: GloVe 6B 50k x 100": wink,
        "a: GloVe 6B 50k x 100, unit": WordList(wink.words, unit_rows(wink.vectors)),
        "a: GloVe 6B 50k x 100, all-but-top 2, unit": centred_unit(wink, 2),
        "a: GloVe 6B 40k x 100, unit": first(WordList(wink.words, unit_rows(wink.vectors)), 40_000),
        "b: MiniLM 96": reduced(minilm, 96, unit=False),
        "b: MiniLM 128": reduced(minilm, 128, unit=False),
        "b: MiniLM 128, unit": reduced(minilm, 128),
        "c: wordllama x 256, unit": WordList(sources["wordllama"].words, unit_rows(sources["wordllama"].vectors)),
        "d: GloVe 840B 34k x 128": reduced(glove, 128, unit=False),
        "d: GloVe 840B 34k x 128, unit": reduced(glove, 128),
        "mix: 840B + 6B 40k x 128, unit": reduced(merged, 128),
        "mix: 840B + 6B 45k x 112, unit": reduced(larger, 112),
        "mix: 840B + 6B + MiniLM 40k x 128, unit (shipped)": reduced(with_minilm(merged, minilm), 128),
    }


def measure(space: WordList, context: dict[str, Any]) -> dict[str, Any]:
    """Return all figures of one candidate."""
    start = time.perf_counter()
    codes = quantise(space.vectors)
    rounded = WordList(space.words, codes.astype(np.float64))
    words = set(space.words)
    figures: dict[str, Any] = {"words": len(space.words), "dimensions": int(codes.shape[1])}
    figures["vector_bytes"] = int(codes.nbytes)
    for name, pairs in context["pairs"].items():
        figures[name] = {"full": agreement(space, pairs), "int8": agreement(rounded, pairs)}
    figures["coverage"] = {name: coverage(words, counts) for name, counts in context["corpora"].items()}
    figures["in_vocabulary"] = in_vocabulary(words, context["names"])
    figures["distances_int8"] = shape(space)
    figures["judged"] = judged(rounded, context["probes"], context["judges"])
    pool = space.index()
    same_words = rounded.select([pool[word] for word in context["pool"]])
    figures["judged_within_shared_words"] = judged(same_words, context["probes"], context["judges"])
    figures["neighbours"] = neighbours(rounded, QUERIES.split())
    figures["seconds_to_measure"] = round(time.perf_counter() - start, 1)
    return figures


def read_context(arguments: argparse.Namespace, sources: dict[str, WordList]) -> dict[str, Any]:
    """Read what the candidates are measured against."""
    corpora = read_corpora(arguments.movie_reviews, arguments.ag_news)
    in_all = set.intersection(
        *(set(sources[name].words) for name in ("minilm", "wordllama", "glove_840b")),
        set(first(sources["glove_6b"], 35_000).words),
        set(ranked_vocabulary(sources["glove_840b"], sources["glove_6b"], 40_000)),
    )
    together = corpora["movie_reviews"] + corpora["ag_news"]
    probes = [word for word, _ in sorted(together.items(), key=lambda item: (-item[1], item[0]))]
    pairs = {
        "simlex999": read_pairs(arguments.gensim, "simlex999.txt"),
        "wordsim353": read_pairs(arguments.gensim, "wordsim353.tsv"),
    }
    return {
        "corpora": corpora,
        "names": read_names(arguments.names),
        "pairs": pairs,
        "pool": sorted(in_all),
        "probes": [word for word in probes if word in in_all][:PROBES],
        "judges": sources,
    }


def machine() -> dict[str, Any]:
    """Describe the processor."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")
    return {"processor": model, "cores": os.cpu_count(), "python": platform.python_version()}


def main() -> None:
    """Read the inputs, measure every candidate and write the figures."""
    parser = argparse.ArgumentParser(description="Measure the candidates for the default space.")
    inputs = ("glove-840b", "glove-6b", "minilm", "wordllama", "gensim", "movie-reviews", "ag-news", "names")
    for name in inputs:
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    sources = {
        "glove_840b": read_glove_840b(arguments.glove_840b),
        "glove_6b": read_glove_6b(arguments.glove_6b),
        "minilm": read_minilm(arguments.minilm),
        "wordllama": read_wordllama(arguments.wordllama),
    }
    context = read_context(arguments, sources)
    results: dict[str, Any] = {
        "machine": machine(),
        "command": "python scripts/measure_spaces.py " + " ".join(f"--{name} FILE" for name in inputs),
        "tokens": {name: sum(counts.values()) for name, counts in context["corpora"].items()},
        "shared_words": len(context["pool"]),
        "probe_words": len(context["probes"]),
        "candidates": {},
    }
    for name, space in candidates(sources).items():
        results["candidates"][name] = measure(space, context)
        print(name, json.dumps(results["candidates"][name]["simlex999"]), flush=True)
        arguments.output.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
