"""Rounding that can only make a promise weaker, never stronger.

A reported epsilon, delta or noise scale is an upper bound: where floating point cannot give the exact number, it
gives one that is certainly not below it.  The functions that compute such a number also bound their own relative
error and end here.
"""

from __future__ import annotations

import math
import sys

UNIT_ROUNDOFF = sys.float_info.epsilon / 2
"""Relative error of one floating point operation."""


def up(value: float, relative_error: float = 4 * UNIT_ROUNDOFF) -> float:
    """Return a float that is certainly at least the real number ``value`` stands for.

    >>> up(1.0) > 1.0
    True
    >>> up(0.0)
    0.0
    """
    if value == 0 or not math.isfinite(value):
        return value
    return math.nextafter(value + abs(value) * relative_error, math.inf)
