"""Output weights for rows that need not sum to one by themselves: what is missing is spread evenly over the outputs.

With weights ``a >= 0`` and ``s(x) = 1 - sum_y a(y) exp(-rate d(x, y))`` the row of x is

    P(y|x) = a(y) exp(-rate d(x, y)) + s(x) / n.

Both terms keep the promise ``rate d`` by themselves if s is positive and ln s changes by at most ``rate d``, and so does their
sum (see :mod:`sfumato.mechanism.kernel`).  Where K w = 1 has a solution without negative weights, it is this one with s = 0.
Elsewhere, ``K a <= 1`` is what has to be solved, with a great sum of ``a``: that sum is what the words keep.

How good an answer is, is known: in every mechanism with the promise, ``P(y|x) >= P(y|y) exp(-rate d(x, y))``, so its
diagonal solves ``K a <= 1`` too, and by duality its sum is at most that of any ``z >= 0`` with ``K z >= 1``.  See
:func:`ceiling`; measured by ``tests/unit/mechanism/test_filled.py``.
"""

from __future__ import annotations

import math

import numpy as np

from sfumato.foundation.errors import CertificationError, ParameterError
from sfumato.mechanism.kernel import Ground, Tick, loss_allowance, steepest_fill
from sfumato.space.metric import FloatArray, IndexArray

_PACKING_STEPS = 16
_STEPS_WITHOUT_GAIN = 3
_SHARPNESS = 6
_LEAST_PRICE = 1e-3
_MOST_CUTS = 12
_BACK_OFF = 0.97
_SLACK = 1e-9
_LEAST_LOAD = 1e-200
_ROUNDING = 1e-13
"""About what a certificate adds to a difference of logarithms."""


def packed_weights(
    ground: Ground, rate: float, start: FloatArray, threads: int | None, tick: Tick | None = None
) -> FloatArray:
    """Return weights with K a <= 1 at the output points whose sum is great, by multiplicative steps from others.

    Every point has a price, which rises where K a is great; weights shrink where the points nearby are dear.  The best
    weights on the way are returned; nothing is assumed about where the steps lead.
    """

    def times(vector: FloatArray) -> FloatArray:
        return ground.times(vector, rate, ground.output_points, threads, tick)

    weights, prices = start, np.maximum(start, _LEAST_PRICE * start.mean())
    best, most, since = start, 0.0, 0
    for _ in range(_PACKING_STEPS):
        loads = times(weights)
        loads_at_most_one = loads / loads.max()
        weights = weights / loads.max()
        if weights.sum() > most:
            best, most, since = weights, float(weights.sum()), 0
        else:
            since += 1
            if since == _STEPS_WITHOUT_GAIN:
                break
        prices = prices * loads_at_most_one**_SHARPNESS
        prices /= prices.max()
        weights = weights / times(prices)
    return best


def greatest_share(
    ground: Ground, loads: FloatArray, rate: float, threads: int | None, tick: Tick | None = None
) -> float:
    """Return the greatest share c found for which the logarithm of 1 - c loads changes by at most rate d.

    For one pair of points the change grows with c.  So c is the greatest one that is right for the worst pairs so far,
    all pairs are looked at, and the worst of them are added, until there is nothing to add.
    """
    share = (1 - _SLACK) / max(float(loads.max()), _LEAST_LOAD)
    pairs = np.empty((0, 2), dtype=np.intp)
    if len(loads) == 1:
        return share
    for cut in range(_MOST_CUTS):
        worst = steepest_fill(ground, 1 - share * loads, threads, tick)
        if worst.slope <= rate:
            return share
        pairs = np.unique(np.vstack([pairs, worst.pairs]), axis=0)
        share = min(share, _share_of_pairs(ground, loads, rate * (1 - _SLACK), pairs, share))
        if cut >= _MOST_CUTS // 2:
            share *= _BACK_OFF
    raise CertificationError(
        "no share of the weights was found that can be filled up within the promise; use tuning='calibrated' or 'best'"
    )


def _share_of_pairs(ground: Ground, loads: FloatArray, rate: float, pairs: IndexArray, most: float) -> float:
    """Return the greatest share that is right for some pairs of input points, by bisection."""
    first, second = pairs.T
    points, place = np.unique(pairs, return_inverse=True)
    here, there = place.reshape(pairs.shape).T
    chosen = ground.input_points[points]
    distances = ground.geometry.block(chosen, chosen)[here, there]
    charged = np.maximum(rate * np.minimum(distances, ground.gamma) - _ROUNDING, 0.0)
    low, high = 0.0, most
    for _ in range(60):
        middle = (low + high) / 2
        change = np.abs(np.log1p(-middle * loads[first]) - np.log1p(-middle * loads[second]))
        low, high = (middle, high) if (change <= charged).all() else (low, middle)
    return low


def ceiling(ground: Ground, epsilon: float, *, steps: int = 100, threads: int | None = None) -> float:
    """Return a mean P(unchanged) that no mechanism with the promise ``epsilon min(d, gamma)`` exceeds, whatever it is.

    Needs inputs and outputs that are all the words of a space, on points of their own.

    >>> import numpy as np
    >>> from sfumato.space import Space
    >>> line = Space.from_arrays(list("ab"), [[0.0], [1.0]])
    >>> both = np.arange(2)
    >>> 0 <= ceiling(Ground(line, both, both, np.inf), 1.0) - np.e / (1 + np.e) < 1e-6
    True
    """
    points = ground.output_points
    if not (ground.symmetric and ground.every_output_is_a_point):
        raise ParameterError(
            "the ceiling is known for whole spaces of unlike vectors only; give inputs and outputs all words"
        )
    weights = np.ones(len(points))
    lowest = np.inf
    for _ in range(steps):
        loads = ground.times(weights, epsilon, points, threads, None)
        lowest = min(lowest, float(weights.sum() / loads.min()))
        weights = weights / loads
    # Distances, the kernel and the two sums are computed in floating point; the rounding to integers is in it as well.
    return min(lowest / len(points) * math.exp(loss_allowance(ground, epsilon)), 1.0)
