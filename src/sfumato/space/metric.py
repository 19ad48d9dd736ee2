"""Distances between rows of vectors, in blocks, with a stated numerical error.

Three metrics: ``euclidean``, ``angle`` (the angle between two vectors in radians: a true metric, unlike one minus the
cosine) and a user's own function.  A *geometry* holds the distinct vectors of a space in the form its metric works on;
two words with the same vector share one point, so their distance is exactly zero and their rows are the same.

Integer vectors (the int8 vectors of the default space) give exact squared distances and a fast look-up of any function
of them; other vectors give float64 distances with a stated error.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from sfumato.foundation.errors import SpaceError

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.intp]
DistanceFunction = Callable[[FloatArray, FloatArray], FloatArray]
Rows = slice | IndexArray
Profile = Callable[[FloatArray], FloatArray]
BlockFunction = Callable[[Rows, Rows], FloatArray]
S = TypeVar("S")
T = TypeVar("T")

_HALF_ULP = 2.0**-53
_EXACT_LIMIT = 2**24
_LARGEST_TABLE = 2**21
_PAIR_BATCH = 256
_LONG_RUN = 3
TILE = 768
BLOCK_CELLS = 4_000_000
"""Cells of a distance block: 32 MB in float64, whatever the size of the space."""


class Geometry(Protocol):
    """Distinct points of a space, and blocks of their distances."""

    @property
    def name(self) -> str:
        """The metric's name."""
        ...

    def __len__(self) -> int: ...

    def block(self, rows: Rows, columns: Rows) -> FloatArray:
        """Distances between two sets of points; the caller may overwrite the result."""
        ...

    def prepare(self, profile: Profile) -> BlockFunction:
        """A function that returns blocks of ``profile(distance)``, as fast as this geometry can."""
        ...

    def error(self, distance: float) -> float:
        """How far a computed distance near ``distance`` can be from the true one."""
        ...


class _Plain:
    """Geometries whose profiles are computed from the distances, cell by cell."""

    def block(self, rows: Rows, columns: Rows) -> FloatArray:
        raise NotImplementedError

    def prepare(self, profile: Profile) -> BlockFunction:
        """Return a function that computes ``profile(distance)`` in blocks."""
        return lambda rows, columns: profile(self.block(rows, columns))


