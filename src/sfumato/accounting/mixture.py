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

_Floats = npt.NDArray[np.float64]
_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
_FAR = 30.0
"""Beyond this many standard deviations the mass is below 1e-190: a delta there is 1 for all that matters."""
_ERROR = 128 * UNIT_ROUNDOFF
_AT_ONCE = 65
_ROWS_AT_ONCE = 50_000


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

    @property
    def greatest_shift(self) -> float:
        """The largest shift."""
        return float(self._shifts.max())

    def log_ratio(self, x: float) -> float:
        """Return L(x)."""
        return float(special.logsumexp(self._logs + self._shifts * x - self._shifts**2 / 2))

    def log_delta(self, epsilon: float) -> float:
        """Return an upper bound of ln(delta) at ``epsilon`` >= 0, for both directions of the change."""
        return float(self._log_deltas(np.array([epsilon], dtype=np.float64))[0])

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon at ``delta``, up to a relative 1e-13."""
        wanted = math.log(delta)
        if self.greatest_shift == 0 or self.log_delta(0.0) <= wanted:
            return 0.0
        # The curve is asked for many epsilons at once: that is quicker than one at a time.
        grid = np.concatenate([[0.0], 2.0 ** np.arange(-40, 80)])
        while True:
            private = self._log_deltas(grid) <= wanted
            first = int(np.argmax(private))
            low, high = float(grid[first - 1]), float(grid[first])
            if high - low <= 1e-13 * high:
                return high
            grid = np.linspace(low, high, _AT_ONCE)

    def deltas(self, epsilons: _Floats, *, shifted: bool) -> _Floats:
        """Return delta for many epsilons, also negative ones, in one direction of the change.

        Below 0, a curve follows from that of the opposite direction.
        """
        above = np.abs(epsilons)
        straight, opposite = np.empty_like(above), np.empty_like(above)
        for start in range(0, len(above), _ROWS_AT_ONCE):
            some = slice(start, start + _ROWS_AT_ONCE)
            one, other = self._log_deltas_shifted(above[some]), self._log_deltas_unshifted(above[some])
            straight[some], opposite[some] = (one, other) if shifted else (other, one)
        below = -np.expm1(-above) + np.exp(np.minimum(opposite, 0.0) - above)
        return np.clip(np.where(epsilons >= 0, np.exp(np.minimum(straight, 0.0)), below), 0.0, 1.0)

    def _log_deltas(self, epsilons: _Floats) -> _Floats:
        if self.greatest_shift == 0:
            return np.full_like(epsilons, -math.inf)
        both = np.maximum(self._log_deltas_shifted(epsilons), self._log_deltas_unshifted(epsilons))
        return np.minimum(both, 0.0)

    def _boundaries(self, levels: _Floats) -> _Floats:
        """Return x with L(x) = level for each level.

        L is convex and grows, so that Newton's steps from the right never pass the root; where the greatest shift alone
        reaches the level is such a start.
        """
        greatest = int(np.argmax(self._shifts))
        shift = float(self._shifts[greatest])
        x: _Floats = (levels - float(self._logs[greatest])) / shift + shift / 2
        for _ in range(200):
            logs = self._logs + self._shifts * x[:, None] - self._shifts**2 / 2
            top = logs.max(axis=1)
            weights = np.exp(logs - top[:, None])
            total = weights.sum(axis=1)
            steps = (top + np.log(total) - levels) * total / (weights @ self._shifts)
            if (steps <= 2 * UNIT_ROUNDOFF * np.abs(x)).all():
                break
            x = x - np.maximum(steps, 0.0)
        return x

    def _log_deltas_shifted(self, epsilons: _Floats) -> _Floats:
        boundary = self._boundaries(epsilons)[:, None]
        return _log_sums(self._logs, boundary - self._shifts, boundary + 0 * self._shifts)

    def _log_deltas_unshifted(self, epsilons: _Floats) -> _Floats:
        result = np.full_like(epsilons, -math.inf)
        never = self._shifts == 0
        possible = np.ones(len(epsilons), dtype=bool)
        if never.any():
            possible = -epsilons > float(special.logsumexp(self._logs[never]))
        if possible.any():
            start = -self._boundaries(-epsilons[possible])[:, None]
            sums = _log_sums(self._logs, start + 0 * self._shifts, start + self._shifts, at_far=True)
            result[possible] = epsilons[possible] + sums
        return result


def _log_sums(log_weights: _Floats, near: _Floats, far: _Floats, at_far: bool = False) -> _Floats:
    """Return, for each row, ln of the sum of p phi(z) (M(near) - M(far)) with z = near, or far; rounded up."""
    place = far if at_far else near
    at_near, at_far_end = _mills(np.maximum(near, -_FAR)), _mills(np.maximum(far, -_FAR))
    difference = np.maximum(at_near - at_far_end, 0.0) + _ERROR * (at_near + at_far_end)
    difference[near == far] = 0.0
    with np.errstate(divide="ignore"):
        terms = log_weights - place * place / 2 - _LOG_ROOT_TWO_PI + np.log(difference)
    # The boundary is known to a few roundings; |z|^2 of them reach the exponent.
    sums: _Floats = special.logsumexp(terms, axis=1) + _ERROR * (1 + np.max(place * place, axis=1))
    sums[near.min(axis=1) < -_FAR] = 0.0
    return sums


def _mills(z: _Floats) -> _Floats:
    values: _Floats = math.sqrt(math.pi / 2) * special.erfcx(z / math.sqrt(2))
    return values


@lru_cache(maxsize=4096)
def mixture_epsilon(
    sigma: float, sensitivities: tuple[float, ...], probabilities: tuple[float, ...], delta: float
) -> float:
    """Return the epsilon of a single release at ``delta``."""
    return Mixture.of(sigma, sensitivities, probabilities).epsilon(delta)
