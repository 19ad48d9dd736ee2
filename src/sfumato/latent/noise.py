"""Noise for vectors from uniform 64-bit integers: Gaussian, Laplace, and the discrete Gaussian.

Gaussian and Laplace noise are floating point (the guarantee says so).  The discrete Gaussian is sampled exactly, with
integer arithmetic only, by the rejection method of Canonne, Kamath and Steinke (2020, algorithms 1 to 3), for many
coordinates at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sfumato.foundation.checks import require_positive
from sfumato.foundation.errors import ParameterError
from sfumato.foundation.randomness import Source, below
from sfumato.mechanism.noise import normals

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

GREATEST_UNITS = 4096
"""Above this standard deviation (in grid steps) the integers of the rejection step would not fit 63 bits."""
_FARTHEST_SCALES = 64
"""A discrete Laplace draw beyond so many scales is accepted with probability below exp(-1900); it is drawn again."""


def gaussian(source: Source, shape: Sequence[int], sigma: float) -> FloatArray:
    """Return independent N(0, sigma^2) numbers."""
    require_positive(sigma=sigma)
    numbers = source.uint64(int(np.prod(shape)))
    return np.asarray(normals(numbers).reshape(shape) * sigma)


def laplace(source: Source, shape: Sequence[int], scale: float) -> FloatArray:
    """Return independent Laplace numbers of density exp(-|z| / scale) / (2 scale)."""
    require_positive(scale=scale)
    numbers = source.uint64(int(np.prod(shape)))
    # 63 bits for the length (never 0) and one for the sign: both tails are resolved alike.
    magnitudes = -np.log(((numbers >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-63)
    signed = np.where(numbers & np.uint64(1), -magnitudes, magnitudes)
    return np.asarray(signed.reshape(shape) * scale)


def discrete_gaussian(source: Source, shape: Sequence[int], sigma: int) -> IntArray:
    """Return independent integers with P(z) proportional to exp(-z^2 / (2 sigma^2)), exactly.

    ``sigma`` is a whole number of grid steps.

    >>> from sfumato.foundation.randomness import RunKey
    >>> abs(float(discrete_gaussian(RunKey.from_seed(1).record(0), (2000,), 10).std()) - 10) < 1
    True
    """
    if not 1 <= sigma <= GREATEST_UNITS or sigma != int(sigma):
        raise ParameterError(f"sigma must be a whole number of grid steps from 1 to {GREATEST_UNITS}, got {sigma}")
    count = int(np.prod(shape))
    result = np.zeros(count, dtype=np.int64)
    todo = np.arange(count)
    scale = int(sigma) + 1
    square = int(sigma) ** 2
    while len(todo):
        drawn, settled = _discrete_laplace(source, len(todo), scale)
        # Accept with probability exp(-(|y| - sigma^2/scale)^2 / (2 sigma^2)); both sides times scale^2.
        distance = np.abs(np.abs(drawn) * scale - square)
        accepted = settled & _coin_exp(source, distance * distance, 2 * square * scale * scale, settled)
        result[todo[accepted]] = drawn[accepted]
        todo = todo[~accepted]
    return result.reshape(shape)


def _discrete_laplace(source: Source, count: int, scale: int) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Return draws with P(z) proportional to exp(-|z| / scale), and which of them are to be kept."""
    bounds = np.full(count, scale, dtype=np.uint64)
    offset = below(source, bounds).astype(np.int64)
    kept = _coin_exp(source, offset, scale, np.ones(count, dtype=bool))
    wholes = np.zeros(count, dtype=np.int64)
    running = kept.copy()
    for _ in range(_FARTHEST_SCALES):
        places = np.flatnonzero(running)
        if len(places) == 0:
            break
        more = _coin_exp(source, np.ones(len(places), dtype=np.int64), 1, np.ones(len(places), dtype=bool))
        running[places] = more
        wholes[places] += more
    kept &= ~running
    magnitude = offset + scale * wholes
    negative = below(source, np.full(count, 2, dtype=np.uint64)).astype(bool)
    kept &= ~(negative & (magnitude == 0))
    return np.where(negative, -magnitude, magnitude), kept


def _coin_exp(
    source: Source, numerators: IntArray, denominator: int, wanted: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Return coins that show True with probability exp(-numerator / denominator), exactly; False where not wanted."""
    wholes, rest = np.divmod(numerators, denominator)
    result = wanted.copy()
    left = np.where(result, wholes, 0)
    one = np.ones(1, dtype=np.int64)
    while True:
        places = np.flatnonzero(result & (left > 0))
        if len(places) == 0:
            break
        left[places] -= 1
        result[places] = _coin_small(source, np.repeat(one, len(places)), 1)
    places = np.flatnonzero(result)
    result[places] = _coin_small(source, rest[places], denominator)
    return result


def _coin_small(source: Source, numerators: IntArray, denominator: int) -> npt.NDArray[np.bool_]:
    """Return coins of probability exp(-numerator / denominator) for numerators up to the denominator.

    Coins of probability (numerator / denominator) / k are tossed for k = 1, 2, ... until one fails; that k is odd with the
    wanted probability (the series of the exponential).
    """
    result = np.zeros(len(numerators), dtype=bool)
    running = np.arange(len(numerators))
    step = 1
    while len(running):
        bounds = np.full(len(running), denominator * step, dtype=np.uint64)
        goes_on = below(source, bounds) < numerators[running].astype(np.uint64)
        result[running[~goes_on]] = step % 2 == 1
        running = running[goes_on]
        step += 1
    return result