@dataclass(frozen=True, eq=False)
class IntegerEuclidean:
    """Straight-line distances of small integer vectors, times a scale.

    Squared distances are exact: a float32 matrix product of integers is exact while no partial sum reaches 2**24.  They
    take few distinct values, so a profile is looked up in a table, not computed for every pair.
    """

    points: npt.NDArray[np.float32]
    scale: float
    name: str = "euclidean"

    def __len__(self) -> int:
        return len(self.points)

    @cached_property
    def _factors(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Two matrices whose product is the squared distances: -2 x.y + |x|^2 + |y|^2 in one go."""
        points = self.points
        norms = np.einsum("ij,ij->i", points, points, dtype=np.float64).astype(np.float32)[:, None]
        ones = np.ones_like(norms)
        return np.hstack([-2 * points, norms, ones]), np.ascontiguousarray(np.hstack([points, ones, norms]).T)

    @cached_property
    def _largest_squared(self) -> int:
        return 4 * int(self._factors[0][:, -2].max())

    def squared(self, rows: Rows, columns: Rows) -> npt.NDArray[np.float32]:
        """Return exact squared distances, in units of the squared scale."""
        left, right = self._factors
        return np.asarray(left[rows] @ right[:, columns])

    def block(self, rows: Rows, columns: Rows) -> FloatArray:
        """Return euclidean distances."""
        distances = self.squared(rows, columns).astype(np.float64)
        np.sqrt(distances, out=distances)
        distances *= self.scale
        return distances

    def prepare(self, profile: Profile) -> BlockFunction:
        """Return a function that looks ``profile(distance)`` up in a table."""
        look_up = self._look_up(profile)
        return lambda rows, columns: look_up(self.squared(rows, columns))

    def _look_up(self, profile: Profile) -> Callable[[npt.NDArray[np.float32]], FloatArray]:
        if self._largest_squared > _LARGEST_TABLE:
            return lambda squared: profile(np.sqrt(squared.astype(np.float64)) * self.scale)
        table = profile(np.sqrt(np.arange(self._largest_squared + 1, dtype=np.float64)) * self.scale)
        return lambda squared: table.take(squared.astype(np.intp))

    def prepare_blocks(
        self, profile: Profile, columns: IndexArray, block: int
    ) -> Callable[[IndexArray, IndexArray], FloatArray]:
        """Return a function for ``profile(distance)`` between points and one block of ``columns`` each.

        Its values are the very ones that :meth:`prepare` gives for the same pairs.
        """
        look_up = self._look_up(profile)
        left, right = self._factors
        padded = np.concatenate([columns, np.repeat(columns[-1:], -len(columns) % block)])
        blocks = np.ascontiguousarray(right.T[padded]).reshape(-1, block, left.shape[1])

        def function(points: IndexArray, numbers: IndexArray) -> FloatArray:
            squared = np.empty((len(points), block), dtype=np.float32)
            for start, stop in _runs(numbers):
                some = left[points[start:stop]]
                if numbers[start] == numbers[stop - 1]:  # many points for one block: a product of matrices
                    np.matmul(some, blocks[numbers[start]].T, out=squared[start:stop])
                else:
                    squared[start:stop] = np.matmul(blocks[numbers[start:stop]], some[:, :, None])[:, :, 0]
            return look_up(squared)

        return function

    def between(self, first: IndexArray, second: IndexArray) -> FloatArray:
        """Return exact squared distances of pairs, in units of the squared scale."""
        differences = (self.points[first] - self.points[second]).astype(np.float64)
        return np.asarray(np.einsum("ij,ij->i", differences, differences))

    def error(self, distance: float) -> float:
        """Return the error bound of one distance: the roundings of a square root and a product."""
        return 4 * _HALF_ULP * distance


@dataclass(frozen=True, eq=False)
class _Gram(_Plain):
    """Points whose squared distances come from a float64 matrix product."""

    name: str
    points: FloatArray
    scale: float

    def __len__(self) -> int:
        return len(self.points)

    @cached_property
    def _squared_norms(self) -> FloatArray:
        return np.asarray(np.einsum("ij,ij->i", self.points, self.points))

    def squared(self, rows: Rows, columns: Rows) -> FloatArray:
        """Return squared distances, never negative, and exactly zero between a point and itself."""
        products = self.points[rows] @ self.points[columns].T
        products *= -2.0
        products += self._squared_norms[rows][:, None]
        products += self._squared_norms[columns][None, :]
        np.maximum(products, 0.0, out=products)
        products[same_point(rows, columns, len(self.points))] = 0.0
        return products

    def between(self, first: IndexArray, second: IndexArray) -> FloatArray:
        """Return squared distances of pairs, from the differences of their vectors."""
        differences = self.points[first] - self.points[second]
        return np.asarray(np.einsum("ij,ij->i", differences, differences))

    @cached_property
    def squared_error(self) -> float:
        """Bound on the rounding error of a squared distance (the usual dot-product analysis)."""
        return float(4.0 * (self.points.shape[1] + 4) * _HALF_ULP * self._squared_norms.max(initial=0.0))


class Euclidean(_Gram):
    """Straight-line distances."""

    def block(self, rows: Rows, columns: Rows) -> FloatArray:
        """Return euclidean distances."""
        distances = self.squared(rows, columns)
        np.sqrt(distances, out=distances)
        distances *= self.scale
        return distances

    def error(self, distance: float) -> float:
        """Return the error bound of one distance."""
        length = distance / self.scale
        return (_root_error(self.squared_error, length) + 4 * _HALF_ULP * length) * self.scale


class Angle(_Gram):
    """Angles between vectors, in radians."""

    def block(self, rows: Rows, columns: Rows) -> FloatArray:
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
        angle = min(distance, math.pi)
        chord_error = _root_error(self.squared_error, 2.0 * math.sin(angle / 2))
        slope = 1.0 / max(math.cos(angle / 2), math.sqrt(max(chord_error, 1e-16)))
        return chord_error * slope + 8 * _HALF_ULP * distance


def same_point(rows: Rows, columns: Rows, points: int) -> tuple[IndexArray, IndexArray]:
    """Return the cells of a block, as two arrays of places, where a point meets itself.

    >>> row, column = same_point(slice(1, 4), np.array([3, 0, 1, 3]), 5)
    >>> row.tolist(), column.tolist()
    ([0, 2, 2], [2, 0, 3])
    """
    if isinstance(rows, slice) and isinstance(columns, slice):
        first, second = rows.indices(points), columns.indices(points)
        if first[2] == second[2] == 1:
            shared = np.arange(max(first[0], second[0]), min(first[1], second[1]))
            return shared - first[0], shared - second[0]
    left = np.arange(points)[rows] if isinstance(rows, slice) else np.asarray(rows)
    right = np.arange(points)[columns] if isinstance(columns, slice) else np.asarray(columns)
    order = np.argsort(right, kind="stable")
    starts = np.searchsorted(right, left, side="left", sorter=order)
    counts = np.searchsorted(right, left, side="right", sorter=order) - starts
    row = np.repeat(np.arange(len(left)), counts)
    offsets = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    return row, order[np.repeat(starts, counts) + offsets]


def _root_error(squared_error: float, root: float) -> float:
    """Return the error of a root whose square is known up to ``squared_error``."""
    return min(squared_error / max(root, 1e-300), math.sqrt(squared_error))


@dataclass(frozen=True, eq=False)
class OwnFunction(_Plain):
    """Distances by a user's function of two arrays of vectors."""

    name: str
    points: FloatArray
    function: DistanceFunction

    def __len__(self) -> int:
        return len(self.points)

    def block(self, rows: Rows, columns: Rows) -> FloatArray:
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


def euclidean(vectors: npt.NDArray[np.generic], scale: float) -> Geometry:
    """Return the euclidean geometry of distinct vectors, exact where they are small integers."""
    if np.issubdtype(vectors.dtype, np.integer):
        integers = vectors.astype(np.int64)
        if 4 * int((integers * integers).sum(axis=1).max(initial=0)) < _EXACT_LIMIT:
            return IntegerEuclidean(vectors.astype(np.float32), scale)
    points = vectors.astype(np.float64)
    points -= points.mean(axis=0)
    return Euclidean("euclidean", points, scale)


def _runs(numbers: IndexArray) -> Iterator[tuple[int, int]]:
    """Cut a sequence into runs of one number each, and into batches of those whose runs are too short to bother."""
    ends = [*(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(numbers)] if len(numbers) else []
    begun = start = 0
    for end in ends:
        if end - start >= _LONG_RUN:
            if begun < start:
                yield begun, start
            yield start, end
            begun = end
        elif end - begun >= _PAIR_BATCH:
            yield begun, end
            begun = end
        start = end
    if ends and begun < ends[-1]:
        yield begun, ends[-1]


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
    return Angle("angle", directions / np.sqrt(np.einsum("ij,ij->i", directions, directions))[:, None], 1.0)


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


def upper_tiles(points: int, step: int = TILE) -> Iterator[tuple[slice, list[slice]]]:
    """Yield every strip of rows with the column tiles on and right of the diagonal: each pair of points once.

    A tile fits in the processor's cache, and a symmetric matrix needs only half of its tiles.
    """
    tiles = [slice(start, min(start + step, points)) for start in range(0, points, step)]
    for number, rows in enumerate(tiles):
        yield rows, tiles[number:]


def in_threads(work: Callable[[S], T], tasks: Iterable[S], threads: int | None) -> Iterator[T]:
    """Apply ``work`` to every task on a few threads (numpy releases the interpreter lock); results in order.

    The matrix library runs single-threaded meanwhile: its own threads wait for one another on a busy machine, and work on
    tiles that fit in a cache gains nothing from them.
    """
    threads = available_threads() if threads is None else threads
    if threads <= 1:
        yield from map(work, tasks)
        return
    with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        yield from pool.map(work, tasks)


def available_threads() -> int:
    """Return how many threads all-pairs work uses unless told otherwise."""
    return min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, 16)
