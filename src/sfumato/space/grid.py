"""Vectors rounded to a grid so fine that nobody minds, and so coarse that squared distances are exact.

Coordinates are whole multiples of a power of two, at most 2**25 of them from the middle.  Every product and every
partial sum in a squared distance is then a whole number below 2**53, which float64 holds exactly: the outcome is the same
whatever the order of the sum, the size of a block, the number of threads or the machine.  A row computed alone is the row
computed among others, bit for bit.

The rounded vectors are the vectors of the space: distances, certificates and noise all refer to them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from sfumato.foundation.errors import SpaceError

FloatArray = npt.NDArray[np.float64]
LEAST_SIZE, GREATEST_SIZE = 1e-140, 1e140
"""Between these, squared distances and their sums neither vanish nor overflow in float64."""
_BITS = 25
_ROWS_AT_ONCE = 4096


def on_grid(vectors: npt.NDArray[np.generic]) -> tuple[npt.NDArray[np.int32], float, FloatArray]:
    """Return whole numbers, the length they count, and the whole numbers that were taken away as the middle.

    >>> whole, step, middle = on_grid(np.array([[0.0], [0.5], [1.0]]))
    >>> ((whole + middle) * step).tolist()
    [[0.0], [0.5], [1.0]]
    """
    middle = sum(part.sum(axis=0) for _, part in _parts(vectors)) / len(vectors)
    reach = math.sqrt(max(_squared_length(part - middle) for _, part in _parts(vectors)))
    if not LEAST_SIZE <= reach <= GREATEST_SIZE:
        require_size(vectors)
    length = reach or float(np.abs(middle).max())  # of a single point, how far out it is
    step = math.ldexp(1.0, math.frexp(length)[1] - _BITS) if length else 1.0
    middle = np.rint(middle / step)
    whole = np.empty(vectors.shape, dtype=np.int32)
    for rows, part in _parts(vectors):
        # Divided by a power of two, which is exact; the middle only shifts the grid by whole steps.
        whole[rows] = np.rint(part / step) - middle
    return whole, step, middle


def require_size(vectors: npt.NDArray[np.generic], scale: float = 1.0) -> None:
    """Raise where vectors, or vectors times a scale, are of a size at which squared distances are lost.

    >>> require_size(np.array([[0.0], [1e-170]]))
    Traceback (most recent call last):
        ...
    sfumato.foundation.errors.SpaceError: the vectors are too near each other for distances between them to be computed: \
they lie within 1e-170; scale them up (sizes from 1e-140 to 1e+140 are possible)
    """
    least, greatest = vectors.min(axis=0).astype(np.float64), vectors.max(axis=0).astype(np.float64)
    largest = float(np.maximum(np.abs(least), np.abs(greatest)).max())
    width = float((greatest - least).max())
    possible = f"(sizes from {LEAST_SIZE:g} to {GREATEST_SIZE:g} are possible)"
    for factor, how in ((1.0, "scale them"), (scale, "choose a scale that brings them")):
        if not largest * factor <= GREATEST_SIZE:
            raise SpaceError(
                f"the vectors are too large for distances between them to be computed; {how} down {possible}"
            )
        if (width and not width * factor >= LEAST_SIZE) or (largest and not largest * factor >= LEAST_SIZE):
            raise SpaceError(
                "the vectors are too near each other for distances between them to be computed: they lie within "
                f"{width * factor:.4g}; {how} up {possible}"
            )


def _parts(vectors: npt.NDArray[np.generic]) -> Iterator[tuple[slice, FloatArray]]:
    """Yield rows in float64, some at a time: all of them may be more than fits in memory."""
    for start in range(0, len(vectors), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        yield rows, vectors[rows].astype(np.float64)


def _squared_length(centred: FloatArray) -> float:
    return float(np.einsum("ij,ij->i", centred, centred).max())


def unit_directions(vectors: npt.NDArray[np.generic]) -> tuple[npt.NDArray[np.int32], float]:
    """Return directions on the grid, and its step; parallel vectors become the very same direction."""
    norms = np.concatenate([np.sqrt(np.einsum("ij,ij->i", part, part)) for _, part in _parts(vectors)])
    zero = np.flatnonzero(norms == 0)
    if len(zero):
        raise SpaceError(
            f"the vector at position {zero[0]} is zero ({len(zero)} in all): it has no direction; drop those words "
            "or use metric='euclidean'"
        )
    whole = np.empty(vectors.shape, dtype=np.int32)
    for rows, part in _parts(vectors):
        whole[rows] = np.rint(part / norms[rows, None] * 2.0**_BITS)
    return whole, 2.0**-_BITS
