"""A lower bound on the epsilon of noisy vectors, from draws alone: how well two sentences can be told apart.

Noise that is the same for every input is best seen through along the line between the two clipped vectors (for Gaussian noise
this is the Neyman-Pearson test).  The threshold is chosen on draws that are not counted, and both error rates are bounded by
Clopper and Pearson's intervals: an (epsilon, delta) promise allows no event with p > e^epsilon q + delta.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sfumato.audit.intervals import share_at_least, share_at_most
from sfumato.audit.lower_bounds import AuditResult
from sfumato.foundation.checks import gather, require_count, require_probability
from sfumato.foundation.errors import DataError
from sfumato.foundation.randomness import Source, SystemSource
from sfumato.latent.plan import NoisePlan
from sfumato.latent.release import release
from sfumato.latent.vectors import clip

_THRESHOLDS = np.linspace(0.02, 0.9, 40)
_AT_ONCE = 4_000_000
"""Numbers that are drawn together."""


def audit_vectors(
    plan: NoisePlan,
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    claimed: float | None = None,
    draws: int = 20_000,
    confidence: float = 0.99,
    source: Source | None = None,
) -> AuditResult:
    """Return a lower bound on epsilon at the plan's delta, from releasing two vectors ``draws`` times each.

    Where the plan makes several releases of a sentence, all of them together are looked at.  ``claimed`` is the plan's own
    epsilon, unless something else was claimed.  The order of the two vectors is the caller's: try both.

    >>> from sfumato.latent.calibration import release_once
    >>> plan = release_once(epsilon=3.0, clip=1.0, dimension=2, delta=1e-3)
    >>> result = audit_vectors(plan, [-5.0, 0.0], [5.0, 0.0])
    >>> 0.5 < result.lower_bound <= result.claimed, result.refuted
    (True, False)
    """
    gather(lambda: require_count(draws=draws), lambda: require_probability(confidence=confidence))
    pair = clip(
        np.stack([np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)]), plan.clip, plan.norm
    )
    if pair.shape != (2, plan.dimension):
        raise DataError(f"give two sentence vectors of {plan.dimension} numbers each")
    line = pair[1] - pair[0]
    length = float(np.linalg.norm(line))
    claim = plan.epsilon() if claimed is None else claimed
    if length == 0:
        return AuditResult(claim, 0.0, confidence, -1, -1, 0)
    drawn_from = source or SystemSource()
    chosen, counted = (
        [_scores(one, line / length, plan, draws, drawn_from) for one in pair] for _ in ("threshold", "count")
    )
    each = 1 - (1 - confidence) / 2
    thresholds = np.quantile(chosen[1], _THRESHOLDS)
    best = max(thresholds.tolist(), key=lambda at: _bound(chosen, at, plan.delta, each))
    bound = max(_bound(counted, best, plan.delta, each), 0.0)
    return AuditResult(claim, bound, confidence, -1, -1, draws)


def _scores(
    vector: npt.NDArray[np.float64], direction: npt.NDArray[np.float64], plan: NoisePlan, draws: int, source: Source
) -> npt.NDArray[np.float64]:
    """Release a vector many times; return how far each outcome lies along a direction, summed over a plan's releases."""
    total = np.zeros(draws)
    step = max(1, _AT_ONCE // plan.dimension)
    for _ in range(plan.releases):
        for start in range(0, draws, step):
            count = min(step, draws - start)
            total[start : start + count] += release(np.repeat(vector[None], count, axis=0), plan, source) @ direction
    return total


def _bound(scores: list[npt.NDArray[np.float64]], threshold: float, delta: float, confidence: float) -> float:
    low, high = scores
    hits = share_at_least(int((high > threshold).sum()), len(high), confidence) - delta
    alarms = share_at_most(int((low > threshold).sum()), len(low), confidence)
    return math.log(hits / alarms) if hits > 0 else -math.inf
