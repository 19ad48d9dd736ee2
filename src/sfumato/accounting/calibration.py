"""Calibration: the noise for a guarantee, and the number of releases a budget allows.

(The epsilon of given noise is ``accountant(name).epsilon(event, delta)``.)  Whatever is returned was checked with the
accountant itself, so that it is safe even where the search stopped early.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from sfumato.accounting.accountants import accountant as by_name
from sfumato.accounting.base import Accountant
from sfumato.accounting.events import Event, GaussianEvent, SampledGaussianEvent
from sfumato.accounting.gaussian import sigma_for
from sfumato.accounting.search import most
from sfumato.foundation.checks import gather, require_count, require_epsilon, require_positive, require_probability
from sfumato.foundation.errors import ParameterError

_SCOUT = "rdp"
"""A quick sound accountant whose answer brackets that of a slow one."""
_GREATEST_NOISE = 1e12
_GREATEST_COUNT = 10**9


def noise_for(
    make_event: Callable[[float], Event],
    *,
    epsilon: float,
    delta: float,
    accountant: str = "best",
    tolerance: float = 1e-4,
) -> float:
    """Return a noise level at which an event is (epsilon, delta)-private, within ``tolerance`` of the least one.

    ``make_event`` maps a noise level to the event of the whole run; more noise must not cost more.

    >>> run = lambda sigma: SampledGaussianEvent(sigma, rate=0.01) * 1000
    >>> sigma = noise_for(run, epsilon=2.0, delta=1e-5, accountant="rdp")
    >>> by_name("rdp").epsilon(run(sigma), 1e-5) <= 2.0 < by_name("rdp").epsilon(run(sigma * 0.999), 1e-5)
    True
    """
    gather(
        lambda: require_epsilon(epsilon=epsilon),
        lambda: require_probability(delta=delta),
        lambda: require_positive(tolerance=tolerance),
    )
    chosen = by_name(accountant)
    start = 1.0
    scout = by_name(_SCOUT)
    if accountant != _SCOUT and scout.supports(make_event(start)):
        start = _least_noise(scout, make_event, epsilon, delta, start, 1e-2)
    return _least_noise(chosen, make_event, epsilon, delta, start, tolerance)


def gaussian_noise_for(
    *, epsilon: float, delta: float, rate: float = 1.0, steps: int = 1, accountant: str = "best"
) -> float:
    """Return the noise multiplier for ``steps`` Gaussian releases of which each record joins a share ``rate``.

    >>> round(gaussian_noise_for(epsilon=1.0, delta=1e-5), 9)
    3.730631635
    """
    require_count(steps=steps)
    if rate == 1 and accountant in ("best", "gdp", "pld"):
        return sigma_for(epsilon, delta, releases=steps)
    return noise_for(lambda sigma: _gaussian(sigma, rate) * steps, epsilon=epsilon, delta=delta, accountant=accountant)


def releases_within(event: Event, *, epsilon: float, delta: float, accountant: str = "best") -> int:
    """Return how often an event may be repeated within (epsilon, delta); 0 where even once is too much.

    >>> releases_within(GaussianEvent(sigma=10.0), epsilon=1.0, delta=1e-5, accountant="gdp")
    7
    """
    gather(lambda: require_epsilon(epsilon=epsilon), lambda: require_probability(delta=delta))
    chosen, scout = by_name(accountant), by_name(_SCOUT)

    def within(count: int) -> bool:
        return chosen.epsilon(event * count, delta) <= epsilon

    start = 1
    if accountant != _SCOUT and scout.supports(event):
        start = max(most(lambda count: scout.epsilon(event * count, delta) <= epsilon, _GREATEST_COUNT), 1)
    return most(within, _GREATEST_COUNT, start=start)


def _gaussian(sigma: float, rate: float) -> Event:
    return GaussianEvent(sigma) if rate == 1 else SampledGaussianEvent(sigma, rate)


def _least_noise(
    chosen: Accountant,
    make_event: Callable[[float], Event],
    epsilon: float,
    delta: float,
    start: float,
    tolerance: float,
) -> float:
    """Bracket the least noise from ``start`` and close in by false position on the logarithms."""

    def excess(log_noise: float) -> float:
        reached = chosen.epsilon(make_event(math.exp(log_noise)), delta)
        return math.log(reached / epsilon) if 0 < reached < math.inf else math.copysign(math.inf, reached - epsilon)

    low = high = math.log(start)
    at_low = at_high = excess(high)
    step = 0.25
    while at_high > 0:
        low, at_low = high, at_high
        high, step = high + step, 2 * step
        if high > math.log(_GREATEST_NOISE):
            raise ParameterError(f"no noise reaches epsilon {epsilon:g} at delta {delta:g}; ask for a larger one")
        at_high = excess(high)
    while at_low <= 0:
        high, at_high = low, at_low
        low, step = low - step, 2 * step
        if low < -math.log(_GREATEST_NOISE):
            return math.exp(high)
        at_low = excess(low)
    return math.exp(_closed_in(excess, low, at_low, high, at_high, tolerance))


def _closed_in(
    excess: Callable[[float], float], low: float, at_low: float, high: float, at_high: float, tolerance: float
) -> float:
    """Return a point at which ``excess`` is not positive, within ``tolerance`` of one at which it is."""
    kept = 0
    while high - low > tolerance:
        if math.isinf(at_low) or math.isinf(at_high) or at_low == at_high:
            middle = (low + high) / 2
        else:
            middle = low + (high - low) * at_low / (at_low - at_high)
            # Never closer to an end than a part of the tolerance, so that both ends move.
            middle = min(max(middle, low + tolerance / 3), high - tolerance / 3)
        value = excess(middle)
        # False position tends to keep one end for ever; halving that end's weight makes it move (the Illinois rule).
        if value > 0:
            low, at_low = middle, value
            at_high = at_high / 2 if kept > 0 else at_high
            kept = 1
        else:
            high, at_high = middle, value
            at_low = at_low / 2 if kept < 0 else at_low
            kept = -1
    return high
