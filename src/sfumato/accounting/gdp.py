"""Gaussian differential privacy as an accountant, and its central limit theorem."""

from __future__ import annotations

import math
from functools import singledispatch

from sfumato.accounting.base import Accountant
from sfumato.accounting.events import (
    BoundedRangeEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    MixtureOfGaussiansEvent,
    PureEvent,
    Release,
    SampledGaussianEvent,
)
from sfumato.accounting.gaussian import composed_mu, delta_of, epsilon_of, mu_of_pure
from sfumato.accounting.rounding import up
from sfumato.accounting.single import pure_epsilon
from sfumato.foundation.guarantee import GaussianGuarantee, Unit


@singledispatch
def mu_of(release: Release) -> float:
    """Return a mu such that one release is mu-Gaussian private.

    >>> round(mu_of(GaussianEvent(sigma=4.0)), 9)
    0.25
    """
    return mu_of_pure(pure_epsilon(release))


@mu_of.register
def _(release: GaussianEvent) -> float:
    return up(1 / release.sigma)


@mu_of.register
def _(release: SampledGaussianEvent) -> float:
    return up(1 / release.sigma)


@mu_of.register
def _(release: MixtureOfGaussiansEvent) -> float:
    return up(release.greatest_shift / release.sigma)


def total_mu(event: Event) -> float:
    """Return the mu of a whole event: the squares add up (Dong, Roth and Su 2022, corollary 3.3).

    >>> round(total_mu(GaussianEvent(sigma=2.0) * 16), 9)
    2.0
    """
    return composed_mu([(mu_of(release), times) for release, times in event.parts])


class GaussianPrivacy(Accountant):
    """Adds the squares of mu up; exact for Gaussian noise, where it is the analytic Gaussian mechanism."""

    name = "gdp"
    title = "Gaussian differential privacy (analytic Gaussian)"
    source = "Balle and Wang 2018; Dong, Roth and Su 2022"
    handles = (
        GaussianEvent,
        SampledGaussianEvent,
        MixtureOfGaussiansEvent,
        LaplaceEvent,
        PureEvent,
        BoundedRangeEvent,
    )
    ignores_sampling = True

    def gaussian_guarantee(
        self, event: Event, *, unit: Unit, neighbours: str, mechanism: str = "composition"
    ) -> GaussianGuarantee:
        """Return the guarantee as one mu, which composes without loss."""
        self._require_support(event)
        return GaussianGuarantee(
            mechanism=mechanism,
            unit=unit,
            neighbours=neighbours,
            releases=event.releases,
            mu=total_mu(event),
            arithmetic="float64",
        )

    def _epsilon(self, event: Event, delta: float) -> float:
        return epsilon_of(total_mu(event), delta)

    def _delta(self, event: Event, epsilon: float) -> float:
        mu = total_mu(event)
        return delta_of(mu, epsilon) if mu > 0 else 0.0


class CentralLimit(Accountant):
    """What the composition of infinitely many, infinitely small sampled steps would be."""

    name = "clt"
    title = "Gaussian central limit approximation"
    source = "Bu, Dong, Long and Su 2020"
    handles = (GaussianEvent, SampledGaussianEvent)
    sound = False
    unsound_because = (
        "the central limit theorem gives an approximation, not a bound: for finitely many steps the true epsilon can "
        "be larger than the one stated here"
    )

    def _epsilon(self, event: Event, delta: float) -> float:
        mu = limit_mu(event)
        return epsilon_of(mu, delta) if math.isfinite(mu) else math.inf

    def _delta(self, event: Event, epsilon: float) -> float:
        mu = limit_mu(event)
        return delta_of(mu, epsilon) if math.isfinite(mu) else 1.0


def limit_mu(event: Event) -> float:
    """Return the mu that many sampled steps tend to: rate sqrt(steps (e^(1/sigma^2) - 1)).

    >>> round(limit_mu(SampledGaussianEvent(sigma=1.0, rate=0.01) * 1000), 6)
    0.414522
    """
    squares = []
    for release, times in event.parts:
        if isinstance(release, SampledGaussianEvent):
            exponent = 1 / release.sigma**2
            square = release.rate**2 * math.expm1(exponent) if exponent < 700 else math.inf
        else:
            square = mu_of(release) ** 2
        squares.append(times * square)
    total = math.sqrt(math.fsum(squares))
    return total if total < 1e100 else math.inf
