"""Does a table keep its promise?  Computed on the integers that run.

Small tables are checked whole: every pair of input words against every output.  Large exponential kernels are checked by
their certificate (recomputed from rate and weights over all pairs, see :mod:`sfumato.mechanism.kernel`), by the exact
rational log-ratio at the worst pair, and by exact log-ratios of sampled pairs that would expose rows which are not what
the certificate is about.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.foundation.errors import CertificationError
from sfumato.foundation.guarantee import MetricGuarantee, PureGuarantee
from sfumato.foundation.randomness import UInt64Array
from sfumato.mechanism.base import Mechanism, TableMechanism
from sfumato.mechanism.exponential import ExponentialMechanism
from sfumato.mechanism.kernel import Tick, certify, log_sums
from sfumato.space.metric import FloatArray, IndexArray

EXHAUSTIVE_CELLS = 4_000_000_000
"""Pairs times outputs up to which every log-ratio is computed."""
_SAMPLED_PAIRS = 200


@dataclass(frozen=True)
class VerifyResult:
    """What was found, in the unit of the claim (epsilon per distance for a metric guarantee)."""

    mechanism: str
    claimed: float
    bound: float
    """No pair of input words exceeds this."""
    realised: float
    """What the worst pair that was found reaches, from exact rationals."""
    first: int
    """Input words (positions in the space) of the worst pair."""
    second: int
    output: int
    """Output word at which it is reached."""
    pairs: int
    exhaustive: bool
    """Whether every log-ratio was computed, rather than a proven bound over all pairs."""

    @property
    def passed(self) -> bool:
        """Whether the claim holds."""
        return self.bound <= self.claimed

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {**self.__dict__, "passed": self.passed}


def verify(mechanism: Mechanism, *, threads: int | None = None, tick: Tick | None = None) -> VerifyResult:
    """Compute the realised epsilon of a table mechanism and compare it with its claim.

    >>> from sfumato.mechanism.exponential import tem
    >>> from sfumato.space import Space
    >>> line = Space.from_arrays(list("abcde"), [[0.0], [1.0], [2.0], [3.0], [4.0]])
    >>> result = verify(tem(line, epsilon=1.0, gamma=2.0, tuning="published"))
    >>> result.passed, round(result.realised, 6)
    (True, 0.584394)
    """
    if not isinstance(mechanism, TableMechanism):
        raise CertificationError(
            "only tables can be verified exactly; audit this mechanism statistically (sfumato.audit) instead"
        )
    if not isinstance(mechanism.guarantee, (MetricGuarantee, PureGuarantee)):
        raise CertificationError(
            f"a {mechanism.guarantee.kind!r} guarantee has no single epsilon over all pairs to verify"
        )
    work = len(mechanism.inputs) ** 2 * len(mechanism.outputs)
    if work <= EXHAUSTIVE_CELLS or not isinstance(mechanism, ExponentialMechanism):
        if work > 50 * EXHAUSTIVE_CELLS:
            raise CertificationError(
                f"{len(mechanism.inputs)} x {len(mechanism.outputs)} cells are too many to compare row by row; "
                "verify a table over fewer words"
            )
        return _verify_every_ratio(mechanism, tick)
    return _verify_kernel(mechanism, threads, tick)


def _claim(mechanism: TableMechanism) -> float:
    guarantee = mechanism.guarantee
    assert isinstance(guarantee, (MetricGuarantee, PureGuarantee))
    return guarantee.epsilon


def _charges(mechanism: TableMechanism, ids: IndexArray, others: IndexArray) -> FloatArray:
    """Return what the promise multiplies epsilon with for each pair: the charged distance, or 1."""
    guarantee = mechanism.guarantee
    if isinstance(guarantee, MetricGuarantee):
        distances = mechanism.space.distances(ids, others)
        return np.minimum(distances, guarantee.radius, out=distances)
    return np.ones((len(ids), len(others)))


def _verify_every_ratio(mechanism: TableMechanism, tick: Tick | None) -> VerifyResult:
    inputs = mechanism.inputs
    weights, columns = _aligned(mechanism, inputs)
    with np.errstate(divide="ignore"):
        logs = (
            np.log(weights.astype(np.float64))
            - np.log(weights.sum(axis=1, dtype=np.uint64).astype(np.float64))[:, None]
        )
    worst, at = -1.0, (0, 0)
    for place in range(len(inputs)):
        losses = _largest_gaps(logs[place], logs)
        charges = _charges(mechanism, inputs[place : place + 1], inputs)[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(losses <= 0, 0.0, losses / charges)
        ratios[place] = 0.0
        other = int(ratios.argmax())
        if ratios[other] > worst:
            worst, at = float(ratios[other]), (place, other)
        if tick:
            tick(1)
    first, second = at
    realised, cell = _exact_loss(weights[first], weights[second])
    charge = float(_charges(mechanism, inputs[[first]], inputs[[second]])[0, 0])
    exact = 0.0 if realised <= 0 else (realised / charge if charge else math.inf)
    # The float screen's own error is far below the margin a certificate keeps; the bound carries it.
    bound = max(exact, worst) * (1 + 1e-12) if len(inputs) > 1 else 0.0
    return VerifyResult(
        mechanism.guarantee.mechanism, _claim(mechanism), bound, exact, int(inputs[first]), int(inputs[second]),
        int(columns[cell]), len(inputs) * (len(inputs) - 1) // 2, True,
    )  # fmt: skip


def _largest_gaps(row: FloatArray, rows: FloatArray) -> FloatArray:
    """Return max over outputs of row - other row; an output only one of them can give is an infinite loss."""
    with np.errstate(invalid="ignore"):
        gaps = row[None, :] - rows
    gaps[:, np.isneginf(row)] = -np.inf
    return np.asarray(gaps.max(axis=1))


def _aligned(mechanism: TableMechanism, ids: IndexArray) -> tuple[UInt64Array, IndexArray]:
    """Return rows of weights over common columns, whatever cells each row has."""
    cells = mechanism.cells(ids)
    weights = mechanism.weights(ids)
    if cells is None:
        return weights, mechanism.outputs
    aligned = np.zeros((len(ids), len(mechanism.space)), dtype=np.uint64)
    np.add.at(aligned, (np.arange(len(ids))[:, None], cells), weights)
    return aligned, np.arange(len(mechanism.space))


def _exact_loss(one: UInt64Array, other: UInt64Array) -> tuple[float, int]:
    """Return the greatest log-ratio of two rows and its cell, from exact rationals."""
    with np.errstate(divide="ignore", invalid="ignore"):
        screen = np.log(one.astype(np.float64)) - np.log(other.astype(np.float64))
    screen[one == 0] = -np.inf
    near = np.flatnonzero(screen >= screen.max() - 1e-9)[:1000]
    totals = Fraction(int(other.sum(dtype=object)), int(one.sum(dtype=object)))
    best, cell = Fraction(0), int(near[0])
    for place in near.tolist():
        if int(other[place]) == 0:
            return math.inf, place
        ratio = Fraction(int(one[place]), int(other[place])) * totals
        if ratio > best:
            best, cell = ratio, place
    excess = best - 1
    return math.log1p(float(excess)) if abs(excess) < 1 else math.log(best.numerator) - math.log(best.denominator), cell


def _exact_pair(mechanism: TableMechanism, first: int, second: int) -> tuple[float, int, int, int]:
    """Return the realised epsilon of a pair of words in its worse direction, with that direction and output."""
    weights, columns = _aligned(mechanism, np.array([first, second]))
    charge = float(_charges(mechanism, np.array([first]), np.array([second]))[0, 0])
    forward, forward_cell = _exact_loss(weights[0], weights[1])
    backward, backward_cell = _exact_loss(weights[1], weights[0])
    loss, cell, pair = max((forward, forward_cell, (first, second)), (backward, backward_cell, (second, first)))
    epsilon = 0.0 if loss <= 0 else (loss / charge if charge else math.inf)
    return epsilon, int(columns[cell]), *pair


def _verify_kernel(mechanism: ExponentialMechanism, threads: int | None, tick: Tick | None) -> VerifyResult:
    ground, tuned = mechanism.ground, mechanism.tuned
    log_z = log_sums(ground, tuned.weights, tuned.rate, threads, tick)
    certificate = certify(ground, log_z, tuned.rate, threads, tick)
    worst = _exact_pair(mechanism, certificate.first, certificate.second)
    sampler = np.random.default_rng(0)
    for _ in range(_SAMPLED_PAIRS):
        first, second = sampler.choice(mechanism.inputs, 2, replace=False)
        worst = max(worst, _exact_pair(mechanism, int(first), int(second)))
    realised, output, one, other = worst
    return VerifyResult(
        mechanism.guarantee.mechanism, _claim(mechanism), max(certificate.epsilon, realised), realised, one, other,
        output, len(mechanism.inputs) * (len(mechanism.inputs) - 1) // 2, False,
    )  # fmt: skip
