"""Composition that knows nothing of a release but its epsilon and delta: basic, advanced and optimal."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy import special

from sfumato.accounting.base import Accountant
from sfumato.accounting.events import (
    ApproximateEvent,
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
from sfumato.accounting.rounding import up
from sfumato.accounting.single import epsilon_once, pure_epsilon
from sfumato.foundation.checks import gather, require_count, require_non_negative, require_probability

_ALL_KINDS: tuple[type[Release], ...] = (
    GaussianEvent,
    SampledGaussianEvent,
    MixtureOfGaussiansEvent,
    LaplaceEvent,
    PureEvent,
    BoundedRangeEvent,
    ApproximateEvent,
    ConcentratedEvent,
)
_SHARES = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)
"""Shares of delta that are tried for the releases themselves; the rest is for the composition."""
_SMALLEST_DELTA = 1e-305
"""Below this a delta loses digits; a bound for it would no longer be one."""
_REACH = 20.0
_LOG_BEYOND_REACH = -2 * _REACH**2
"""Logarithm of the chance that so many coins fall farther from what is expected than reach x root of their number, to
one side (Hoeffding 1963); heads beyond it are not counted one by one."""
_Counted = list[tuple[float, int]]


def _given_delta(release: Release) -> float:
    return release.delta if isinstance(release, ApproximateEvent) else 0.0


def _own_epsilon(release: Release) -> float:
    return release.epsilon if isinstance(release, ApproximateEvent) else pure_epsilon(release)


def _needs_delta(release: Release) -> bool:
    return not isinstance(release, ApproximateEvent) and math.isinf(pure_epsilon(release))


def _epsilons(event: Event, delta: float) -> _Counted | None:
    """Return the epsilon of each release when all of them together may use ``delta``; None where that is too little."""
    given = up(math.fsum(_given_delta(release) * times for release, times in event.parts))
    needy = sum(times for release, times in event.parts if _needs_delta(release))
    each = (delta - given) / max(needy, 1) * (1 - 1e-15)
    if given > delta or (needy and each < _SMALLEST_DELTA):
        return None
    return [
        (epsilon_once(release, each) if _needs_delta(release) else _own_epsilon(release), times)
        for release, times in event.parts
    ]


def _splits(event: Event, delta: float) -> Iterator[tuple[_Counted, float]]:
    """Ways to divide delta: the epsilons of the releases, and what is left for the composition."""
    given = up(math.fsum(_given_delta(release) * times for release, times in event.parts))
    if not any(_needs_delta(release) for release, _ in event.parts):
        epsilons = _epsilons(event, delta)
        if epsilons is not None and delta > given:
            yield epsilons, (delta - given) * (1 - 1e-15)
        return
    for share in _SHARES:
        used = given + share * (delta - given)
        epsilons = _epsilons(event, used)
        if epsilons is not None and delta > used:
            yield epsilons, (delta - used) * (1 - 1e-15)


class Basic(Accountant):
    """Epsilons and deltas add up."""

    name = "basic"
    title = "basic composition"
    source = "Dwork, McSherry, Nissim and Smith 2006; Dwork and Roth 2014, theorem 3.16"
    handles = _ALL_KINDS

    def _epsilon(self, event: Event, delta: float) -> float:
        epsilons = _epsilons(event, delta)
        return math.inf if epsilons is None else _sum(epsilons)


class Advanced(Accountant):
    """The first bound that grows with the root of the number of releases."""

    name = "advanced"
    title = "advanced composition"
    source = "Dwork, Rothblum and Vadhan 2010; Dwork and Roth 2014, theorem 3.20"
    handles = _ALL_KINDS

    def _epsilon(self, event: Event, delta: float) -> float:
        bounds = [advanced_epsilon(epsilons, slack) for epsilons, slack in _splits(event, delta)]
        return min(bounds, default=math.inf)


class Optimal(Accountant):
    """The best that can be said from the epsilons and deltas alone."""

    name = "optimal"
    title = "optimal advanced composition"
    source = "Kairouz, Oh and Viswanath 2015, theorems 3.3 and 3.5"
    handles = _ALL_KINDS

    def _epsilon(self, event: Event, delta: float) -> float:
        bounds = [_optimal(epsilons, slack) for epsilons, slack in _splits(event, delta)]
        basic = _epsilons(event, delta)
        return min([*bounds, _sum(basic) if basic is not None else math.inf])


def _sum(epsilons: _Counted) -> float:
    return up(math.fsum(epsilon * times for epsilon, times in epsilons))


def _optimal(epsilons: _Counted, slack: float) -> float:
    positive = [(epsilon, times) for epsilon, times in epsilons if epsilon > 0]
    if not positive:
        return 0.0
    if len(positive) == 1:
        return optimal_epsilon(*positive[0], slack)
    return optimal_epsilon_of_unlike(positive, slack)


def advanced_epsilon(epsilons: _Counted, slack: float) -> float:
    """Return epsilon of releases of these epsilons for an additional delta of ``slack``.

    >>> round(advanced_epsilon([(0.1, 100)], slack=1e-6), 4)
    6.3082
    """
    try:
        drift = math.fsum(epsilon * math.expm1(epsilon) * times for epsilon, times in epsilons)
    except OverflowError:
        return math.inf
    squares = math.fsum(epsilon * epsilon * times for epsilon, times in epsilons)
    return up(math.sqrt(-2 * math.log(slack) * squares) + drift, 1e-14)


def optimal_epsilon(epsilon: float, times: int, slack: float) -> float:
    """Return the exact epsilon of ``times`` releases, each epsilon-private, for an additional delta of ``slack``.

    The worst case is randomised response: the loss of k releases is (2 l - k) epsilon with l binomial, and the bound
    is where its privacy curve crosses the slack.

    >>> round(optimal_epsilon(0.1, 100, slack=1e-6), 4)
    4.7746
    """
    gather(
        lambda: require_non_negative(epsilon=epsilon),
        lambda: require_count(times=times),
        lambda: require_probability(slack=slack),
    )
    if epsilon == 0:
        return 0.0
    expected, reach = times / (1 + math.exp(-epsilon)), _REACH * math.sqrt(times)
    fewest, most = max(math.floor(expected - reach), 0), min(math.ceil(expected + reach), times)
    heads = np.arange(most, fewest - 1, -1, dtype=np.float64)
    logs = special.gammaln(times + 1) - special.gammaln(heads + 1) - special.gammaln(times - heads + 1)
    tail = -times * math.log1p(math.exp(-epsilon))
    under_one, under_other = logs + tail - (times - heads) * epsilon, logs + tail - heads * epsilon
    # The logarithm of a large factorial carries an absolute error that a probability inherits as a relative one.
    error = 1e-15 * (times * math.log(times + 2) + times * epsilon + 100)
    ones = np.logaddexp.accumulate(under_one) + error
    if most < times:
        ones = np.logaddexp(ones, _LOG_BEYOND_REACH)
    others = np.logaddexp.accumulate(under_other) - error
    losses = (2 * heads - times) * epsilon
    log_slack = math.log(slack)
    # Below the i-th loss the curve is ones[i] - e^epsilon others[i]; the crossing lies in the first stretch that
    # reaches it.
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = ones + np.log1p(-np.exp(np.minimum(log_slack - ones, 0.0))) - others
    crossing[ones <= log_slack] = -math.inf
    upper = np.minimum(losses, crossing)
    found = float(np.max(np.where(ones > log_slack, upper, -math.inf), initial=-math.inf))
    if fewest > 0:
        found = max(found, float(losses[-1]))  # a threshold that was left out speaks of no epsilon beyond its own loss
    return up(max(found, 0.0), 1e-14)


def optimal_epsilon_of_unlike(epsilons: _Counted, slack: float) -> float:
    """Return a bound for releases of unlike epsilons (computing the exact one is #P-complete: Murtagh and Vadhan 2016).

    >>> like = optimal_epsilon_of_unlike([(0.1, 50), (0.1, 50)], slack=1e-6)
    >>> optimal_epsilon(0.1, 100, slack=1e-6) < like < 6.31
    True
    """
    total = math.fsum(epsilon * times for epsilon, times in epsilons)
    squares = math.fsum(epsilon * epsilon * times for epsilon, times in epsilons)
    drift = math.fsum(epsilon * math.tanh(epsilon / 2) * times for epsilon, times in epsilons)
    small = math.sqrt(2 * squares * math.log(math.e + math.sqrt(squares) / slack))
    large = math.sqrt(-2 * squares * math.log(slack))
    return up(min(total, drift + small, drift + large), 1e-14)
