"""The accounting of the published form, kept so that its figures can be compared.  It is NOT a bound.

Three things are wrong with it.  The noise is set for a sensitivity of C, though two clipped vectors can be 2 C apart.  The
total over T sampled steps is taken from the central limit theorem, mu_tot = p sqrt(T (e^(mu^2) - 1)), which is an
approximation (and printed as its reciprocal, by which more noise would mean less privacy: that form is not usable and is
here as :func:`printed_mu` for the record).  And it counts on sampling that the server, who receives every vector, can see.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sfumato.accounting.gaussian import epsilon_of, mu_for
from sfumato.foundation.checks import gather, require_count, require_positive, require_probability
from sfumato.foundation.errors import ParameterError, UnsoundError
from sfumato.foundation.guarantee import GaussianGuarantee, Unit
from sfumato.latent.plan import PUBLIC, SENTENCE_NEIGHBOURS, NoisePlan

UNSOUND_BECAUSE = (
    "the noise is set for sensitivity C where it is 2 C, the total over the steps is a central limit approximation, and the "
    "sampling it counts on is seen by the server"
)


@dataclass(frozen=True)
class PublishedPlan:
    """The noise of the published form, what it claims and what is true of it."""

    noise: NoisePlan
    """What is added.  Its guarantee is the sound one, for as often as a sentence is sent."""
    guarantee: GaussianGuarantee
    """The claim; ``sound`` is False."""

    @property
    def true_epsilon(self) -> float:
        """A sound epsilon of this noise, at the plan's delta."""
        return self.noise.epsilon()


def as_published(
    *,
    epsilon: float,
    clip: float,
    dimension: int,
    rate: float,
    steps: int,
    delta: float = 1e-5,
    allow_unsound: bool = False,
) -> PublishedPlan:
    """Return the noise of the published accounting for ``steps`` steps that each take a share ``rate`` of the sentences.

    >>> plan = as_published(epsilon=1.0, clip=1.0, dimension=8, rate=0.01, steps=1000, allow_unsound=True)
    >>> plan.guarantee.sound, plan.true_epsilon > 8
    (False, True)
    """
    if not allow_unsound:
        raise UnsoundError(
            f"the published accounting is no bound: {UNSOUND_BECAUSE}. Use release_once, or allow_unsound=True to compare"
        )
    gather(
        lambda: require_positive(clip=clip, rate=rate),
        lambda: require_count(steps=steps, dimension=dimension),
        lambda: require_probability(delta=delta),
    )
    if rate > 1:
        raise ParameterError(f"rate must be at most 1, got {rate}")
    total = mu_for(epsilon, delta)
    mu = math.sqrt(math.log1p((total / rate) ** 2 / steps))
    sent = max(1, math.ceil(rate * steps))
    plan = NoisePlan(clip=clip, scale=clip / mu, dimension=dimension, delta=delta, releases=sent)
    claim = GaussianGuarantee(
        mechanism="latent gaussian, as published",
        unit=Unit.RECORD,
        neighbours=SENTENCE_NEIGHBOURS,
        releases=sent,
        public=PUBLIC,
        arithmetic="float64",
        mu=total,
        sound=False,
        unsound_because=UNSOUND_BECAUSE,
        notes=(f"A sound epsilon of this noise is {plan.epsilon():.4g} at delta {delta:g}",),
    )
    return PublishedPlan(plan, claim)


def claimed_epsilon(*, scale: float, clip: float, rate: float, steps: int, delta: float) -> float:
    """Return the epsilon that the published accounting claims for given noise."""
    return epsilon_of(_limit(clip / scale, rate, steps), delta)


def printed_mu(*, scale: float, clip: float, rate: float, steps: int) -> float:
    """Return the total as it is printed, the reciprocal of the limit: it grows with the noise.

    >>> printed_mu(scale=2.0, clip=1.0, rate=0.1, steps=10) > printed_mu(scale=1.0, clip=1.0, rate=0.1, steps=10)
    True
    """
    return 1 / _limit(clip / scale, rate, steps)


def _limit(mu: float, rate: float, steps: int) -> float:
    return rate * math.sqrt(steps * math.expm1(mu * mu))
