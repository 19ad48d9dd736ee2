"""One release on its own: its epsilon at a delta, and the epsilon it has at no delta at all."""

from __future__ import annotations

import math
from functools import singledispatch

from sfumato.accounting.events import (
    ApproximateEvent,
    BoundedRangeEvent,
    ConcentratedEvent,
    GaussianEvent,
    LaplaceEvent,
    MixtureOfGaussiansEvent,
    PureEvent,
    Release,
    SampledGaussianEvent,
)
from sfumato.accounting.gaussian import epsilon_of
from sfumato.accounting.mixture import mixture_epsilon
from sfumato.accounting.rounding import up
from sfumato.accounting.zcdp import epsilon_of_rho


@singledispatch
def pure_epsilon(release: Release) -> float:
    """Return the epsilon of a release at delta 0; inf where it has none.

    >>> pure_epsilon(LaplaceEvent(scale=4.0)) - 0.25 < 1e-12, pure_epsilon(GaussianEvent(sigma=4.0))
    (True, inf)
    """
    return math.inf


@pure_epsilon.register
def _(release: LaplaceEvent) -> float:
    return up(1 / release.scale)


@pure_epsilon.register
def _(release: PureEvent) -> float:
    return release.epsilon


@pure_epsilon.register
def _(release: BoundedRangeEvent) -> float:
    return release.eta


@singledispatch
def epsilon_once(release: Release, delta: float) -> float:
    """Return the epsilon of a single release at ``delta``, exactly up to outward rounding.

    >>> round(epsilon_once(GaussianEvent(sigma=1.0), 1e-5), 9)
    4.377178096
    """
    return pure_epsilon(release)


@epsilon_once.register
def _(release: GaussianEvent, delta: float) -> float:
    return epsilon_of(up(1 / release.sigma), delta)


@epsilon_once.register
def _(release: SampledGaussianEvent, delta: float) -> float:
    return mixture_epsilon(release.sigma, (0.0, 1.0), (1 - release.rate, release.rate), delta)


@epsilon_once.register
def _(release: MixtureOfGaussiansEvent, delta: float) -> float:
    return mixture_epsilon(release.sigma, release.sensitivities, release.probabilities, delta)


@epsilon_once.register
def _(release: ApproximateEvent, delta: float) -> float:
    return release.epsilon if delta >= release.delta else math.inf


@epsilon_once.register
def _(release: ConcentratedEvent, delta: float) -> float:
    return epsilon_of_rho(release.rho, delta)
