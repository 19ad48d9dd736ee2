"""What can be measured of the promise: the greatest distance of clipped vectors, and how well two sentences are told apart.

All-MiniLM-L6-v2 vectors of IMDB reviews (``latent_data.py``): every pair of 5,000 of them, and for the test two that point in
most unlike directions.  Every lower bound holds with confidence 0.999.

    python benchmarks/latent_data.py && python benchmarks/latent_privacy.py
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import latent_data as data
from setting import save
from sfumato.audit.vectors import audit_vectors
from sfumato.latent.calibration import release_once, several_releases
from sfumato.latent.plan import NoisePlan
from sfumato.latent.published import as_published
from sfumato.latent.vectors import choose_clip, clip

EPSILONS = (1.0, 4.0, 10.0)
DELTA = 1e-3
"""Large, so that draws can reach it; the analytic Gaussian mechanism is exact at every delta."""
DRAWS = 10_000
VECTORS = 5_000
STEPS = {"rate": 0.1, "steps": 100}


def greatest_distance(vectors: np.ndarray) -> float:
    """Return the greatest distance of any two vectors."""
    squares = (vectors * vectors).sum(axis=1)
    greatest = 0.0
    for start in range(0, len(vectors), 500):
        part = slice(start, start + 500)
        distances = squares[part, None] + squares[None] - 2 * vectors[part] @ vectors.T
        greatest = max(greatest, float(distances.max()))
    return greatest**0.5


def farthest(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two vectors whose directions are most unlike."""
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    one, other = np.unravel_index((units[:1000] @ units[:1000].T).argmin(), (1000, 1000))
    return vectors[one], vectors[other]


def measure() -> dict[str, Any]:
    """Return distances and bounds."""
    vectors = data.load("imdb", VECTORS).mean.astype(np.float64)
    public = data.load("rotten_tomatoes", 8_000).mean
    distances = []
    for factor in (0.3, 1.0, 3.0):
        bound = choose_clip(public) * factor
        plan = NoisePlan(clip=bound, scale=1.0, dimension=vectors.shape[1])
        found = greatest_distance(clip(vectors, bound))
        mirrored = greatest_distance(clip(np.concatenate([vectors[:2500], -vectors[:2500]]), bound))
        distances.append(
            {
                "clip": round(bound, 4),
                "sensitivity": round(plan.sensitivity, 4),
                "greatest_distance": round(found, 4),
                "greatest_distance_with_mirrored_vectors": round(mirrored, 4),
            }
        )
    shape = {"clip": choose_clip(public), "dimension": vectors.shape[1], "delta": DELTA}
    one, other = farthest(vectors)
    pairs = {"two reviews": (one, other), "a vector and its mirror image": (one, -one)}
    rows = []
    for epsilon in EPSILONS:
        plans = {
            "release once": release_once(epsilon=epsilon, **shape),
            "ten releases": several_releases(10, epsilon=epsilon, **shape),
            "as_published": as_published(epsilon=epsilon, allow_unsound=True, **STEPS, **shape).noise,
        }
        for mode, plan in plans.items():
            for pair, (first, second) in pairs.items():
                draws = DRAWS if plan.releases == 1 else DRAWS // 5
                found = audit_vectors(plan, first, second, claimed=epsilon, draws=draws, confidence=0.999)
                rows.append(
                    {"mode": mode, "pair": pair, "claimed": epsilon, "sound": round(plan.epsilon(), 3),
                     "lower_bound": round(found.lower_bound, 3), "refuted": found.refuted, "draws": draws}
                )  # fmt: skip
                print(rows[-1], flush=True)
    return {"vectors": VECTORS, "delta": DELTA, "confidence": 0.999, "distances": distances, "bounds": rows}


if __name__ == "__main__":
    result = measure()
    print(json.dumps(result["distances"], indent=1))
    print(save("latent_privacy", result))
