"""All pairs of points looked at in single precision, with a proven error, so that few are looked at again.

A float32 product of two blocks of vectors costs half of a float64 one, and its greatest entry is found at a fraction of
that.  The standard analysis bounds how far an entry can be from the truth (a sum of K products, in any order and with or
without fused operations, errs by at most ``K u sum |a_i b_i|``, u = 2**-24; Higham 2002, section 3.1).  So an entry that
stays clear of a threshold by the bound settles its pair, and only the others are computed in float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.space.metric import Angle, Euclidean, FloatArray, Geometry, IntegerEuclidean

SingleArray = npt.NDArray[np.float32]
HALF_ULP = 2.0**-24
_SLACK = 1.02
"""For the terms of second order and the float64 roundings that the bounds leave out."""


def straight(geometry: Geometry) -> Euclidean | IntegerEuclidean | None:
    """Return the geometry where its distances are straight lines, which is what can be screened."""
    if isinstance(geometry, Angle) or not isinstance(geometry, (Euclidean, IntegerEuclidean)):
        return None
    return geometry


@dataclass(frozen=True, eq=False)
class UnitBall:
    """The points of a straight-line geometry, moved to their middle and scaled into the unit ball."""

    vectors: SingleArray
    squares: FloatArray
    """Squared lengths, in float64."""
    reach: float
    """The unit of length, in the units of the geometry's squared distances."""

    @classmethod
    def of(cls, geometry: Euclidean | IntegerEuclidean, chosen: slice | npt.NDArray[np.intp]) -> UnitBall:
        """Return the unit ball of some points."""
        points = geometry.points[chosen]
        middle = points.mean(axis=0, dtype=np.float64)
        vectors = np.empty(points.shape, dtype=np.float32)
        squares = np.empty(len(points))
        step = 65_536
        for start in range(0, len(points), step):
            part = slice(start, start + step)
            centred = points[part] - middle
            squares[part] = np.einsum("ij,ij->i", centred, centred)
        reach = float(np.sqrt(squares.max())) or 1.0
        for start in range(0, len(points), step):
            part = slice(start, start + step)
            vectors[part] = (points[part] - middle) / reach
        squares /= reach * reach
        return cls(vectors, squares, reach)

    def __len__(self) -> int:
        return len(self.vectors)

    def factors(self) -> tuple[SingleArray, SingleArray]:
        """Return two matrices, ``left @ right.T`` being the squared distances |u|**2 + |v|**2 - 2 u.v."""
        count, dimension = self.vectors.shape
        left = np.empty((count, dimension + 2), dtype=np.float32)
        np.multiply(self.vectors, -2.0, out=left[:, :dimension])
        left[:, dimension], left[:, dimension + 1] = self.squares, 1.0
        right = np.empty((count, dimension + 2), dtype=np.float32)
        right[:, :dimension] = self.vectors
        right[:, dimension], right[:, dimension + 1] = 1.0, self.squares
        return left, right

    def error(self) -> float:
        """Return how far an entry of that product can be from the true squared distance.

        The terms of one entry add up to at most 4 in size; rounding vectors and squares to float32 beforehand moves the
        true value by at most ``2 (2 + 2) u``.
        """
        return float(_SLACK * (4.0 * (self.vectors.shape[1] + 2) + 8.0) * HALF_ULP)
