"""Ways to choose rate and weights of the exponential kernel, all with the same promise epsilon d.

* ``published``: rate epsilon/2, equal weights. True, but it realises much less than epsilon: the rest is wasted.
* ``calibrated``: equal weights, the greatest rate whose certificate is at most epsilon.
* ``tight``: rate (just below) epsilon and weights that solve K w = 1, so every row sums to one by itself and a single
  triangle inequality proves the promise.  Exists where no weight comes out negative.
* ``filled``: where some would, non-negative weights at the same rate whose rows sum to at most one, and the rest of each
  row spread evenly (see :mod:`sfumato.mechanism.filled`).
* ``floored``: the non-negative weights closest to the tight ones (see :func:`_balanced_weights`), and the greatest rate whose
  certificate is at most epsilon.
* ``best``: tight where it uses up epsilon, else the one of these that keeps most words.

Every result is certified on the integers; none is trusted because of how it was found.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sfumato.foundation.errors import CertificationError
from sfumato.mechanism.filled import greatest_share, packed_weights
from sfumato.mechanism.kernel import (
    LEAST_SUM,
    ULP,
    Certificate,
    Ground,
    Tick,
    UnderflowingRows,
    certify,
    log_sums,
    loss_allowance,
    require_apart,
)
from sfumato.space.metric import FloatArray, IndexArray, row_blocks

TUNINGS = ("best", "calibrated", "filled", "floored", "published", "tight")
_MOST_TRIALS = 10
_CLOSE_ENOUGH = 1e-4
_MOST_SOLVER_STEPS = 40
_SAMPLED_POINTS = 32
_POINTS_AT_ONCE = 8
_CLEARLY_SOLVED = 1e-2
_CLEARLY_NEGATIVE = 0.02
_BALANCING_BEFORE_PACKING = 8


@dataclass(frozen=True, eq=False)
class Tuned:
    """A certified kernel."""

    tuning: str
    rate: float
    weights: FloatArray
    """Per output point, the sum over its words."""
    certificate: Certificate
    keeps: float
    """Mean probability that an input word's output lies on its own point."""
    note: str = ""
    fill: FloatArray | None = None
    """Per input point, the probability that is spread evenly over the output words, where there is one."""


@dataclass(frozen=True)
class Effort:
    """How hard to work, and whom to tell."""

    threads: int | None = None
    tick: Tick | None = None
    say: Callable[[str], None] | None = None

    def stage(self, what: str) -> None:
        """Announce a stage of the work."""
        if self.say:
            self.say(what)


def tune(ground: Ground, epsilon: float, tuning: str, effort: Effort) -> Tuned:
    """Return a certified kernel for the tuning of that name."""
    require_apart(ground)
    if tuning != "published":
        _require_pairs(ground, tuning)
    return _FINDERS[tuning](ground, epsilon, effort)


def _evaluate(
    ground: Ground, weights: FloatArray, rate: float, effort: Effort, tuning: str, fill: FloatArray | None = None
) -> Tuned:
    log_z = log_sums(ground, weights, rate, effort.threads, effort.tick, fill)
    certificate = certify(ground, log_z, rate, effort.threads, effort.tick, fill)
    own, words = np.zeros(len(ground.geometry)), np.zeros(len(ground.geometry))
    own[ground.output_points], words[ground.output_points] = weights, ground.multiplicity
    kept = own[ground.input_points]
    if fill is not None:
        kept = kept + fill * words[ground.input_points] / len(ground.outputs)
    return Tuned(tuning, rate, weights, certificate, float(np.mean(kept / np.exp(log_z))), fill=fill)


def _equal_weights(ground: Ground) -> FloatArray:
    return ground.multiplicity.astype(np.float64)


def _published(ground: Ground, epsilon: float, effort: Effort) -> Tuned:
    if not ground.space.statistics.exact:
        return _by_theorem(ground, epsilon)
    effort.stage("computing row sums and certifying")
    weights = _equal_weights(ground)
    tuned = _evaluate(ground, weights, epsilon / 2, effort, "published")
    if tuned.certificate.epsilon <= epsilon:
        return tuned
    lower = _evaluate(ground, weights, _rate_of_theorem(ground, epsilon), effort, "published")
    return replace(lower, note="the rate is a little below epsilon / 2, to make room for the rounding to integers")


