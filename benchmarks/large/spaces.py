"""One large space in a process of its own: load it, compile, compile rows as they occur, privatize, and report the peak.

    python benchmarks/large/spaces.py glove | glove-tight | synthetic

The outcome is printed as JSON; ``benchmarks/speed.py large`` runs all cases and keeps their figures.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from glove import glove_file
from threadpoolctl import threadpool_limits

import sfumato
from sfumato.foundation.errors import CertificationError
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism.exponential import ExponentialMechanism, tem
from sfumato.space import Space

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

SYNTHETIC_WORDS, SYNTHETIC_DIMENSION = 2_200_000, 300
NEIGHBOUR_LOSS = 12.0
SMALL_GAMMA = 1.2
"""In median distances between nearest neighbours."""
ROW_MEMORY = 2**28
KEY = RunKey.from_seed(1)


class Figures(dict[str, Any]):
    """Figures in the order they were measured, with the processor time and the peak after each step."""

    def step(self, name: str, work: Callable[[], Any]) -> Any:
        """Do one step."""
        start = time.process_time()
        outcome = work()
        self[f"{name}_seconds"] = time.process_time() - start
        self[f"{name}_peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return outcome


def refusal(space: Space, epsilon: float, tuning: str) -> str:
    """Return why a tuning is refused."""
    try:
        tem(space, epsilon=epsilon, tuning=tuning, threads=1)
    except CertificationError as error:
        return str(error)
    raise SystemExit(f"{tuning} was expected to be refused here")


def rows(figures: Figures, name: str, mechanism: ExponentialMechanism, count: int) -> None:
    """Measure rows compiled as words occur, and draws from them."""
    words = np.random.default_rng(3).integers(0, len(mechanism.space), count)
    figures.step(name, lambda: mechanism.sample(words, KEY.record(0)))
    figures[f"{name}_seconds_per_row"] = figures[f"{name}_seconds"] / count
    figures[f"{name}_are_short"] = mechanism.has_short_rows
    again = np.tile(words, 200)
    figures.step(f"{name}_draws", lambda: mechanism.sample(again, KEY.record(1)))
    figures[f"{name}_draws_per_second"] = len(again) / figures[f"{name}_draws_seconds"]


def privatize(figures: Figures, mechanism: ExponentialMechanism, texts: list[str]) -> None:
    """Measure text in to text out, first with rows to compile and then with those in memory."""
    sanitizer = sfumato.Sanitizer(mechanism)
    for name in ("first_run", "warm_run"):
        batch = figures.step(name, lambda: sanitizer.batch(texts, key=KEY))
        figures[f"{name}_tokens_per_second"] = batch.counts.protected / figures[f"{name}_seconds"]
    figures["tokens"], figures["out_of_vocabulary"] = batch.counts.protected, batch.counts.out_of_vocabulary


def glove() -> dict[str, Any]:
    """Measure the whole GloVe."""
    from reviews import reviews

    figures = Figures()
    path = glove_file()
    space: Space = figures.step("load", lambda: Space.from_file(path))
    statistics = figures.step("statistics", lambda: space.compute_statistics())
    figures |= {
        "words": len(space),
        "dimension": space.dimension,
        "median_neighbour": statistics.median_neighbour_distance,
    }
    epsilon = NEIGHBOUR_LOSS / statistics.median_neighbour_distance
    published = figures.step(
        "published", lambda: tem(space, epsilon=epsilon, tuning="published", threads=1, row_memory=ROW_MEMORY)
    )
    figures["published_certified_over_epsilon"] = published.certificate.epsilon / epsilon
    rows(figures, "rows", published, 400)
    privatize(figures, published, reviews(2000))
    gamma = SMALL_GAMMA * statistics.median_neighbour_distance
    short = tem(space, epsilon=epsilon, gamma=gamma, tuning="published", threads=1, row_memory=ROW_MEMORY)
    rows(figures, "small_gamma_rows", short, 400)
    return figures


def glove_tight() -> dict[str, Any]:
    """Compile the tight tuning of the whole GloVe: all pairs, some forty times."""
    figures = Figures()
    space = Space.from_file(glove_file())
    epsilon = NEIGHBOUR_LOSS / space.statistics.median_neighbour_distance
    tight = figures.step("tight", lambda: tem(space, epsilon=epsilon, tuning="tight", threads=1))
    figures["certified_over_epsilon"] = tight.certificate.epsilon / epsilon
    figures["keeps"] = tight.tuned.keeps
    return figures


def synthetic() -> dict[str, Any]:
    """Measure 2.2 million words of 300 dimensions in single precision."""
    figures = Figures()
    vectors = figures.step("make", _vectors)
    words = [f"w{place}" for place in range(SYNTHETIC_WORDS)]
    space: Space = figures.step("load", lambda: Space.from_arrays(words, vectors, name="synthetic"))
    figures["vectors_mib"] = vectors.nbytes / 2**20
    figures.step("geometry", lambda: space.geometry)
    statistics = figures.step("statistics", lambda: space.compute_statistics())
    epsilon = NEIGHBOUR_LOSS / statistics.median_neighbour_distance
    figures["refused"] = {tuning: refusal(space, epsilon, tuning) for tuning in ("calibrated", "tight")}
    gamma = SMALL_GAMMA * statistics.median_neighbour_distance
    mechanism = figures.step(
        "published",
        lambda: tem(space, epsilon=epsilon, gamma=gamma, tuning="published", threads=1, row_memory=ROW_MEMORY),
    )
    rows(figures, "rows", mechanism, 80)
    some = np.random.default_rng(4).integers(0, 80, 20_000)
    known = np.random.default_rng(3).integers(0, len(space), 80)
    texts = [" ".join(f"w{known[place]}" for place in some[at : at + 20]) for at in range(0, len(some), 20)]
    privatize(figures, mechanism, texts)
    figures |= {"words": len(space), "dimension": space.dimension}
    return figures


def _vectors() -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return clusters of fifty points, so that neighbours are near as they are among words; read-only."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((SYNTHETIC_WORDS // 50, SYNTHETIC_DIMENSION), dtype=np.float32)
    vectors = np.empty((SYNTHETIC_WORDS, SYNTHETIC_DIMENSION), dtype=np.float32)
    for start in range(0, SYNTHETIC_WORDS, 16_384):
        part = vectors[start : start + 16_384]
        part[:] = rng.standard_normal(part.shape, dtype=np.float32)
        part *= np.float32(0.5)
        part += centres[rng.integers(0, len(centres), len(part))]
    vectors.flags.writeable = False
    return vectors


CASES = {"glove": glove, "glove-tight": glove_tight, "synthetic": synthetic}


def main() -> None:
    """Measure one case with an empty cache and print its figures."""
    with threadpool_limits(1), tempfile.TemporaryDirectory() as cache:
        os.environ.setdefault("SFUMATO_CACHE_DIR", cache)
        figures = CASES[sys.argv[1]]()
    print(json.dumps({**figures, "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


if __name__ == "__main__":
    main()
