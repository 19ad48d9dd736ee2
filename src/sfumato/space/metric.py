"""Distances between rows of vectors, in blocks, with a stated numerical error.

Three metrics: ``euclidean``, ``angle`` (the angle between two vectors in radians: a true metric, unlike one minus the
cosine) and a user's own function.  A *geometry* holds the distinct vectors of a space in the form its metric works on;
two words with the same vector share one point, so their distance is exactly zero and their rows are the same.

Integer vectors (the int8 vectors of the default space) give exact squared distances: a float32 matrix product of
integers is exact while no sum reaches 2**24.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from sfumato.foundation.errors import SpaceError

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.intp]
DistanceFunction = Callable[[FloatArray, FloatArray], FloatArray]
T = TypeVar("T")

_HALF_ULP = 2.0**-53
_EXACT_LIMIT = 2**24
BLOCK_CELLS = 4_000_000
"""Cells of a distance block: 32 MB in float64, whatever the size of the space."""


class Geometry(Protocol):
    """Distinct points of a space, and blocks of their distances."""

    @property
    def name(self) -> str:
        """The metric's name."""
        ...

    def __len__(self) -> int: ...

    def block(self, rows: slice | IndexArray, columns: slice | IndexArray) -> FloatArray:
        """Distances between two sets of points; the caller may overwrite the result."""
        ...

    def error(self, distance: float) -> float:
        """How far a computed distance near ``distance`` can be from the true one."""
        ...


@dataclass(frozen=True, eq=False)
class _Gram:
    """Points whose squared distances come from a matrix product."""

    name: str
    points: npt.NDArray[np.float32] | FloatArray
    squared_norms: FloatArray
    scale: float
    exact: bool

    def __len__(self) -> int:
        return len(self.points)

    def squared(self, rows: slice | IndexArray, columns: slice | IndexArray) -> FloatArray:
        """Squared distances in units of the points, never negative."""
        products = (self.points[rows] @ self.points[columns].T).astype(np.float64, copy=False)
        products *= -2.0
        products += self.squared_norms[rows][:, None]
        products += self.squared_norms[columns][None, :]
        if not self.exact:
            np.maximum(products, 0.0, out=products)
            self._clear_diagonal(products, rows, columns)
        return products

    def _clear_diagonal(self, products: FloatArray, rows: slice | IndexArray, columns: slice | IndexArray) -> None:
        """Make the distance of a point to itself exactly zero, as rounding would not."""
        everything = np.arange(len(self.points))
        row_ids, column_ids = everything[rows], everything[columns]
        if row_ids is column_ids or np.array_equal(row_ids, column_ids):
            np.fill_diagonal(products, 0.0)
            return
        order = np.argsort(column_ids, kind="stable")
        places = np.searchsorted(column_ids, row_ids, sorter=order)
        found = places < len(column_ids)
        matches = np.flatnonzero(found)[column_ids[order[places[found]]] == row_ids[found]]
        products[matches, order[places[matches]]] = 0.0

    def _squared_error(self) -> float:
        """Bound on the rounding error of a squared distance (standard dot-product analysis)."""
        if self.exact:
            return 0.0
        largest = float(self.squared_norms.max(initial=0.0))
        return float(4.0 * (self.points.shape[1] + 4) * _HALF_ULP * largest)


class Euclidean(_Gram):
    """Straight-line distances."""

    def block(self, rows: slice | IndexArray, columns: slice | IndexArray) -> FloatArray:
        """Return euclidean distances."""
        distances = self.squared(rows, columns)
        np.sqrt(distances, out=distances)
        distances *= self.scale
        return distances

    def error(self, distance: float) -> float:
        """Return the error bound of one distance."""
        squared = self._squared_error()
        from_product = min(squared / max(distance / self.scale, 1e-300), math.sqrt(squared)) * self.scale
        return from_product + 4 * _HALF_ULP * distance


class Angle(_Gram):
    """Angles between vectors, in radians."""

    def block(self, rows: slice | IndexArray, columns: slice | IndexArray) -> FloatArray:
        """Return angles, from the chord between unit vectors."""
        chords = self.squared(rows, columns)
        np.sqrt(chords, out=chords)
        chords *= 0.5
        np.minimum(chords, 1.0, out=chords)
        np.arcsin(chords, out=chords)
        chords *= 2.0
        return chords

    def error(self, distance: float) -> float:
        """Return the error bound of one angle; near opposite vectors the arcsine magnifies it."""
        squared = self._squared_error()
        chord = 2.0 * math.sin(min(distance, math.pi) / 2)
        chord_error = min(squared / max(chord, 1e-300), math.sqrt(squared))
        slope = 1.0 / max(math.cos(min(distance, math.pi) / 2), math.sqrt(max(chord_error, 1e-16)))
        return chord_error * slope + 8 * _HALF_ULP * distance


