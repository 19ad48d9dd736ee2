"""Where a monotone yes-or-no question changes its answer, found by halving."""

from __future__ import annotations

import math
from collections.abc import Callable

from sfumato.foundation.errors import ParameterError


def least(holds: Callable[[float], bool], low: float, high: float, tolerance: float = 0.0) -> float:
    """Return a float at which ``holds`` is true and just below which it is false.

    ``holds`` must be false at ``low`` and true at ``high`` (neither is asked); the answer is one at which it *was*
    true, so an answer is safe whenever ``holds`` is.  With ``tolerance`` 0 the search ends at neighbouring floats.

    >>> least(lambda x: x * x >= 2, 0.0, 2.0, tolerance=1e-6) >= 2**0.5
    True
    """
    while high - low > tolerance * abs(high):
        middle = low + (high - low) / 2
        if middle in (low, high):
            break
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def greatest(holds: Callable[[float], bool], low: float, high: float, tolerance: float = 0.0) -> float:
    """Return a float at which ``holds`` was true and just above which it was false; ``low`` where nothing else holds.

    >>> greatest(lambda x: x * x <= 2, 0.0, 2.0, tolerance=1e-6) <= 2**0.5
    True
    """
    while high - low > tolerance * abs(high):
        middle = low + (high - low) / 2
        if middle in (low, high):
            break
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


def doubled_until(holds: Callable[[float], bool], start: float, what: str, limit: float = 1e300) -> float:
    """Return the first of ``start``, 2 ``start``, 4 ``start`` ... at which ``holds`` is true.

    >>> doubled_until(lambda x: x > 5, 1.0, "x")
    8.0
    """
    value = start
    while not holds(value):
        value *= 2
        if not value <= limit:
            raise ParameterError(f"no {what} up to {limit:g} is enough; ask for a larger epsilon or delta")
    return value


def most(holds: Callable[[int], bool], limit: int, start: int = 1) -> int:
    """Return the greatest whole number up to ``limit`` at which ``holds`` is true; 0 where it is false at 1.

    ``start`` is a guess; a good one saves questions.

    >>> most(lambda n: n * n <= 90, limit=1000), most(lambda n: n * n <= 90, limit=1000, start=12)
    (9, 9)
    """
    low, high, step = 0, limit + 1, 1
    guess = min(max(start, 1), limit)
    if holds(guess):
        low = guess
        while low + step < high:
            if not holds(low + step):
                high = low + step
                break
            low, step = low + step, 2 * step
    else:
        high = guess
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


def smallest_value(function: Callable[[float], float], low: float, high: float, steps: int = 200) -> float:
    """Return a small value of ``function`` on an interval (its least, where it falls and then rises).

    Every value of the functions this is used for is a valid bound, so that a search that ends early is loose, not
    wrong.

    >>> round(smallest_value(lambda x: (x - 1) ** 2 + 3, -10.0, 10.0), 9)
    3.0
    """
    grid = [low + (high - low) * i / steps for i in range(steps + 1)]
    values = [function(x) for x in grid]
    best = min(range(len(grid)), key=values.__getitem__)
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, steps)]
    golden = (math.sqrt(5) - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = function(left), function(right)
    found = min(values[best], at_left, at_right)
    for _ in range(80):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = function(right)
        found = min(found, at_left, at_right)
    return found
