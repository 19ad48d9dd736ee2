"""Speed of the parts that decide about large inputs, each beside a yardstick measured in the same run on one core.

* text in to text out, beside a loop that draws each word with numpy's ``choice``;
* compiling a mechanism for 50,000 words of 100 dimensions, beside a bare single-precision matrix product of that shape;
* decoding noisy vectors exactly, beside a bare product of that shape, and approximately, beside exactly;
* growth with the number of words and with the corpus, and the peak memory;
* the whole GloVe, and a synthetic space of 2.2 million words of 300 dimensions.

    python benchmarks/speed.py [SECTION ...]

Figures go to ``results/speed.json``, section by section; ``benchmarks/large/draw.py`` makes the page and the plots of it.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import sfumato
from reviews import reviews
from setting import RESULTS, save, setting
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism.decoding import ApproximateDecoder, ExactDecoder
from sfumato.mechanism.exponential import tem
from sfumato.space import Space
from sfumato.space.statistics import compute_statistics
from throughput import NAIVE_TOKENS, naive

sys.path.insert(0, str(Path(__file__).parent / "large"))
from glove import glove_file

WORDS, DIMENSION = 50_000, 100
BATCH = 2000
KEY = RunKey.from_seed(1)


def seconds(work: Callable[[], Any], runs: int = 3) -> float:
    """Return the least processor time of some runs."""
    least = float("inf")
    for _ in range(runs):
        start = time.process_time()
        work()
        least = min(least, time.process_time() - start)
    return least


def peak_mib() -> float:
    """Return the peak of this process's resident memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def cloud(words: int, dimension: int = DIMENSION) -> Space:
    """Return a synthetic space: clusters, so that neighbours are near as they are among words."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(words // 50, dimension)).astype(np.float32)
    vectors = centres[rng.integers(0, len(centres), words)] + 0.5 * rng.normal(size=(words, dimension)).astype("f4")
    return Space.from_arrays([f"w{place}" for place in range(words)], vectors, name=f"synthetic {words:,}")


def sanitize(sanitizer: sfumato.Sanitizer, texts: list[str], key: RunKey | None) -> int:
    """Sanitize in the batches of the runner; return how many words were protected."""
    return sum(
        sanitizer.batch(texts[at : at + BATCH], key=key, first_record=at).counts.protected
        for at in range(0, len(texts), BATCH)
    )


def text() -> dict[str, Any]:
    """Measure text in to text out."""
    mechanism = sfumato.compile("tem", Space.load(), epsilon=6.0)
    sanitizer, texts = sfumato.Sanitizer(mechanism), reviews(40_000)
    tokens = sanitize(sanitizer, texts, KEY)  # also compiles the rows that occur
    few = texts[: NAIVE_TOKENS // 15]
    naive(mechanism, few)
    start = time.process_time()
    slow = naive(mechanism, few) / (time.process_time() - start)
    figures = {"tokens": tokens, "naive_tokens_per_second": slow}
    for name, key in (("keyed", KEY), ("system", None)):
        rate = tokens / seconds(lambda key=key: sanitize(sanitizer, texts, key))
        figures |= {f"{name}_tokens_per_second": rate, f"{name}_over_naive": rate / slow}
    return figures


def product(rows: int, columns: int, dimension: int) -> float:
    """Return the seconds of a bare single-precision matrix product, in strips."""
    rng = np.random.default_rng(1)
    left = rng.normal(size=(rows, dimension)).astype(np.float32)
    right = rng.normal(size=(dimension, columns)).astype(np.float32)
    step = max(1, 20_000_000 // columns)
    out = np.empty((step, columns), dtype=np.float32)

    def work() -> None:
        for start in range(0, rows, step):
            part = left[start : start + step]
            np.matmul(part, right, out=out[: len(part)])

    return seconds(work, 2)


def compiling() -> dict[str, Any]:
    """Measure compiling, with the space's figures apart: they are computed once for a space and kept."""
    space = cloud(WORDS)
    _ = space.geometry
    bare = product(WORDS, WORDS, DIMENSION)
    figures: dict[str, Any] = {"words": WORDS, "dimension": DIMENSION, "product_seconds": bare}
    start = time.process_time()
    statistics = compute_statistics(space.geometry, threads=1)
    figures["statistics_seconds"] = time.process_time() - start
    space = space.with_known(space.digest, statistics, space.distinct, space.step)
    epsilon = 12.0 / statistics.median_neighbour_distance
    for tuning in ("published", "tight"):
        start = time.process_time()
        mechanism = tem(space, epsilon=epsilon, tuning=tuning, threads=1)
        spent = time.process_time() - start
        figures |= {f"{tuning}_seconds": spent, f"{tuning}_over_product": spent / bare}
        figures[f"{tuning}_certified_over_epsilon"] = mechanism.certificate.epsilon / epsilon
    return figures


