"""The secret coins and the noise of a training run.

Both follow from the run's key and the number of the step.  A step that is repeated after a crash therefore has the
same coins and the same noise, and is the same release: resuming charges nothing.

>>> key = RunKey.from_seed(1)
>>> bool((taking_part(key, 3, slots=50, rate=0.3) == taking_part(key, 3, slots=50, rate=0.3)).all())
True
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import special

from sfumato.foundation.randomness import RunKey

_SIGN = np.uint64(1) << np.uint64(63)


def _label(step: int, part: int = 0) -> bytes:
    return step.to_bytes(8, "little") + part.to_bytes(8, "little")


def taking_part(key: RunKey, step: int, *, slots: int, rate: float, purpose: str = "coin") -> npt.NDArray[np.intp]:
    """Return which slots take part in a step: one coin each, with probability ``rate`` rounded down to 64 bits."""
    numbers = key.stream(f"training {purpose}", _label(step)).uint64(slots)
    threshold = int(rate * 2.0**64)
    if threshold >= 2**64:
        return np.arange(slots)
    return np.flatnonzero(numbers < np.uint64(threshold))


def gaussian(key: RunKey, step: int, part: int, count: int, deviation: float) -> npt.NDArray[np.float64]:
    """Return the noise for one part of the parameters in a step, by inverting the normal distribution function."""
    numbers = key.stream("training noise", _label(step, part)).uint64(count)
    # 63 bits choose the size, in the half below zero where the function keeps its precision; one bit the sign.
    size = special.ndtri(((numbers & ~_SIGN).astype(np.float64) + 0.5) / 2.0**64)
    result: npt.NDArray[np.float64] = np.where(numbers & _SIGN != 0, size, -size) * deviation
    return result


def seed(key: RunKey, step: int, purpose: str) -> int:
    """Return a seed for random choices that need not be private, such as dropout."""
    return int(key.stream(f"training {purpose}", _label(step)).uint64(1)[0] >> np.uint64(1))
