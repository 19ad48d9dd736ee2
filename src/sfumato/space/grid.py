"""Vectors rounded to a grid so fine that nobody minds, and so coarse that squared distances are exact.

Coordinates are whole multiples of a power of two, at most 2**25 of them from the middle.  Every product and every
partial sum in a squared distance is then a whole number below 2**53, which float64 holds exactly: the outcome is the same
whatever the order of the sum, the size of a block, the number of threads or the machine.  A row computed alone is the row
computed among others, bit for bit.

The rounded vectors are the vectors of the space: distances, certificates and noise all refer to them.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sfumato.foundation.errors import SpaceError

FloatArray = npt.NDArray[np.float64]
_BITS = 25


def on_grid(vectors: npt.NDArray[np.generic]) -> tuple[npt.NDArray[np.int32], float, FloatArray]:
    """Return whole numbers, the length they count, and the whole numbers that were taken away as the middle.

    >>> whole, step, middle = on_grid(np.array([[0.0], [0.5], [1.0]]))
    >>> ((whole + middle) * step).tolist()
    [[0.0], [0.5], [1.0]]
    """
    points = vectors.astype(np.float64)
    middle = points.mean(axis=0)
    reach = math.sqrt(
        max(_squared_length(points[start : start + 4096] - middle) for start in range(0, len(points), 4096))
    )
    if not math.isfinite(reach):
        raise SpaceError("the vectors are too large for distances between them to be computed; scale them down")
    length = reach or float(np.abs(middle).max())  # of a single point, how far out it is
    step = math.ldexp(1.0, math.frexp(length)[1] - _BITS) if length else 1.0
    # Divided by a power of two, which is exact; the middle only shifts the grid by whole steps.
    points /= step
    np.rint(points, out=points)
    middle = np.rint(middle / step)
    points -= middle
    return points.astype(np.int32), step, middle


def _squared_length(centred: FloatArray) -> float:
    return float(np.einsum("ij,ij->i", centred, centred).max())


def unit_directions(vectors: npt.NDArray[np.generic]) -> tuple[npt.NDArray[np.int32], float]:
    """Return directions on the grid, and its step; parallel vectors become the very same direction."""
    points = vectors.astype(np.float64)
    norms = np.sqrt(np.einsum("ij,ij->i", points, points))
    zero = np.flatnonzero(norms == 0)
    if len(zero):
        raise SpaceError(
            f"the vector at position {zero[0]} is zero ({len(zero)} in all): it has no direction; drop those words "
            "or use metric='euclidean'"
        )
    points /= norms[:, None]
    return np.rint(points * 2.0**_BITS).astype(np.int32), 2.0**-_BITS
