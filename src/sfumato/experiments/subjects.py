"""The mechanisms an experiment compares, and how they are brought to the same promise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import sfumato
from sfumato.audit.attacks.learners import features, train_classifier
from sfumato.audit.channel import attack_mechanism, sampled_attack
from sfumato.audit.prior import Prior
from sfumato.experiments.data import Texts
from sfumato.foundation.errors import CertificationError
from sfumato.foundation.guarantee import MetricGuarantee
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism.base import Mechanism, TableMechanism
from sfumato.policy import Policy, everything
from sfumato.sanitize import Sanitizer
from sfumato.sanitize.consistency import DigitReplacer
from sfumato.space import Space


@dataclass(frozen=True)
class Subject:
    """A mechanism with its options, to be compiled at any epsilon."""

    name: str
    """As it is called in tables."""
    mechanism: str
    options: dict[str, Any] = field(default_factory=dict)

    def compile(self, space: Space, epsilon: float) -> Mechanism:
        """Return the mechanism at a nominal epsilon."""
        return sfumato.compile(self.mechanism, space, epsilon=epsilon, **self.options)

    def at_certified(self, space: Space, epsilon: float) -> Mechanism:
        """Return the mechanism whose *certified* epsilon is the given one, as near below it as bisection finds.

        Published forms certify for less than their nominal epsilon; compared at the nominal one they look worse than
        their noise is.  The nominal epsilon is searched; what is returned has been certified.
        """
        best = self.compile(space, epsilon)
        if certified(best) >= epsilon * (1 - 0.01):
            return best
        low, high = epsilon, epsilon
        for _ in range(6):
            high *= 2
            if certified(self.compile(space, high)) > epsilon:
                break
        for _ in range(14):
            middle = math.sqrt(low * high)
            trial = self.compile(space, middle)
            if certified(trial) <= epsilon:
                low, best = middle, trial
                if certified(trial) >= epsilon * (1 - 0.005):
                    break
            else:
                high = middle
        return best


def certified(mechanism: Mechanism) -> float:
    """Return the certified epsilon of a metric guarantee; infinite for other kinds, which do not compare."""
    guarantee = mechanism.guarantee
    return guarantee.certified if isinstance(guarantee, MetricGuarantee) else math.inf


def compiled(subject: Subject, space: Space, epsilon: float) -> Mechanism | None:
    """Return the mechanism at a nominal epsilon, or None where it does not exist there."""
    try:
        return subject.compile(space, epsilon)
    except CertificationError:
        return None


def attack_success(mechanism: Mechanism, prior: Prior, draws: int) -> float:
    """Return what the optimal attacker recovers; for mechanisms without a table an attacker who learnt from draws.

    An attacker who learnt little from few draws does better by always naming the most frequent word.
    """
    if isinstance(mechanism, TableMechanism):
        return attack_mechanism(mechanism, prior).success
    learnt = sampled_attack(mechanism, prior, draws=draws)
    return max(learnt.success, learnt.blind)


def privatized(
    mechanism: Mechanism,
    texts: Sequence[str],
    seed: int,
    *,
    policy: Policy | None = None,
    oov: str = "draw",
    consistency: str = "token",
    digits: DigitReplacer | None = None,
) -> list[str]:
    """Return texts that went through a mechanism with the noise of a seed."""
    key = RunKey.from_seed(seed)
    whole = consistency == "dataset"  # the sanitizer itself holds the key, so that all texts share their draws
    sanitizer = Sanitizer(
        mechanism, policy=policy or everything(), oov=oov, consistency=consistency, digits=digits,
        key=key if whole else None,
    )  # fmt: skip
    return sanitizer.batch(texts, key=None if whole else key).texts


def utility(train: Texts, test: Texts, new_train: Sequence[str], new_test: Sequence[str]) -> float:
    """Return the accuracy of a classifier trained and tested on privatized texts."""
    model = train_classifier(features(new_train), train.labels, train.classes)
    return model.accuracy(features(new_test), test.labels)


def accuracy_through(mechanism: Mechanism | None, train: Texts, test: Texts, seed: int, **options: Any) -> float:
    """Return the accuracy of a classifier on texts that went through a mechanism; on the originals for None."""
    if mechanism is None:
        return utility(train, test, train.texts, test.texts)
    both = privatized(mechanism, [*train.texts, *test.texts], seed, **options)
    return utility(train, test, both[: len(train.texts)], both[len(train.texts) :])


def bisected(
    measure: Callable[[float], float], target: float, start: float, *, tolerance: float = 0.02, tries: int = 16
) -> tuple[float, float]:
    """Return where an increasing share is ``target``, up to the relative tolerance, and the share there.

    Between two places the log-odds are interpolated in the logarithm of the place, away from both ends.
    """
    low: tuple[float, float] | None = None
    high: tuple[float, float] | None = None
    here, value = start, measure(start)
    for _ in range(tries):
        if abs(value - target) <= tolerance * target:
            break
        if value < target:
            low = (here, value)
        else:
            high = (here, value)
        if high is None:
            here *= 2
        elif low is None:
            here /= 2
        else:
            below, above = _odds(low[1]), _odds(high[1])
            part = (_odds(target) - below) / (above - below) if above > below else 0.5
            here = low[0] * (high[0] / low[0]) ** min(max(part, 0.1), 0.9)
        value = measure(here)
    return here, value


def _odds(share: float) -> float:
    kept = min(max(share, 1e-9), 1 - 1e-9)
    return math.log(kept / (1 - kept))


def mean_distance(mechanism: Mechanism, prior: Prior, words: int = 200) -> float:
    """Return the expected distance from a word to its replacement, over words drawn from the prior."""
    from sfumato.audit.deniability import deniability

    chosen = np.random.default_rng(0).choice(len(prior.chances), words, p=prior.chances)
    return deniability(mechanism, ids=chosen, draws=200).distance
