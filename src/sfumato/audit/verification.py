"""Does a table keep its promise?  Computed on the integers that run.

Small tables are checked whole: every pair of input words against every output.  Promises that are the same for every pair
are checked column by column, and those of groups group by group.  Large exponential kernels are checked by their certificate
(recomputed from rate and weights over all pairs, see :mod:`sfumato.mechanism.kernel`), by the exact rational log-ratio at the
worst pair, and by exact log-ratios of sampled pairs that would expose rows which are not what the certificate is about.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from sfumato.audit.extremes import LOG_ERROR, Aligned, aligned, exact_loss, worst_of_all
from sfumato.foundation.errors import CertificationError
from sfumato.foundation.guarantee import (
    GroupGuarantee,
    MetricGuarantee,
    NoGuarantee,
    PureGuarantee,
    UtilityOptimisedGuarantee,
)
from sfumato.mechanism.base import Mechanism, TableMechanism
from sfumato.mechanism.exponential import ExponentialMechanism
from sfumato.mechanism.kernel import Tick, certify, log_sums
from sfumato.mechanism.santext_plus import SanTextPlus, certified_epsilon
from sfumato.space.metric import FloatArray, IndexArray

EXHAUSTIVE_CELLS = 4_000_000_000
"""Pairs times outputs up to which every log-ratio is computed."""
_SAMPLED_PAIRS = 200
_BATCH_CELLS = 4_000_000


@runtime_checkable
class Grouped(Protocol):
    """A mechanism that says which of its input words form a group."""

    @property
    def group_numbers(self) -> IndexArray:
        """The group of every input word, in the order of the inputs."""
        ...


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
    per_group: tuple[float, ...] = field(default=(), repr=False)
    """For a promise about groups: what the worst pair of each group reaches, from exact rationals."""
    global_claimed: float | None = None
    """For a promise about groups that has one: the claim for words of unlike groups."""
    global_bound: float | None = None
    """No two words at all exceed this."""

    @property
    def passed(self) -> bool:
        """Whether the claim holds."""
        within = self.global_claimed is None or self.global_bound is None or self.global_bound <= self.global_claimed
        return self.bound <= self.claimed and within

    def to_json(self) -> dict[str, Any]:
        """Return plain data; of the groups only their number."""
        data = {name: value for name, value in self.__dict__.items() if name != "per_group" and value is not None}
        if self.per_group:
            data["groups"] = len(self.per_group)
        return {**data, "passed": self.passed}


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
    guarantee = mechanism.guarantee
    if isinstance(guarantee, NoGuarantee):
        raise CertificationError(
            f"{guarantee.mechanism!r} promises nothing, so there is nothing to verify; choose a mechanism with a guarantee "
            "(see sfumato.mechanisms())"
        )
    if isinstance(guarantee, GroupGuarantee):
        return _verify_groups(mechanism, guarantee, tick)
    if isinstance(guarantee, PureGuarantee):
        return _verify_columns(mechanism, guarantee)
    if not isinstance(guarantee, MetricGuarantee):
        raise CertificationError(f"a {guarantee.kind!r} guarantee has no single epsilon over all pairs to verify")
    work = len(mechanism.inputs) ** 2 * len(mechanism.outputs)
    if work <= EXHAUSTIVE_CELLS or not isinstance(mechanism, ExponentialMechanism):
        if work > 50 * EXHAUSTIVE_CELLS:
            raise CertificationError(
                f"{len(mechanism.inputs)} x {len(mechanism.outputs)} cells are too many to compare row by row; "
                "verify a table over fewer words"
            )
        return _verify_every_ratio(mechanism, guarantee, tick)
    return _verify_kernel(mechanism, guarantee, threads, tick)


def _pairs(count: int) -> int:
    return count * (count - 1) // 2


def _verify_columns(mechanism: TableMechanism, guarantee: PureGuarantee) -> VerifyResult:
    # Rows with cells of their own have common columns only within one step.
    inputs = mechanism.inputs
    same_columns = mechanism.cells(inputs[:1]) is None
    step = max(1, _BATCH_CELLS // len(mechanism.outputs)) if same_columns else len(inputs)
    worst = worst_of_all(mechanism, inputs, step)
    return VerifyResult(
        guarantee.mechanism, guarantee.epsilon, worst.bound, worst.realised, worst.first, worst.second, worst.output,
        _pairs(len(inputs)), True,
    )  # fmt: skip


def _verify_groups(mechanism: TableMechanism, guarantee: GroupGuarantee, tick: Tick | None) -> VerifyResult:
    if not isinstance(mechanism, Grouped):
        raise CertificationError("the mechanism does not say which words form a group: give it group_numbers")
    numbers = np.asarray(mechanism.group_numbers)
    groups = np.split(mechanism.inputs[np.argsort(numbers, kind="stable")], np.cumsum(np.bincount(numbers))[:-1])
    _require_as_declared(guarantee, [len(group) for group in groups])
    found = []
    for group in groups:
        found.append(worst_of_all(mechanism, group, len(group)))
        if tick:
            tick(len(group))
    worst = max(found, key=lambda one: (one.bound, one.realised))
    unlike = None
    if math.isfinite(guarantee.global_epsilon):
        step = max(1, _BATCH_CELLS // len(mechanism.outputs))
        unlike = worst_of_all(mechanism, mechanism.inputs, step)
    return VerifyResult(
        guarantee.mechanism, guarantee.epsilon, worst.bound, worst.realised, worst.first, worst.second, worst.output,
        sum(_pairs(len(group)) for group in groups), True, tuple(one.realised for one in found),
        None if unlike is None else guarantee.global_epsilon, None if unlike is None else unlike.bound,
    )  # fmt: skip


def _require_as_declared(guarantee: GroupGuarantee, sizes: list[int]) -> None:
    declared = (guarantee.groups, guarantee.smallest_group, guarantee.largest_group, guarantee.words_alone)
    real = (len(sizes), min(sizes), max(sizes), sizes.count(1))
    if declared != real:
        raise CertificationError(
            "the guarantee's groups are not the mechanism's: it declares (groups, smallest, largest, words alone) "
            f"{declared}, there are {real}"
        )


def _charges(mechanism: TableMechanism, guarantee: MetricGuarantee, ids: IndexArray, others: IndexArray) -> FloatArray:
    """Return what the promise multiplies epsilon with for each pair: the charged distance."""
    distances = mechanism.space.distances(ids, others)
    return np.minimum(distances, guarantee.radius, out=distances)


def _allowances(
    mechanism: TableMechanism, guarantee: MetricGuarantee, ids: IndexArray, others: IndexArray
) -> FloatArray:
    """Return what the promise grants for each pair whatever its distance is."""
    if not isinstance(guarantee, UtilityOptimisedGuarantee):
        return np.zeros((len(ids), len(others)))
    kept = guarantee.keep_probability
    extra = math.inf if kept >= 1 else -math.log1p(-kept)
    unlike = np.isin(ids, mechanism.outputs)[:, None] != np.isin(others, mechanism.outputs)[None, :]
    return np.where(unlike, extra, 0.0)


def _rows(mechanism: TableMechanism, guarantee: MetricGuarantee, ids: IndexArray) -> Aligned:
    """Return rows over the outputs that the promise is about: a word that was kept is revealed, and so declared."""
    only = mechanism.outputs if isinstance(guarantee, UtilityOptimisedGuarantee) else None
    return aligned(mechanism, ids, only)


def _verify_every_ratio(mechanism: TableMechanism, guarantee: MetricGuarantee, tick: Tick | None) -> VerifyResult:
    inputs = mechanism.inputs
    rows = _rows(mechanism, guarantee, inputs)
    logs = rows.logs
    worst, bound, at = -1.0, 0.0, (0, 0)
    for place in range(len(inputs)):
        here = inputs[place : place + 1]
        losses = _beyond(_largest_gaps(logs[place], logs), _allowances(mechanism, guarantee, here, inputs)[0])
        losses[place] = 0.0
        charges = _charges(mechanism, guarantee, here, inputs)[0]
        ratios = _per_distance(losses, charges)
        # What float64 logarithms may be wrong by weighs most where words are near, so it is added pair by pair.
        bound = max(bound, float(_per_distance(np.where(losses > 0, losses + LOG_ERROR, 0.0), charges).max()))
        other = int(ratios.argmax())
        if ratios[other] > worst:
            worst, at = float(ratios[other]), (place, other)
        if tick:
            tick(1)
    first, second = at
    exact, column = _exact_epsilon(mechanism, guarantee, rows, inputs, first, second)
    bound = max(exact, bound * (1 + 1e-15)) if len(inputs) > 1 else 0.0
    return VerifyResult(
        guarantee.mechanism, guarantee.epsilon, bound, exact, int(inputs[first]), int(inputs[second]),
        int(rows.columns[column]), _pairs(len(inputs)), True,
    )  # fmt: skip


def _beyond(losses: FloatArray, allowances: FloatArray) -> FloatArray:
    """Return what losses exceed allowances by; an infinite allowance promises nothing."""
    unlimited = np.isinf(allowances)
    return np.where(unlimited, -np.inf, losses - np.where(unlimited, 0.0, allowances))


def _per_distance(losses: FloatArray, charges: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(losses <= 0, 0.0, losses / charges)


def _largest_gaps(row: FloatArray, rows: FloatArray) -> FloatArray:
    """Return max over outputs of row - other row; an output only one of them can give is an infinite loss."""
    with np.errstate(invalid="ignore"):
        gaps = row[None, :] - rows
    gaps[:, np.isneginf(row)] = -np.inf
    return np.asarray(gaps.max(axis=1))


def _exact_epsilon(
    mechanism: TableMechanism, guarantee: MetricGuarantee, rows: Aligned, ids: IndexArray, first: int, second: int
) -> tuple[float, int]:
    """Return what two rows (by place) realise, and the column where they do."""
    one, other = ids[first : first + 1], ids[second : second + 1]
    loss, column = exact_loss(rows, first, second)
    loss = float(_beyond(np.array([loss]), _allowances(mechanism, guarantee, one, other)[0])[0])
    charge = float(_charges(mechanism, guarantee, one, other)[0, 0])
    return 0.0 if loss <= 0 else (loss / charge if charge else math.inf), column


def _exact_pair(mechanism: TableMechanism, guarantee: MetricGuarantee, pair: IndexArray) -> tuple[float, int, int, int]:
    """Return the realised epsilon of a pair of words in its worse direction, with that output and direction."""
    rows = _rows(mechanism, guarantee, pair)
    epsilon, column, first, second = max(
        (*_exact_epsilon(mechanism, guarantee, rows, pair, first, second), first, second)
        for first, second in ((0, 1), (1, 0))
    )
    return epsilon, int(rows.columns[column]), int(pair[first]), int(pair[second])


def _verify_kernel(
    mechanism: ExponentialMechanism, guarantee: MetricGuarantee, threads: int | None, tick: Tick | None
) -> VerifyResult:
    ground, tuned = mechanism.ground, mechanism.tuned
    log_z = log_sums(ground, tuned.weights, tuned.rate, threads, tick, tuned.fill)
    certificate = certify(ground, log_z, tuned.rate, threads, tick, tuned.fill)
    proven = certified_epsilon(ground, certificate) if isinstance(mechanism, SanTextPlus) else certificate.epsilon
    worst = _exact_pair(mechanism, guarantee, np.array([certificate.first, certificate.second]))
    sampler = np.random.default_rng(0)
    for _ in range(_SAMPLED_PAIRS):
        pair = sampler.choice(mechanism.inputs, 2, replace=False)
        worst = max(worst, _exact_pair(mechanism, guarantee, pair))
    realised, output, one, other = worst
    return VerifyResult(
        guarantee.mechanism, guarantee.epsilon, max(proven, realised), realised, one, other, output,
        _pairs(len(mechanism.inputs)), False,
    )  # fmt: skip
