"""Noise with density proportional to exp(-|z|) in any dimension, from 64-bit integers.

Its length is Gamma(dimension) distributed and its direction uniform, so it is made of one Gamma draw and as many normal
draws as there are dimensions, each by the inverse of its distribution function.

A draw takes :data:`EACH` integers of a source, whatever the dimension: they are the 256-bit key of the draw's own stream
(SHAKE-256, as for the streams of a run key).  A batch of any size therefore costs 32 bytes a draw until its turn comes,
and a draw is the same alone and in a batch.

The least probability that is told apart is 2**-65, on either side.  Lengths beyond the quantile of that probability
are not drawn; all of this is floating point, and the guarantee says so.
"""

from __future__ import annotations

import hashlib

import numpy as np

from sfumato.foundation.randomness import Source, UInt64Array
from sfumato.space.metric import FloatArray, IndexArray

EACH = 4
"""Integers of a source that a draw takes: 256 bits."""
_LABEL = b"sfumato vector noise"
_KEY_BYTES = 8 * EACH
_BELOW_HALF = float(np.nextafter(0.5, 0.0))


def keys_of_draws(source: Source, count: int) -> UInt64Array:
    """Return the key of each draw, one row each."""
    return source.uint64(count, each=EACH).reshape(count, EACH)


def expand(keys: UInt64Array, numbers: int) -> UInt64Array:
    """Return the first integers of the stream of each key, one row each.

    >>> expand(np.zeros((2, 4), dtype=np.uint64), 5).shape
    (2, 5)
    """
    raw = keys.astype("<u8").tobytes()
    streams = [
        hashlib.shake_256(_LABEL + raw[start : start + _KEY_BYTES]).digest(8 * numbers)
        for start in range(0, len(raw), _KEY_BYTES)
    ]
    return np.frombuffer(b"".join(streams), dtype="<u8").astype(np.uint64, copy=False).reshape(len(keys), numbers)


def _tails(numbers: UInt64Array) -> tuple[FloatArray, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]]:
    """Split each integer into a probability strictly between 0 and 1/2, and which end it is counted from.

    Both ends are resolved down to 2**-65; a plain uniform number would end at 1 - 2**-53 on one of them.
    """
    tails = (numbers >> np.uint64(1)).astype(np.float64)
    tails += 0.5
    tails *= 2.0**-64
    np.minimum(tails, _BELOW_HALF, out=tails)
    return tails, (numbers & np.uint64(1)).astype(bool)


def normals(numbers: UInt64Array) -> FloatArray:
    """Return standard normal draws; none of them is exactly 0.

    >>> bool(np.isfinite(normals(np.array([0, 1, 2**64 - 2, 2**64 - 1], dtype=np.uint64))).all())
    True
    """
    from scipy.special import ndtri

    tails, upper = _tails(numbers)
    draws = ndtri(tails)
    return np.asarray(np.where(upper, -draws, draws))


def directions(numbers: UInt64Array) -> FloatArray:
    """Return uniformly random unit vectors, one for each row of integers."""
    draws = normals(numbers)
    draws /= np.sqrt((draws * draws).sum(axis=-1, keepdims=True))
    return draws


def lengths(numbers: UInt64Array, dimension: int) -> FloatArray:
    """Return Gamma(dimension) draws.

    >>> quartiles = lengths(np.array([2**63, 2**64 - 1], dtype=np.uint64), 1)
    >>> [round(float(value), 4) for value in quartiles]
    [0.2877, 0.6931]
    """
    from scipy.special import gammainccinv, gammaincinv

    tails, upper = _tails(numbers)
    drawn = np.empty_like(tails)
    drawn[upper] = gammainccinv(float(dimension), tails[upper])
    drawn[~upper] = gammaincinv(float(dimension), tails[~upper])
    return drawn


def noise(numbers: UInt64Array) -> FloatArray:
    """Return vectors with density proportional to exp(-|z|), from one row of integers each (dimension + 1 of them)."""
    dimension = numbers.shape[1] - 1
    vectors = directions(numbers[:, :dimension])
    vectors *= lengths(numbers[:, dimension], dimension)[:, None]
    return vectors


def below(numbers: UInt64Array, bound: int) -> IndexArray:
    """Return ``floor(number * bound / 2**64)``: uniform below the bound, up to a bias of bound / 2**64.

    >>> below(np.array([0, 2**63, 2**64 - 1], dtype=np.uint64), 10).tolist()
    [0, 5, 9]
    """
    factor, half = np.uint64(bound), np.uint64(32)
    low = (numbers & np.uint64(2**32 - 1)) * factor >> half
    return (((numbers >> half) * factor + low) >> half).astype(np.intp)


def unit_interval(numbers: UInt64Array) -> FloatArray:
    """Return uniform numbers in [0, 1), multiples of 2**-53."""
    return np.asarray((numbers >> np.uint64(11)).astype(np.float64) * 2.0**-53)
