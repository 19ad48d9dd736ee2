"""Renyi divergences between N(0, 1) and a mixture of shifted normals, by the trapezoidal rule.

The integrands are entire apart from the zeros of the mixture, and on a strip of half-width pi / (largest shift) there
are none: all terms of the mixture lie in one half-plane.  On such a strip the trapezoidal rule with step h is wrong
by a factor of about exp(-2 pi y / h) only, y being the half-width that is used (Trefethen and Weideman 2014, theorem
5.1).  With y = 1 / (largest shift x root of the order), on which no power of the mixture changes its size by much, h
= 0.15 y gives 1e-18.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

_Floats = npt.NDArray[np.float64]
_STEP = 0.1
_GREATEST_GRID = 1_000_000
_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)


def divergences(shifts: _Floats, log_probabilities: _Floats, orders: _Floats) -> _Floats:
    """Return the greater of the two Renyi divergences at each order; inf where the grid would be too large.

    Orders of the same octave share a grid.

    >>> divergences(np.array([1.0]), np.array([0.0]), np.array([1.5, 3.5])).round(9).tolist()
    [0.75, 1.75]
    """
    result = np.full_like(orders, math.inf)
    octaves = np.floor(np.log2(orders))
    for octave in np.unique(octaves):
        members = np.flatnonzero(octaves == octave)
        grid = _grid(shifts, log_probabilities, float(orders[members].max()))
        if grid is not None:
            result[members] = [_divergence(*grid, float(order)) for order in orders[members]]
    return result


def _grid(shifts: _Floats, log_probabilities: _Floats, order: float) -> tuple[_Floats, _Floats] | None:
    """Return the logarithm of the weighted normal density, and of the density ratio, on a grid that suits the order."""
    greatest = float(shifts.max())
    step = min(_STEP, 0.15 / (greatest * math.sqrt(order)))
    chance = np.exp(log_probabilities)
    mean, square = float(chance @ shifts), float(chance @ shifts**2)
    below = order - 1
    # Beyond these points the tails of both integrands are below 1e-14 of a number that is at least 1: on the right the
    # mixture is at most its largest shift alone, on the left (and for the negative power) at least its mean in the
    # exponent.
    right = order * greatest + math.sqrt(64 + order * below * greatest**2) + 1
    left = below * mean + math.sqrt(64 + (below * mean) ** 2 + below * square) + 1
    if (left + right) / step > _GREATEST_GRID:
        return None
    places = np.arange(-math.ceil(left / step), math.ceil(right / step) + 1) * step
    log_ratio = np.full_like(places, -math.inf)
    for shift, log_chance in zip(shifts.tolist(), log_probabilities.tolist(), strict=True):
        np.logaddexp(log_ratio, log_chance + shift * places - shift**2 / 2, out=log_ratio)
    return math.log(step) - places**2 / 2 - _LOG_ROOT_TWO_PI, log_ratio


def _divergence(log_normal: _Floats, log_ratio: _Floats, order: float) -> float:
    forward = _log_sum(log_normal + order * log_ratio)
    backward = _log_sum(log_normal - (order - 1) * log_ratio)
    return (max(forward, backward, 0.0) + 1e-14 * (1 + order)) / (order - 1)


def _log_sum(logs: _Floats) -> float:
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum()))
