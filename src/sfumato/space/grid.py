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
    if not math.isfinite(reach):
        raise SpaceError("the vectors are too large for distances between them to be computed; scale them down")
    length = reach or float(np.abs(middle).max())  # of a single point, how far out it is
    step = math.ldexp(1.0, math.frexp(length)[1] - _BITS) if length else 1.0
    middle = np.rint(middle / step)
    whole = np.empty(vectors.shape, dtype=np.int32)
    for rows, part in _parts(vectors):
        # Divided by a power of two, which is exact; the middle only shifts the grid by whole steps.
        whole[rows] = np.rint(part / step) - middle
    return whole, step, middle


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