def _rate_of_theorem(ground: Ground, epsilon: float) -> float:
    """Return a rate that keeps the promise with any weights and whatever the rows' sums are.

    Sums of kernels obey ``|ln Z(x) - ln Z(x')| <= rate d_gamma(x, x')``, so what is realised is at most twice the rate and
    the allowance over the least distance.  The rate makes room for the latter.
    """
    least = min(ground.space.statistics.least_distance, ground.gamma)
    # The sums are computed too, with an error of their own, before they are certified with the allowance.
    of_sums = 4 * ULP * (len(ground.outputs) + 16 * (1 + epsilon * ground.reach))
    rate = (epsilon - (loss_allowance(ground, epsilon) + of_sums) / least) / 2 * (1 - 2e-12)
    if rate <= 0:
        raise _too_close(ground, epsilon, "use a larger epsilon, or fewer words (--space-words)")
    return rate


def _too_close(ground: Ground, epsilon: float, advice: str) -> CertificationError:
    least = ground.space.statistics.least_distance
    return CertificationError(
        f"two words may be only {least:.3g} apart, too close for integer weights to tell apart within epsilon "
        f"{epsilon:g}; {advice}"
    )


def _by_theorem(ground: Ground, epsilon: float) -> Tuned:
    """Return the published kernel with a certificate that looks at no pair."""
    rate = _rate_of_theorem(ground, epsilon)
    if rate * ground.reach > -math.log(LEAST_SUM) and not np.isin(ground.input_points, ground.output_points).all():
        raise UnderflowingRows(rate)
    least = min(ground.space.statistics.least_distance, ground.gamma)
    weights = _equal_weights(ground)
    certificate = Certificate(2 * rate + loss_allowance(ground, rate) / least, -1, -1)
    places = np.unique(np.linspace(0, len(ground.input_points) - 1, _SAMPLED_POINTS).astype(np.intp))
    points = ground.input_points[places]
    sums = ground.times(weights, rate, points, 1, None) if not ground.symmetric else _sums_of(ground, rate, points)
    own = np.zeros(len(ground.geometry))
    own[ground.output_points] = weights
    return Tuned(
        "published", rate, weights, certificate, float(np.mean(own[points] / sums)),
        "the certificate follows from the theorem and not from all pairs, which are too many here",
    )  # fmt: skip


def _sums_of(ground: Ground, rate: float, points: IndexArray) -> FloatArray:
    kernel = ground.kernel_function(rate)
    parts = row_blocks(len(points), 1, _POINTS_AT_ONCE)
    return np.concatenate([kernel(points[part], slice(None)).sum(axis=1) for part in parts])


def _require_pairs(ground: Ground, tuning: str) -> None:
    """Refuse what would look at all pairs of a space with too many."""
    points = ground.space.statistics.points
    if not ground.space.statistics.exact:
        hours = points**2 * (ground.space.dimension + 20) / 1e11 / 3600
        raise CertificationError(
            f"tuning {tuning!r} looks at all pairs of {points:,} points some twenty times, each time for about "
            f"{hours:.1f} hours of one core; use tuning='published', or fewer words (--space-words)"
        )


def _calibrated(ground: Ground, epsilon: float, effort: Effort) -> Tuned:
    effort.stage("calibrating the rate")
    return _greatest_rate(ground, _equal_weights(ground), epsilon, effort, "calibrated")