@dataclass(frozen=True, eq=False)
class OwnFunction:
    """Distances by a user's function of two arrays of vectors."""

    name: str
    points: FloatArray
    function: DistanceFunction

    def __len__(self) -> int:
        return len(self.points)

    def block(self, rows: slice | IndexArray, columns: slice | IndexArray) -> FloatArray:
        """Return the user's distances."""
        a, b = self.points[rows], self.points[columns]
        distances = np.array(self.function(a, b), dtype=np.float64)
        if distances.shape != (len(a), len(b)):
            raise SpaceError(
                f"the metric function returned an array of shape {distances.shape} for {len(a)} x {len(b)} points; "
                "it must return one distance for each pair"
            )
        if not np.isfinite(distances).all() or (distances < 0).any():
            raise SpaceError("the metric function returned a distance that is negative or not finite")
        return distances

    def error(self, distance: float) -> float:
        """Return a small relative error: what the function returns is taken to be the metric."""
        return 8 * _HALF_ULP * distance


def euclidean(vectors: npt.NDArray[np.generic], scale: float) -> Euclidean:
    """Return the euclidean geometry of distinct vectors, exact where they are small integers."""
    if np.issubdtype(vectors.dtype, np.integer):
        integers = vectors.astype(np.int64)
        norms = (integers * integers).sum(axis=1)
        if 4 * int(norms.max(initial=0)) < _EXACT_LIMIT:
            return Euclidean("euclidean", vectors.astype(np.float32), norms.astype(np.float64), scale, True)
    points = vectors.astype(np.float64)
    points -= points.mean(axis=0)
    return Euclidean("euclidean", points, np.einsum("ij,ij->i", points, points), scale, False)


def unit_vectors(vectors: npt.NDArray[np.generic]) -> FloatArray:
    """Return directions, rounded to 2**-40 so that parallel vectors become the very same direction."""
    points = vectors.astype(np.float64)
    norms = np.sqrt(np.einsum("ij,ij->i", points, points))
    zero = np.flatnonzero(norms == 0)
    if len(zero):
        raise SpaceError(
            f"the vector at position {zero[0]} is zero ({len(zero)} in all): it has no direction; drop those words "
            "or use metric='euclidean'"
        )
    return np.asarray(np.round(points / norms[:, None] * 2.0**40) * 2.0**-40)


def angle(directions: FloatArray) -> Angle:
    """Return the geometry of angles between distinct directions."""
    points = directions / np.sqrt(np.einsum("ij,ij->i", directions, directions))[:, None]
    return Angle("angle", points, np.einsum("ij,ij->i", points, points), 1.0, False)


def check_axioms(name: str, function: DistanceFunction, points: FloatArray, sample: int = 200) -> bool:
    """Check a user's function on sampled points for zero self-distance, symmetry and the triangle inequality.

    Returns whether every triple was checked (few points) and not only a sample.
    """
    count = len(points)
    chosen = (
        np.arange(count) if count <= sample else np.sort(np.random.default_rng(0).choice(count, sample, replace=False))
    )
    distances = OwnFunction(name, points[chosen], function).block(slice(None), slice(None))
    slack = 1e-9 * max(float(distances.max(initial=0.0)), 1e-300)
    problem = None
    if (np.abs(np.diag(distances)) > slack).any():
        problem = "the distance of a vector to itself is not 0"
    elif (np.abs(distances - distances.T) > slack).any():
        problem = "it is not symmetric"
    else:
        for middle in range(len(chosen)):
            if (distances > distances[:, middle][:, None] + distances[middle][None, :] + slack).any():
                problem = "the triangle inequality fails"
                break
    if problem:
        raise SpaceError(f"the metric function is not a metric: {problem} (checked on {len(chosen)} words)")
    return count <= sample


def row_blocks(rows: int, columns: int, cells: int = BLOCK_CELLS) -> Iterator[slice]:
    """Yield slices of rows so that a block of distances has a bounded number of cells."""
    step = max(1, cells // max(columns, 1))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def in_threads(work: Callable[[slice], T], blocks: Iterator[slice], threads: int) -> Iterator[T]:
    """Apply ``work`` to every block on a few threads (numpy releases the interpreter lock); results in order."""
    if threads <= 1:
        yield from map(work, blocks)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(work, blocks)
