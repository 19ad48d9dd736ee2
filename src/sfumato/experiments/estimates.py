"""A figure measured with several seeds, and how far it may be off."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def estimate(values: Sequence[float]) -> dict[str, Any]:
    """Return the mean of the values of several seeds with its 95 % interval (Student's t); None for one value alone.

    >>> found = estimate([1.0, 2.0, 3.0])
    >>> round(found["mean"], 3), round(found["low"], 3), round(found["high"], 3), found["n"]
    (2.0, -0.484, 4.484, 3)
    """
    from scipy.special import stdtrit

    numbers = np.asarray(values, dtype=np.float64)
    mean, count = float(numbers.mean()), len(numbers)
    if count < 2:
        return {"mean": mean, "low": None, "high": None, "n": count}
    reach = float(stdtrit(count - 1, 0.975)) * float(numbers.std(ddof=1)) / math.sqrt(count)
    return {"mean": mean, "low": mean - reach, "high": mean + reach, "n": count}


def clearly_above(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether the whole interval of one estimate lies above that of the other."""
    if one["low"] is None or other["high"] is None:
        return False
    return bool(one["low"] > other["high"])
