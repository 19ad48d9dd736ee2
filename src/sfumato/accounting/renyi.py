"""Renyi differential privacy: a curve over orders that adds up, and turns into (epsilon, delta) at the best order.

Each kind of release has a curve of its own; the curve of an event is the sum of the curves of its releases, each
times how often it happened.  The multiplication is done in one place for all kinds of release, so that none can be
counted once where it happened often.
"""

from __future__ import annotations

import math
from functools import lru_cache, singledispatch

import numpy as np
import numpy.typing as npt
from scipy import special

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
from sfumato.accounting.mixture_moments import divergences

Curve = npt.NDArray[np.float64]

_FRACTIONAL = tuple(1 + tenth / 10 for tenth in range(1, 100) if tenth % 10)
_NEAR_ONE = (1.0005, 1.001, 1.002, 1.005, 1.01, 1.02, 1.05)
_WHOLE = (*range(2, 65), 80, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
ORDERS: Curve = np.array(sorted({*_NEAR_ONE, *_FRACTIONAL, *map(float, _WHOLE)}))
"""The orders that are tried."""
_GREATEST_INTEGRATED_ORDER = 1024.0
_MARGIN = 1e-10
"""Relative margin that covers the rounding of a curve."""


@singledispatch
def curve_of(release: Release) -> Curve:
    """Return the Renyi divergences of one release at :data:`ORDERS`."""
    return np.full_like(ORDERS, math.inf)


@curve_of.register
def _(release: GaussianEvent) -> Curve:
    return ORDERS / (2 * release.sigma**2)


@curve_of.register
def _(release: ConcentratedEvent) -> Curve:
    return ORDERS * release.rho


@curve_of.register
def _(release: PureEvent) -> Curve:
    """Randomised response is the worst of all epsilon-private releases, at every order."""
    return _binary_curve(release.epsilon)


@curve_of.register
def _(release: BoundedRangeEvent) -> Curve:
    return np.minimum(ORDERS * release.eta**2 / 8, _binary_curve(release.eta))


@curve_of.register
def _(release: LaplaceEvent) -> Curve:
    """Mironov 2017, proposition 6: two exponentials, summed without cancellation."""
    epsilon = 1 / release.scale
    double = 2 * ORDERS - 1
    with np.errstate(divide="ignore"):
        first = np.log(ORDERS / double) + (ORDERS - 1) * epsilon
        second = np.log((ORDERS - 1) / double) - ORDERS * epsilon
    exact = np.logaddexp(first, second) / (ORDERS - 1)
    # Near order 1 the quotient loses digits; half the square is a bound there.
    return np.minimum(np.maximum(exact, 0.0) + 1e-15 / (ORDERS - 1), np.minimum(epsilon, ORDERS * epsilon**2 / 2))


@curve_of.register
def _(release: SampledGaussianEvent) -> Curve:
    if release.rate == 1:
        return ORDERS / (2 * release.sigma**2)
    return _sampled_curve(release.sigma, release.rate)


def _binary_curve(epsilon: float) -> Curve:
    """Return the curve of one bit flipped with probability 1 / (1 + e^epsilon)."""
    if epsilon == 0:
        return np.zeros_like(ORDERS)
    normaliser = epsilon + math.log1p(math.exp(-epsilon))
    exact = (np.logaddexp(ORDERS * epsilon, (1 - ORDERS) * epsilon) - normaliser) / (ORDERS - 1)
    rounding = 1e-15 * (1 + epsilon * ORDERS) / (ORDERS - 1)
    return np.minimum(np.maximum(exact, 0.0) + rounding, np.minimum(epsilon, ORDERS * epsilon**2 / 2))


@curve_of.register
def _(release: MixtureOfGaussiansEvent) -> Curve:
    return _mixture_curve(release.sigma, release.sensitivities, release.probabilities)


@lru_cache(maxsize=256)
def _sampled_curve(sigma: float, rate: float) -> Curve:
    """Return the curve of the sampled Gaussian, in closed form at whole orders (Mironov, Talwar and Zhang 2019)."""
    whole = np.floor(ORDERS) == ORDERS
    curve = np.empty_like(ORDERS)
    curve[whole] = [_sampled_at_whole_order(sigma, rate, int(order)) for order in ORDERS[whole]]
    curve[~whole] = divergences(np.array([0.0, 1.0]) / sigma, np.log([1 - rate, rate]), ORDERS[~whole])
    return _bounded_by_chords(curve, 1 / sigma)


@lru_cache(maxsize=64)
def _mixture_curve(sigma: float, sensitivities: tuple[float, ...], probabilities: tuple[float, ...]) -> Curve:
    chance = np.array(probabilities)
    possible = chance > 0
    shifts, logs = np.array(sensitivities)[possible] / sigma, np.log(chance[possible] / chance.sum())
    if shifts.max() == 0:
        return np.zeros_like(ORDERS)
    curve = np.full_like(ORDERS, math.inf)
    few = ORDERS <= _GREATEST_INTEGRATED_ORDER
    curve[few] = divergences(shifts, logs, ORDERS[few])
    return _bounded_by_chords(curve, float(shifts.max()))


def _bounded_by_chords(curve: Curve, greatest_shift: float) -> Curve:
    """Fill in the orders that are missing.

    (order - 1) times the divergence is convex in the order and 0 at order 1, so that the chord between two orders is
    a bound; and no mixture is farther from the noise than its largest shift.
    """
    known = np.isfinite(curve)
    places, values = np.append(1.0, ORDERS[known]), np.append(0.0, curve[known] * (ORDERS[known] - 1))
    chords = np.interp(ORDERS, places, values, right=math.inf) / (ORDERS - 1)
    bounded: Curve = np.minimum(np.minimum(curve, chords), ORDERS * greatest_shift**2 / 2)
    bounded.flags.writeable = False
    return bounded


def _sampled_at_whole_order(sigma: float, rate: float, order: int) -> float:
    """Return ln E[(mixture / noise)^order] / (order - 1), the binomial sum of Mironov, Talwar and Zhang."""
    taken = np.arange(order + 1, dtype=np.float64)
    logs = (
        special.gammaln(order + 1)
        - special.gammaln(taken + 1)
        - special.gammaln(order - taken + 1)
        + taken * math.log(rate)
        + (order - taken) * math.log1p(-rate)
        + taken * (taken - 1) / (2 * sigma**2)
    )
    rounding = 4e-16 * order * math.log(order + 1)
    return (max(float(special.logsumexp(logs)), 0.0) + rounding) / (order - 1)


def total_curve(event: Event) -> Curve:
    """Return the curve of a whole event at :data:`ORDERS`.

    >>> step = LaplaceEvent(scale=3.0)
    >>> bool(np.allclose(total_curve(step * 7), 7 * total_curve(step), rtol=1e-12))
    True
    """
    total = np.zeros_like(ORDERS)
    for release, times in event.parts:
        total = total + times * curve_of(release)
    return total * (1 + _MARGIN)


def epsilon_of_curve(curve: Curve, delta: float) -> float:
    """Return the epsilon at ``delta`` of the best order (Canonne, Kamath and Steinke 2020, proposition 12)."""
    bounds = curve + (-math.log(delta) - np.log(ORDERS)) / (ORDERS - 1) + np.log1p(-1 / ORDERS)
    best = int(np.argmin(bounds))
    rounding = 4e-16 * (float(curve[best]) + (2 - math.log(delta)) / (float(ORDERS[best]) - 1))
    return max(float(bounds[best]) + rounding, 0.0)


class Renyi(Accountant):
    """Adds Renyi curves up and converts once."""

    name = "rdp"
    title = "Renyi differential privacy"
    source = "Mironov 2017; Mironov, Talwar and Zhang 2019; Canonne, Kamath and Steinke 2020, proposition 12"
    handles = (
        GaussianEvent,
        SampledGaussianEvent,
        MixtureOfGaussiansEvent,
        LaplaceEvent,
        PureEvent,
        BoundedRangeEvent,
        ConcentratedEvent,
    )

    def _epsilon(self, event: Event, delta: float) -> float:
        return epsilon_of_curve(total_curve(event), delta)
