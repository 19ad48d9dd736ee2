"""The exact privacy curve of one sampled or mixed Gaussian release.

Let the noise be N(0, 1), and let the sum shift by c_i >= 0 with probability p_i.  The log-ratio of the two densities,

    L(x) = ln sum_i p_i exp(c_i x - c_i^2 / 2),

grows with x, so that the worst set of outputs is a half-line: x > t with L(t) = epsilon when the shift is what
happened, and x < s with L(s) = -epsilon when it is not.  On the boundary the densities agree up to e^epsilon, which
lets both deltas be written as sums of positive terms in the Mills ratio M: nothing cancels, however small delta is.

    delta(shifted) = sum_i p_i phi(t - c_i) (M(t - c_i) - M(t))
    delta(not)     = e^epsilon sum_i p_i phi(y + c_i) (M(y) - M(y + c_i)),  y = -s
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import special

from sfumato.accounting.rounding import UNIT_ROUNDOFF
from sfumato.accounting.search import doubled_until, least

_Floats = npt.NDArray[np.float64]
_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
_FAR = 30.0
"""Beyond this many standard deviations the mass is below 1e-190: a delta there is 1 for all that matters."""
_ERROR = 128 * UNIT_ROUNDOFF


class Mixture:
    """Shifts in units of the noise, and their probabilities.

    >>> sampled = Mixture.of(sigma=1.0, sensitivities=[0.0, 1.0], probabilities=[0.99, 0.01])
    >>> 0 < math.exp(sampled.log_delta(1.0)) < 0.01
    True
    """

    def __init__(self, shifts: _Floats, log_probabilities: _Floats) -> None:
        self._shifts = shifts
        self._logs = log_probabilities

    @classmethod
    def of(cls, sigma: float, sensitivities: Sequence[float], probabilities: Sequence[float]) -> Mixture:
        """Return the mixture for noise of standard deviation ``sigma``; shifts without a chance are left out."""
        chance = np.asarray(probabilities, dtype=np.float64)
        possible = chance > 0
        shifts = np.asarray(sensitivities, dtype=np.float64)[possible] / sigma
        return cls(shifts, np.log(chance[possible] / chance[possible].sum()))

    def log_ratio(self, x: float) -> float:
        """Return L(x)."""
        return float(special.logsumexp(self._logs + self._shifts * x - self._shifts**2 / 2))

    def log_delta(self, epsilon: float) -> float:
        """Return an upper bound of ln(delta) at ``epsilon`` >= 0, for both directions of the change."""
        if float(self._shifts.max()) == 0:
            return -math.inf
        return min(max(self._log_delta_shifted(epsilon), self._log_delta_unshifted(epsilon)), 0.0)

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon at ``delta``."""
        wanted = math.log(delta)

        def private(epsilon: float) -> bool:
            return self.log_delta(epsilon) <= wanted

        if private(0.0):
            return 0.0
        high = doubled_until(private, 1e-6, "epsilon")
        return least(private, 0.0, high, tolerance=1e-13)

    def _boundary(self, level: float) -> float:
        """Return x with L(x) = level.

        L is convex and grows, so that Newton's steps from the right never pass the root; where the greatest shift
        alone reaches the level is such a start.
        """
        greatest = int(np.argmax(self._shifts))
        shift = float(self._shifts[greatest])
        x = (level - float(self._logs[greatest])) / shift + shift / 2
        for _ in range(200):
            logs = self._logs + self._shifts * x - self._shifts**2 / 2
            top = float(logs.max())
            weights = np.exp(logs - top)
            total = float(weights.sum())
            excess = top + math.log(total) - level
            step = excess * total / float(weights @ self._shifts)
            if step <= 2 * UNIT_ROUNDOFF * abs(x):
                break
            x -= step
        return x

    def _log_delta_shifted(self, epsilon: float) -> float:
        boundary = self._boundary(epsilon)
        return _log_sum(self._logs, boundary - self._shifts, np.full_like(self._shifts, boundary))

    def _log_delta_unshifted(self, epsilon: float) -> float:
        never = self._shifts == 0
        if never.any() and -epsilon <= float(special.logsumexp(self._logs[never])):
            return -math.inf
        start = -self._boundary(-epsilon)
        return epsilon + _log_sum(self._logs, np.full_like(self._shifts, start), start + self._shifts, at_far=True)


def _log_sum(log_weights: _Floats, near: _Floats, far: _Floats, at_far: bool = False) -> float:
    """Return ln of the sum of p phi(z) (M(near) - M(far)) with z = near, or far; rounded up."""
    if float(near.min()) < -_FAR:
        return 0.0
    place = far if at_far else near
    at_near, at_far_end = _mills(near), _mills(far)
    difference = np.maximum(at_near - at_far_end, 0.0) + _ERROR * (at_near + at_far_end)
    difference[near == far] = 0.0
    with np.errstate(divide="ignore"):
        terms = log_weights - place * place / 2 - _LOG_ROOT_TWO_PI + np.log(difference)
    # The boundary is known to a few roundings; |z|^2 of them reach the exponent.
    return float(special.logsumexp(terms)) + _ERROR * (1 + float(np.max(place * place)))


def _mills(z: _Floats) -> _Floats:
    values: _Floats = math.sqrt(math.pi / 2) * special.erfcx(z / math.sqrt(2))
    return values


@lru_cache(maxsize=4096)
def mixture_epsilon(
    sigma: float, sensitivities: tuple[float, ...], probabilities: tuple[float, ...], delta: float
) -> float:
    """Return the epsilon of a single release at ``delta``."""
    return Mixture.of(sigma, sensitivities, probabilities).epsilon(delta)
