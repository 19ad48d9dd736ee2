"""Zero-concentrated differential privacy: rho adds up, and turns into (epsilon, delta) at the best order alpha.

rho-zCDP says that the Renyi divergence of every order alpha > 1 is at most rho alpha.  At any alpha, by proposition
12 of Canonne, Kamath and Steinke (2020),

    delta   = exp((alpha - 1)(alpha rho - epsilon)) / (alpha - 1) (1 - 1/alpha)^alpha
    epsilon = alpha rho + ln(1 / (alpha delta)) / (alpha - 1) + ln(1 - 1/alpha),

and the best alpha is searched for: whichever is found gives a valid bound.

>>> round(epsilon_of_rho(rho=0.5, delta=1e-5), 6)
4.728387
"""

from __future__ import annotations

import math
from functools import singledispatch

from sfumato.accounting.base import Accountant
from sfumato.accounting.events import (
    BoundedRangeEvent,
    ConcentratedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    MixtureOfGaussiansEvent,
    PureEvent,
    Release,
    SampledGaussianEvent,
)
from sfumato.accounting.rounding import UNIT_ROUNDOFF, up
from sfumato.accounting.search import doubled_until, greatest, smallest_value
from sfumato.foundation.checks import gather, require_epsilon, require_non_negative, require_probability

_LEAST_LOG_ORDER, _GREATEST_LOG_ORDER = math.log(1e-9), math.log(1e18)
"""Range of ln(alpha - 1) that is searched."""


def epsilon_of_rho(rho: float, delta: float) -> float:
    """Return the epsilon of rho-zCDP at ``delta``."""
    gather(lambda: require_non_negative(rho=rho), lambda: require_probability(delta=delta))
    if rho == 0:
        return 0.0
    log_delta = math.log(delta)

    def bound(log_order: float) -> float:
        above_one = math.exp(log_order)
        order = 1 + above_one
        terms = (order * rho, -log_delta / above_one, -math.log1p(above_one) / above_one, -math.log1p(1 / above_one))
        return math.fsum(terms) + 8 * UNIT_ROUNDOFF * sum(map(abs, terms))

    return max(smallest_value(bound, _LEAST_LOG_ORDER, _GREATEST_LOG_ORDER), 0.0)


def log_delta_of_rho(rho: float, epsilon: float) -> float:
    """Return an upper bound of ln(delta) of rho-zCDP at ``epsilon``."""
    if rho == 0:
        return -math.inf

    def bound(log_order: float) -> float:
        above_one = math.exp(log_order)
        order = 1 + above_one
        terms = (
            above_one * order * rho,
            -above_one * epsilon,
            -log_order,
            -order * math.log1p(1 / above_one),
        )
        return math.fsum(terms) + 8 * UNIT_ROUNDOFF * sum(map(abs, terms))

    return min(smallest_value(bound, _LEAST_LOG_ORDER, _GREATEST_LOG_ORDER), 0.0)


def delta_of_rho(rho: float, epsilon: float) -> float:
    """Return the delta of rho-zCDP at ``epsilon``.

    >>> round(delta_of_rho(rho=0.5, epsilon=epsilon_of_rho(0.5, 1e-5)), 9)
    1e-05
    """
    require_non_negative(rho=rho, epsilon=epsilon)
    return min(up(math.exp(log_delta_of_rho(rho, epsilon))), 1.0)


def rho_for(epsilon: float, delta: float) -> float:
    """Return the largest rho whose zCDP implies (epsilon, delta).

    >>> round(rho_for(epsilon=epsilon_of_rho(0.5, 1e-5), delta=1e-5), 9)
    0.5
    """
    gather(lambda: require_epsilon(epsilon=epsilon), lambda: require_probability(delta=delta))

    def private(rho: float) -> bool:
        return epsilon_of_rho(rho, delta) <= epsilon

    high = doubled_until(lambda rho: not private(rho), epsilon * epsilon * 1e-9, "rho")
    return greatest(private, 0.0, high, tolerance=1e-14)


@singledispatch
def rho_of(release: Release) -> float:
    """Return the rho of one release.

    >>> rho_of(BoundedRangeEvent(eta=2.0)), rho_of(PureEvent(epsilon=2.0))
    (0.5, 2.0)
    """
    return math.inf


@rho_of.register
def _(release: GaussianEvent) -> float:
    return up(0.5 / (release.sigma * release.sigma))


@rho_of.register
def _(release: SampledGaussianEvent) -> float:
    return up(0.5 / (release.sigma * release.sigma))


@rho_of.register
def _(release: MixtureOfGaussiansEvent) -> float:
    shift = release.greatest_shift / release.sigma
    return up(0.5 * shift * shift, 8 * UNIT_ROUNDOFF)


@rho_of.register
def _(release: LaplaceEvent) -> float:
    return up(0.5 / (release.scale * release.scale))


@rho_of.register
def _(release: PureEvent) -> float:
    return 0.5 * release.epsilon * release.epsilon


@rho_of.register
def _(release: BoundedRangeEvent) -> float:
    return release.eta * release.eta / 8


@rho_of.register
def _(release: ConcentratedEvent) -> float:
    return release.rho


def total_rho(event: Event) -> float:
    """Return the rho of a whole event: rho adds up (Bun and Steinke 2016, lemma 1.7).

    >>> total_rho(GaussianEvent(sigma=1.0) * 4) - 2.0 < 1e-12
    True
    """
    return up(math.fsum(rho_of(release) * times for release, times in event.parts))


class ZeroConcentrated(Accountant):
    """Adds rho up and converts once."""

    name = "zcdp"
    title = "zero-concentrated differential privacy"
    source = "Bun and Steinke 2016; Canonne, Kamath and Steinke 2020, proposition 12; Cesar and Rogers 2021"
    handles = (
        GaussianEvent,
        SampledGaussianEvent,
        MixtureOfGaussiansEvent,
        LaplaceEvent,
        PureEvent,
        BoundedRangeEvent,
        ConcentratedEvent,
    )
    ignores_sampling = True

    def _epsilon(self, event: Event, delta: float) -> float:
        return epsilon_of_rho(total_rho(event), delta)

    def _delta(self, event: Event, epsilon: float) -> float:
        return delta_of_rho(total_rho(event), epsilon)
