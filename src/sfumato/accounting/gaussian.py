"""The Gaussian mechanism and Gaussian differential privacy, exactly.

A release that is as hard to see through as telling N(0, 1) from N(mu, 1) has the privacy curve

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu)

(Balle and Wang 2018, theorem 8; Dong, Roth and Su 2022, corollary 2.13).  Adding noise of standard deviation s to a
vector of l2 sensitivity D has mu = D/s, and n such releases together have mu times the square root of n.

With z = epsilon/mu - mu/2, the density phi and the Mills ratio M(z) = Phi(-z)/phi(z), the curve is

    delta = phi(z) (M(z) - M(z + mu)),

where nothing overflows and nothing underflows before the logarithm is taken: deltas of 1e-300 and epsilons of 1e6
come out right.  Every function here rounds to the safe side.

>>> round(sigma_for(epsilon=1.0, delta=1e-5), 12)
3.730631634816
>>> round(epsilon_of(mu=1.0, delta=1e-5), 12)
4.377178095681
"""

from __future__ import annotations

import math

from scipy import special

from sfumato.accounting.rounding import UNIT_ROUNDOFF, up
from sfumato.accounting.search import doubled_until, greatest, least
from sfumato.foundation.checks import (
    gather,
    require_count,
    require_epsilon,
    require_non_negative,
    require_positive,
    require_probability,
)

_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
_WHERE_DELTA_IS_ONE = -30.0
"""Below this z, 1 - delta is less than 1e-190; the Mills ratio would overflow soon after."""
_BELOW_DELTA_IS_ONE = 1e-190
_SPECIAL_FUNCTION_ERROR = 64 * UNIT_ROUNDOFF
"""Relative error allowed to one value of the scaled complementary error function."""


def _mills(z: float) -> float:
    return math.sqrt(math.pi / 2) * float(special.erfcx(z / math.sqrt(2)))


def log_delta_of(mu: float, epsilon: float) -> float:
    """Return an upper bound of ln(delta), tight to the last few digits, at ``epsilon`` >= 0.

    >>> import math
    >>> round(math.exp(log_delta_of(1.0, 0.0)), 12)
    0.382924922548
    """
    return log_delta_and_slack(mu, epsilon)[0]


def log_delta_and_slack(mu: float, epsilon: float) -> tuple[float, float]:
    """Return the bound of :func:`log_delta_of`, and how far it may lie above ln(delta) at the most.

    >>> bound, slack = log_delta_and_slack(1.0, 1.0)
    >>> 0 < slack < 1e-12
    True
    """
    if mu == 0:
        return -math.inf, 0.0
    ratio = epsilon / mu
    near, far = ratio - mu / 2, ratio + mu / 2
    if near < _WHERE_DELTA_IS_ONE:
        return 0.0, _BELOW_DELTA_IS_ONE
    at_near, at_far = _mills(near), _mills(far)
    difference = at_near - at_far
    # Rounding of the two arguments moves the exponent by |z| |dz| and each Mills ratio by its own share.
    moved = 4 * UNIT_ROUNDOFF * (abs(ratio) + mu)
    error = moved * (abs(near) + 1) + _SPECIAL_FUNCTION_ERROR
    drowned = (at_near + at_far) * (_SPECIAL_FUNCTION_ERROR + moved)
    looser = 0.0
    if difference > 2 * drowned:
        error += drowned / difference
    else:
        # mu is so small that rounding eats the difference: M falls by at most mu times its steepest slope, 1 - z M(z).
        steepest = 1 + max(-near, 0.0) * at_near
        looser = math.log(steepest / _least_slope(far))
        difference = mu * steepest
    result = math.log(difference) - near * near / 2 - _LOG_ROOT_TWO_PI
    error += 4 * UNIT_ROUNDOFF * abs(result)
    bound = result + error
    # Where drowned is as much as half the difference, ln(1 - x) is as low as -2 ln(2) x.
    return min(bound, 0.0), 2.5 * error + looser


def _least_slope(z: float) -> float:
    """Return a lower bound of 1 - z M(z), how steeply M falls at z (Sampford 1953: M(z) < 4 / (3 z + sqrt(z^2 + 8)))."""
    if z <= 0:
        return 1.0
    root = math.sqrt(z * z + 8)
    return 8 / ((root + z) * (3 * z + root))


def delta_of(mu: float, epsilon: float) -> float:
    """Return the delta of mu-Gaussian privacy at ``epsilon``.

    >>> delta_of(mu=1.0, epsilon=40.0) < 1e-300
    True
    """
    gather(lambda: require_positive(mu=mu), lambda: require_non_negative(epsilon=epsilon))
    return min(up(math.exp(log_delta_of(mu, epsilon))), 1.0)


def epsilon_of(mu: float, delta: float) -> float:
    """Return the epsilon of mu-Gaussian privacy at ``delta``."""
    gather(lambda: require_non_negative(mu=mu), lambda: require_probability(delta=delta))
    wanted = math.log(delta)

    def private(epsilon: float) -> bool:
        return log_delta_of(mu, epsilon) <= wanted

    if private(0.0):
        return 0.0
    high = doubled_until(private, max(mu, mu * mu, 1e-300), "epsilon")
    return least(private, 0.0, high)


def mu_for(epsilon: float, delta: float) -> float:
    """Return the largest mu whose Gaussian privacy implies (epsilon, delta).

    >>> round(mu_for(epsilon=4.37717809568122, delta=1e-5), 9)
    1.0
    """
    gather(lambda: require_epsilon(epsilon=epsilon), lambda: require_probability(delta=delta))
    wanted = math.log(delta)

    def private(mu: float) -> bool:
        return log_delta_of(mu, epsilon) <= wanted

    high = doubled_until(lambda mu: not private(mu), 1e-12, "mu")
    return greatest(private, 0.0, high)


def sigma_for(epsilon: float, delta: float, sensitivity: float = 1.0, releases: int = 1) -> float:
    """Return the least standard deviation that makes ``releases`` Gaussian releases (epsilon, delta) private together.

    >>> round(sigma_for(epsilon=4.0, delta=1e-5), 12)
    1.08116184952
    """
    gather(lambda: require_positive(sensitivity=sensitivity), lambda: require_count(releases=releases))
    return up(sensitivity * math.sqrt(releases) / mu_for(epsilon, delta))


def mu_of_pure(epsilon: float) -> float:
    """Return the mu that every epsilon-private release satisfies: -2 Phi^-1(1 / (1 + e^epsilon)).

    The trade-off curve of (epsilon, 0) is the chord above the convex Gaussian curve through the same fixed point
    (Dong, Roth and Su 2022, section 2).

    >>> 1.9 < mu_of_pure(1.7) < 2.2
    True
    """
    require_non_negative(epsilon=epsilon)
    if epsilon < 1:
        half = math.sqrt(2) * float(special.erfinv(math.tanh(epsilon / 2)))
    else:
        half = -float(special.ndtri_exp(-epsilon - math.log1p(math.exp(-epsilon))))
    return up(2 * half, 1e-13)


def composed_mu(mus_and_times: list[tuple[float, int]]) -> float:
    """Return the mu of all releases together: the root of the sum of their squares.

    >>> round(composed_mu([(3.0, 1), (2.0, 4)]), 9)
    5.0
    """
    return up(math.sqrt(math.fsum(mu * mu * times for mu, times in mus_and_times)))