def _greatest_rate(
    ground: Ground, weights: FloatArray, epsilon: float, effort: Effort, tuning: str, start: float | None = None
) -> Tuned:
    """Return the kernel with the greatest rate found whose certificate is at most epsilon.

    A full evaluation looks at all pairs.  Between two of them the rate is moved to where the pairs that were worst so far
    reach epsilon, which only takes the sums of the few points in those pairs.  The certificate is not assumed to be
    monotone in the rate: only a kernel that was itself fully evaluated is returned.
    """
    _require_room(ground, epsilon)
    best = None
    low, high = 0.0, epsilon
    rate = epsilon / 2 if start is None else start
    pairs = np.empty((0, 2), dtype=np.intp)
    for _ in range(_MOST_TRIALS):
        try:
            candidate = _evaluate(ground, weights, rate, effort, tuning)
        except UnderflowingRows:
            high = rate
            rate = (low + high) / 2
            continue
        value = candidate.certificate.epsilon
        if value <= epsilon:
            best = candidate if best is None or candidate.rate > best.rate else best
            low = max(low, rate)
            if epsilon - value <= _CLOSE_ENOUGH * epsilon or rate >= epsilon:
                break
        else:
            high = min(high, rate)
        pairs = np.unique(np.vstack([pairs, candidate.certificate.tight_pairs]), axis=0)
        guess = _rate_of_pairs(ground, weights, epsilon, pairs, low, high)
        rate = guess if abs(guess - rate) > 1e-12 * epsilon else (low + high) / 2
    if best is None:
        raise CertificationError(
            f"no rate was found that certifies at epsilon {epsilon:g}; use a larger epsilon, or tuning='published'"
        )
    return best


def _require_room(ground: Ground, epsilon: float) -> None:
    """Raise where integer rounding alone uses up epsilon between the two nearest words."""
    least = ground.space.statistics.least_distance
    if len(ground.input_points) > 1 and loss_allowance(ground, 0.0) / least >= epsilon:
        raise _too_close(ground, epsilon, "merge or drop words with nearly equal vectors")


def _rate_of_pairs(
    ground: Ground, weights: FloatArray, epsilon: float, pairs: IndexArray, low: float, high: float
) -> float:
    """Return the greatest rate at which some pairs of input points stay (a little) within epsilon, by bisection."""
    if len(pairs) == 0:
        return high
    points, place = np.unique(pairs, return_inverse=True)
    first, second = place.reshape(pairs.shape).T
    chosen = ground.input_points[points]
    distances = ground.geometry.block(chosen, ground.output_points)
    np.minimum(distances, ground.gamma, out=distances)
    between = np.minimum(ground.geometry.block(chosen, chosen)[first, second], ground.gamma)

    def realised(rate: float) -> float:
        sums = np.exp(-rate * distances) @ weights
        if sums.min() < LEAST_SUM:
            return math.inf
        log_z = np.log(sums)
        gaps = np.abs(log_z[first] - log_z[second]) + loss_allowance(ground, rate)
        return float(rate + (gaps / between).max())

    goal = epsilon * (1 - 0.3 * _CLOSE_ENOUGH)
    if realised(high) <= goal:
        return high
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (middle, high) if realised(middle) <= goal else (low, middle)
    return low


class _NoSuchWeights(CertificationError):
    def __init__(self, epsilon: float) -> None:
        super().__init__(
            f"at epsilon {epsilon:g} no positive solution of K w = 1 was found (a weight comes out negative, or the "
            "equations are too ill-conditioned to solve): use a larger epsilon, or tuning='filled' or 'best'"
        )


def _margin(ground: Ground, epsilon: float) -> float:
    """Return how far below epsilon the rate must be so that rounding fits in."""
    if len(ground.input_points) == 1:
        return 0.0
    least = min(ground.space.statistics.least_distance, ground.gamma)
    return 2.0 * loss_allowance(ground, epsilon) / least + 2e-12 * epsilon


def _tight(ground: Ground, epsilon: float, effort: Effort) -> Tuned:
    rate = epsilon - _margin(ground, epsilon)
    if rate <= 0:
        raise _NoSuchWeights(epsilon)
    effort.stage("solving the tight equations")
    weights = _solve(ground, rate, effort)
    if weights is None or weights.min() <= 0:
        raise _NoSuchWeights(epsilon)
    effort.stage("certifying")
    tuned = _evaluate(ground, weights, rate, effort, "tight")
    if tuned.certificate.epsilon <= epsilon:
        return tuned
    # The equations are solved only nearly: a slightly smaller rate makes room for the residue.
    return _greatest_rate(ground, weights, epsilon, effort, "tight", start=rate * (1 - _CLOSE_ENOUGH))


