"""Lower bounds on epsilon that hold with stated confidence, from draws alone.

If an event has probability p for one input and q for another, no mechanism with a smaller loss between the two than
ln(p / q) can be running.  Both are bounded from counts by Clopper and Pearson's (1934) exact intervals.  The event is
chosen on draws that are not counted, and the confidence is shared among all bounds that are looked at, so the greatest of
them may be taken.

Where trials have unequal probabilities, as for tokens of a text, the intervals hold for the mean probability: sums of
independent unequal trials are more concentrated than binomial ones (Hoeffding 1956).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.audit.channel import inputs_of
from sfumato.audit.intervals import share_at_least, share_at_most
from sfumato.foundation.checks import gather, require_count, require_probability
from sfumato.foundation.guarantee import (
    GroupGuarantee,
    Guarantee,
    MetricGuarantee,
    PureGuarantee,
    UtilityOptimisedGuarantee,
)
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism.base import Mechanism
from sfumato.space.metric import IndexArray

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class AuditResult:
    """A claim about the loss between two words, and the loss that was found."""

    claimed: float
    """The promised loss between the two inputs (epsilon times their distance, for a metric guarantee)."""
    lower_bound: float
    """The real loss is at least this, with the confidence below; 0 where nothing was found."""
    confidence: float
    first: int
    """Input words (positions in the space; -1 for a bound that is not about a single pair)."""
    second: int
    trials: int

    @property
    def refuted(self) -> bool:
        """Whether the claim is false, as sure as the confidence says."""
        return self.lower_bound > self.claimed


def loss_bound(hits: int, of: int, other_hits: int, of_other: int, confidence: float) -> float:
    """Return a lower bound on ln(p / q) from the counts of an event for two inputs.

    >>> round(loss_bound(90, 100, 10, 100, 0.95), 3)
    1.542
    """
    each = 1 - (1 - confidence) / 2
    low, high = share_at_least(hits, of, each), share_at_most(other_hits, of_other, each)
    return 0.0 if low <= 0 else max(math.log(low / high), 0.0)


def promised_loss(mechanism: Mechanism, guarantee: Guarantee, first: int, second: int) -> float:
    """Return the greatest loss that a guarantee allows between two words; infinite where it promises nothing."""
    if isinstance(guarantee, PureGuarantee):
        return guarantee.epsilon
    if isinstance(guarantee, GroupGuarantee):
        numbers = getattr(mechanism, "group_numbers", None)
        if numbers is None:
            return guarantee.global_epsilon
        places = np.searchsorted(inputs_of(mechanism), [first, second])
        same = bool(numbers[places[0]] == numbers[places[1]])
        return guarantee.epsilon if same else guarantee.global_epsilon
    if not isinstance(guarantee, MetricGuarantee):
        return math.inf
    distance = float(mechanism.space.distances(np.array([first]), np.array([second]))[0, 0])
    allowed = guarantee.epsilon * min(distance, guarantee.radius)
    if isinstance(guarantee, UtilityOptimisedGuarantee):
        kept = guarantee.keep_probability
        outputs = getattr(mechanism, "outputs", np.arange(0))
        revealed = not np.isin([first, second], outputs).all()
        # A word outside the protected set may come out as it is, which is declared: only pairs inside are promised.
        return math.inf if revealed and kept > 0 else allowed
    return allowed


def pairs_to_try(mechanism: Mechanism, count: int, seed: int = 0) -> list[tuple[int, int]]:
    """Return pairs of inputs: half of them nearest neighbours, where metric promises are strictest, half far apart."""
    inputs = inputs_of(mechanism)
    if len(inputs) < 2:
        return []
    rng = np.random.default_rng(seed)
    pairs: list[tuple[int, int]] = []
    for number, word in enumerate(rng.choice(inputs, min(count, len(inputs)), replace=False).tolist()):
        others = inputs[inputs != word]
        if number % 2:
            pairs.append((word, int(rng.choice(others))))
            continue
        distances = mechanism.space.distances(np.array([word]), others)[0]
        pairs.append((word, int(others[distances.argmin()])))
    return pairs


def audit_pairs(
    mechanism: Mechanism,
    pairs: Sequence[tuple[int, int]],
    *,
    guarantee: Guarantee | None = None,
    draws: int = 10_000,
    confidence: float = 0.99,
    key: RunKey | None = None,
) -> list[AuditResult]:
    """Return a lower bound on the loss of each pair; together they hold with the confidence.

    >>> import sfumato
    >>> line = sfumato.Space.from_arrays(list("ab"), [[0.0], [1.0]])
    >>> honest = sfumato.compile("tem", line, epsilon=2.0)
    >>> [result.refuted for result in audit_pairs(honest, [(0, 1)], draws=2000)]
    [False]
    """
    gather(lambda: require_count(draws=draws), lambda: require_probability(confidence=confidence))
    claim = mechanism.guarantee if guarantee is None else guarantee
    key = key or RunKey.generate()
    each = 1 - (1 - confidence) / max(len(pairs), 1)
    results = []
    for number, (first, second) in enumerate(pairs):
        promised = promised_loss(mechanism, claim, first, second)
        one, other = (
            mechanism.sample(np.full(2 * draws, word), key.record(2 * number + side, "audit"))
            for side, word in enumerate((first, second))
        )
        bound, swapped = _bound_of(one, other, draws, each)
        ends = (second, first) if swapped else (first, second)
        results.append(AuditResult(promised, bound, confidence, *ends, draws))
    return results


def _bound_of(one: IndexArray, other: IndexArray, draws: int, confidence: float) -> tuple[float, bool]:
    """Return the bound for the best event in either direction, chosen on the first half of the draws."""
    best, swapped = 0.0, False
    for is_swapped, (left, right) in enumerate(((one, other), (other, one))):
        event = _event(left[:draws], right[:draws])
        hits, others = np.isin(left[draws:], event).sum(), np.isin(right[draws:], event).sum()
        bound = loss_bound(int(hits), draws, int(others), draws, 1 - (1 - confidence) / 2)
        if bound > best:
            best, swapped = bound, bool(is_swapped)
    return best, swapped


def _event(left: IndexArray, right: IndexArray) -> IndexArray:
    """Return the outputs whose count most favours the first word: those above the threshold that bounds best."""
    outputs, place = np.unique(np.concatenate([left, right]), return_inverse=True)
    first = np.bincount(place[: len(left)], minlength=len(outputs))
    second = np.bincount(place[len(left) :], minlength=len(outputs))
    order = np.argsort(-(first + 0.5) / (second + 0.5), kind="stable")
    hits, others = first[order].cumsum(), second[order].cumsum()
    total = len(left)
    # A normal approximation to the exact bound is enough for choosing; the bound itself is exact.
    low = (hits - 2.6 * np.sqrt(hits * (1 - hits / total) + 1)) / total
    high = (others + 2.6 * np.sqrt(others + 1) + 3.5) / total
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.where(low > 0, np.log(np.maximum(low, 1e-12) / high), -np.inf)
    return np.asarray(outputs[order[: int(score.argmax()) + 1]])
