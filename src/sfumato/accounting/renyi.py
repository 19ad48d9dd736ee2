"""Renyi differential privacy: a curve over orders that adds up, and turns into (epsilon, delta) at the best order.

Each kind of release has a curve of its own; the curve of an event is the sum of the curves of its releases, each times how
often it happened.  The multiplication is done here and nowhere else: dp-accounting is asked about single releases only,
because its accountants do not apply the count to every kind of event.
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
    PureEvent,
    Release,
    SampledGaussianEvent,
)
from sfumato.accounting.extras import dp_accounting, quiet

Curve = npt.NDArray[np.float64]

_FRACTIONAL = tuple(1 + tenth / 10 for tenth in range(1, 100) if tenth % 10)
_NEAR_ONE = (1.0005, 1.001, 1.002, 1.005, 1.01, 1.02, 1.05)
_WHOLE = (*range(2, 65), 80, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
ORDERS: Curve = np.array(sorted({*_NEAR_ONE, *_FRACTIONAL, *map(float, _WHOLE)}))
"""The orders that are tried."""
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


@lru_cache(maxsize=256)
def _sampled_curve(sigma: float, rate: float) -> Curve:
    """Return the curve of the sampled Gaussian (Mironov, Talwar and Zhang 2019)."""
    curve = np.full_like(ORDERS, math.inf)
    whole = ORDERS == np.floor(ORDERS)
    curve[whole] = [_sampled_at_whole_order(sigma, rate, int(order)) for order in ORDERS[whole]]
    fractional = np.isin(ORDERS, _FRACTIONAL)
    event = dp_accounting("dp_accounting")
    accountant = dp_accounting("dp_accounting.rdp").RdpAccountant(list(ORDERS[fractional]))
    with quiet():
        accountant.compose(event.PoissonSampledDpEvent(rate, event.GaussianDpEvent(sigma)), 1)
    curve[fractional] = accountant.rdp
    curve[~(curve >= 0)] = math.inf
    # The divergence grows with the order: what is missing (or did not converge) is bounded by the next order above.
    curve = np.minimum.accumulate(curve[::-1])[::-1]
    curve = np.minimum(curve, ORDERS / (2 * sigma**2))
    curve.flags.writeable = False
    return curve


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
    handles = (GaussianEvent, SampledGaussianEvent, LaplaceEvent, PureEvent, BoundedRangeEvent, ConcentratedEvent)

    def _epsilon(self, event: Event, delta: float) -> float:
        return epsilon_of_curve(total_curve(event), delta)