def _solve(ground: Ground, rate: float, effort: Effort) -> FloatArray | None:
    """Solve K w = 1 over the output points by conjugate gradients.

    Returns None where the iteration does not converge, or has come near enough to show that a weight is negative.
    """
    points = ground.output_points
    ones = np.ones(len(points))

    def apply(vector: FloatArray) -> FloatArray:
        return ground.times(vector, rate, points, effort.threads, effort.tick)

    goal = 0.25 * _margin(ground, rate) * min(ground.space.statistics.least_distance, ground.gamma)
    weights = np.zeros(len(points))
    residue = ones.copy()
    direction = residue.copy()
    size = float(residue @ residue)
    for _ in range(_MOST_SOLVER_STEPS):
        image = apply(direction)
        curvature = float(direction @ image)
        if curvature <= 0:
            return None
        step = size / curvature
        weights += step * direction
        residue -= step * image
        left = np.abs(residue).max()
        if left <= goal:
            return weights
        if left <= _CLEARLY_SOLVED and weights.min() < -_CLEARLY_NEGATIVE * weights.max():
            return None
        new_size = float(residue @ residue)
        direction = residue + (new_size / size) * direction
        size = new_size
    return None


def _floored(ground: Ground, epsilon: float, effort: Effort) -> Tuned:
    effort.stage("balancing the weights")
    weights = _balanced_weights(ground, epsilon, effort)
    return _greatest_rate(ground, weights, epsilon, effort, "floored")


def _balanced_weights(ground: Ground, rate: float, effort: Effort, steps: int = 12) -> FloatArray:
    weights = _equal_weights(ground)
    for _ in range(steps):
        weights = weights / ground.times(weights, rate, ground.output_points, effort.threads, effort.tick)
    return weights


def _filled(ground: Ground, epsilon: float, effort: Effort) -> Tuned:
    rate = epsilon - _margin(ground, epsilon)
    if rate <= 0:
        raise _too_close(ground, epsilon, "merge or drop words with nearly equal vectors")
    effort.stage("balancing the weights")
    weights = _balanced_weights(ground, rate, effort, _BALANCING_BEFORE_PACKING)
    effort.stage("packing the weights")
    weights = packed_weights(ground, rate, weights, effort.threads, effort.tick)
    loads = ground.times(weights, rate, ground.input_points, effort.threads, effort.tick)
    effort.stage("filling the rows up")
    share = greatest_share(ground, loads, rate, effort.threads, effort.tick)
    effort.stage("certifying")
    tuned = _evaluate(ground, share * weights, rate, effort, "filled", 1 - share * loads)
    if tuned.certificate.epsilon > epsilon:
        raise CertificationError(
            f"at epsilon {epsilon:g} the rows that were filled up do not certify; use tuning='calibrated' or 'best'"
        )
    return tuned


def _best(ground: Ground, epsilon: float, effort: Effort) -> Tuned:
    """Return the tuning that keeps most words: tight ones keep as many as any mechanism can."""
    found: list[Tuned] = []

    def try_(finder: Callable[[Ground, float, Effort], Tuned]) -> None:
        with contextlib.suppress(CertificationError):
            found.append(finder(ground, epsilon, effort))

    try_(_tight)
    if found and found[0].rate >= epsilon - _margin(ground, epsilon):
        return found[0]
    try_(_filled)
    found.append(_calibrated(ground, epsilon, effort))
    if found[-1].keeps == max(one.keeps for one in found):
        # Words in tight clusters among others far apart, where filling up does not do well.
        try_(_floored)
    best = max(found, key=lambda one: one.keeps)
    return replace(best, note="no tight weights were found at this epsilon in this space that use up all of it")


_FINDERS: dict[str, Callable[[Ground, float, Effort], Tuned]] = {
    "best": _best,
    "calibrated": _calibrated,
    "filled": _filled,
    "floored": _floored,
    "published": _published,
    "tight": _tight,
}