def large_space() -> Space:
    """Return the whole GloVe, or a synthetic space of its size where it cannot be fetched."""
    try:
        return Space.from_file(glove_file())
    except (OSError, subprocess.CalledProcessError):
        return cloud(341_479)


def decoding() -> dict[str, Any]:
    """Measure decoding noisy vectors of 341,479 words; the noise is as long as a typical nearest neighbour is away."""
    space = large_space()
    points = np.ascontiguousarray(space.vectors, dtype=np.float64)
    neighbour = _neighbour_distance(points)
    rng = np.random.default_rng(2)
    chosen = points[rng.integers(0, len(points), 1024)]
    exact, approximate = ExactDecoder(points), ApproximateDecoder(points, 32)
    bare = product(len(chosen), len(points), DIMENSION)
    figures: dict[str, Any] = {
        "space": space.name,
        "words": len(points),
        "dimension": DIMENSION,
        "vectors": len(chosen),
        "product_seconds": bare,
        "noises": [],
    }
    for share in (0.5, 1.0, 2.0):
        directions = rng.normal(size=chosen.shape)
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        noisy = chosen + directions * rng.gamma(DIMENSION, share * neighbour / DIMENSION, (len(chosen), 1))
        found, guess = exact.nearest(noisy, 1)[0], approximate.nearest(noisy, 1)[0]
        one, other = seconds(lambda n=noisy: exact.nearest(n, 1)), seconds(lambda n=noisy: approximate.nearest(n, 1))
        measured = {
            "noise_over_neighbour_distance": share,
            "exact_seconds": one,
            "exact_share_of_product_rate": bare / one,
            "approximate_seconds": other,
            "approximate_over_exact": one / other,
            "recall": float((found == guess).mean()),
        }
        figures["noises"].append(measured)
        if share == 1.0:
            figures |= measured
    return figures


def _neighbour_distance(points: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """Return the median distance to the nearest other point, of evenly spread points."""
    some = points[:: len(points) // 256]
    return float(np.median(ExactDecoder(points).nearest(some, 2)[1][:, 1]))


def growth() -> dict[str, Any]:
    """Measure how row compilation and drawing grow with the words, and drawing with the corpus."""
    rows = []
    for words in (5_000, 20_000, 80_000, 341_479):
        space = quantised(words)
        mechanism = tem(space, epsilon=3.0, gamma=space.statistics.diameter, tuning="published", threads=1)
        some = np.random.default_rng(3).integers(0, words, 200)
        start = time.process_time()
        mechanism.compile_rows(some)
        rows.append({"words": words, "seconds_per_row": (time.process_time() - start) / len(some)})
    sanitizer = sfumato.Sanitizer(sfumato.compile("tem", Space.load(), epsilon=6.0))
    corpus = []
    texts = reviews(60_000)
    for count in (6_000, 60_000, 600_000, 6_000_000):
        start, tokens = time.process_time(), 0
        for at in range(0, count, len(texts)):
            tokens += sanitize(sanitizer, texts[: count - at], KEY)
        spent = time.process_time() - start
        corpus.append({"tokens": tokens, "seconds": spent, "peak_mib": peak_mib()})
    return {"rows": rows, "corpus": corpus}


def quantised(words: int) -> Space:
    """Return a synthetic space of small whole numbers, whose figures are not computed over all pairs."""
    vectors = np.clip(np.rint(20 * cloud(words).vectors), -127, 127).astype(np.int8)
    return Space.from_arrays([f"w{place}" for place in range(words)], vectors, scale=0.05)


def large() -> dict[str, Any]:
    """Measure large spaces, each in a process of its own; the tight tuning, which takes an hour, only where it is asked for."""
    cases = {}
    for case in os.environ.get("LARGE_CASES", "glove,synthetic").split(","):
        script = Path(__file__).parent / "large" / "spaces.py"
        done = subprocess.run([sys.executable, script, case], check=True, capture_output=True, text=True)
        cases[case] = json.loads(done.stdout)
    return cases


SECTIONS = {"text": text, "compiling": compiling, "decoding": decoding, "growth": growth, "large": large}


def main() -> None:
    """Measure what was asked for, print and save."""
    path = RESULTS / "speed.json"
    # Nothing that an earlier run has computed and kept.
    with threadpool_limits(1), tempfile.TemporaryDirectory() as cache:
        os.environ["SFUMATO_CACHE_DIR"] = cache
        for name in sys.argv[1:] or SECTIONS:
            figures = SECTIONS[name]() | {"peak_mib": peak_mib(), **setting()}
            print(name, json.dumps(figures, indent=1), flush=True)
            saved = json.loads(path.read_text()).get("sections", {}) if path.exists() else {}
            # Cases of large spaces that were not measured now stay as they were.
            saved[name] = {**saved.get(name, {}), **figures} if name == "large" else figures
            save("speed", {"sections": saved})


if __name__ == "__main__":
    main()
