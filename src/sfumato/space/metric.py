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
_LARGEST_IN_FLOAT64 = 2**27
_PANEL_POINTS = 512
_PANEL_BLOCKS = 8
_WORTH_A_PANEL = 32
"""Points for which one product with a panel is faster than a small one for each."""
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


class _Straight:
    """Straight-line distances between points whose squared distances are exact whole numbers, times a scale."""

    points: npt.NDArray[np.floating]
    scale: float

    def __len__(self) -> int:
        return len(self.points)

    def between(self, first: IndexArray, second: IndexArray) -> FloatArray:
        """Return exact squared distances of pairs, in units of the squared scale."""
        differences = (self.points[first] - self.points[second]).astype(np.float64)
        return np.asarray(np.einsum("ij,ij->i", differences, differences))

    def squared(self, rows: Rows, columns: Rows) -> npt.NDArray[np.floating]:
        """Return exact squared distances, in units of the squared scale."""
        raise NotImplementedError

    def squared_to_each(self, rows: IndexArray, columns: IndexArray) -> npt.NDArray[np.floating]:
        """Return exact squared distances of every point to points of its own: a row of ``columns`` for each."""
        raise NotImplementedError

    def _profiled(self, profile: Profile) -> Callable[[npt.NDArray[np.floating]], FloatArray]:
        """Return a function from squared distances to the profile."""
        raise NotImplementedError

    def prepare_blocks(
        self, profile: Profile, columns: IndexArray, block: int
    ) -> Callable[[IndexArray, IndexArray], FloatArray]:
        """Return a function for ``profile(distance)`` between points and one block of ``columns`` each.

        Its values are the very ones that :meth:`Geometry.prepare` gives for the same pairs.  It is fastest where the
        numbers of the blocks are sorted: points whose blocks are near each other are then worked on together.
        """
        look_up = self._profiled(profile)
        blocks = np.concatenate([columns, np.repeat(columns[-1:], -len(columns) % block)]).reshape(-1, block)
        in_order = bool((np.diff(columns) == 1).all()) and len(columns) % block == 0

        def function(points: IndexArray, numbers: IndexArray) -> FloatArray:
            squared = np.empty(
                (len(points), block), dtype=np.float64 if self.points.dtype != np.float32 else np.float32
            )
            panels = list(_panels(numbers))
            if len(points) < _WORTH_A_PANEL * len(panels):
                for start in range(0, len(points), _PANEL_POINTS):
                    part = slice(start, start + _PANEL_POINTS)
                    squared[part] = self.squared_to_each(points[part], blocks[numbers[part]])
                return look_up(squared)
            places = np.arange(block)
            for start, stop in panels:
                low, high = int(numbers[start:stop].min()), int(numbers[start:stop].max()) + 1
                others: Rows = blocks[low:high].ravel()
                if in_order:
                    others = slice(int(columns[0]) + low * block, int(columns[0]) + high * block)
                whole = self.squared(points[start:stop], others)
                if high - low > 1:
                    chosen = (numbers[start:stop, None] - low) * block + places
                    whole = whole[np.arange(stop - start)[:, None], chosen]
                squared[start:stop] = whole
            return look_up(squared)

        return function

    def error(self, distance: float) -> float:
        """Return the error bound of one distance: the roundings of a square root and a product."""
        return 4 * _HALF_ULP * distance


@dataclass(frozen=True, eq=False)
class IntegerEuclidean(_Straight):
    """Straight-line distances of small integer vectors, times a scale.

    Squared distances are exact: a float32 matrix product of integers is exact while no partial sum reaches 2**24.  They
    take few distinct values, so a profile is looked up in a table, not computed for every pair.
    """

    factor: npt.NDArray[np.float32]
    """A row ``y, 1, |y|**2`` for each point: its product with ``-2 x, |x|**2, 1`` is the squared distance."""
    scale: float
    name: str = "euclidean"

    @property
    def points(self) -> npt.NDArray[np.float32]:  # type: ignore[override]
        """The integer vectors."""
        return self.factor[:, :-2]

    @cached_property
    def _largest_squared(self) -> int:
        return 4 * int(self.factor[:, -1].max())

    def _left(self, rows: Rows) -> npt.NDArray[np.float32]:
        left = np.array(self.factor[rows])
        left[..., :-2] *= -2
        left[..., -2:] = left[..., -1:-3:-1]
        return left

    def squared(self, rows: Rows, columns: Rows) -> npt.NDArray[np.float32]:
        """Return exact squared distances, in units of the squared scale."""
        return np.asarray(self._left(rows) @ self.factor[columns].T)

    def squared_to_each(self, rows: IndexArray, columns: IndexArray) -> npt.NDArray[np.float32]:
        """Return exact squared distances of every point to points of its own."""
        return np.asarray(np.matmul(self.factor[columns], self._left(rows)[:, :, None])[:, :, 0])

    def block(self, rows: Rows, columns: Rows) -> FloatArray:
        """Return euclidean distances."""
        distances = self.squared(rows, columns).astype(np.float64)
        np.sqrt(distances, out=distances)
        distances *= self.scale
        return distances

    def prepare(self, profile: Profile) -> BlockFunction:
        """Return a function that looks ``profile(distance)`` up in a table."""
        look_up = self._profiled(profile)
        return lambda rows, columns: look_up(self.squared(rows, columns))

    def _profiled(self, profile: Profile) -> Callable[[npt.NDArray[np.floating]], FloatArray]:
        if self._largest_squared > _LARGEST_TABLE:
            return lambda squared: profile(np.sqrt(squared.astype(np.float64)) * self.scale)
        table = profile(np.sqrt(np.arange(self._largest_squared + 1, dtype=np.float64)) * self.scale)
        return lambda squared: table.take(squared.astype(np.intp))


@dataclass(frozen=True, eq=False)
class Euclidean(_Straight, _Plain):
    """Straight-line distances of vectors on the grid of :mod:`sfumato.space.grid`, times a scale.

    Points of a large space are held as 32-bit integers, and taken to float64 some at a time.
    """

    name: str
    points: npt.NDArray[np.float64] | npt.NDArray[np.int32]  # type: ignore[assignment]
    scale: float

    @cached_property
    def _squared_norms(self) -> FloatArray:
        norms = np.empty(len(self.points))
        for part in row_blocks(len(norms), self.points.shape[1]):
            points = self._exact(part)
            norms[part] = np.einsum("ij,ij->i", points, points)
        return norms

    def _exact(self, rows: Rows) -> FloatArray:
        return self.points[rows].astype(np.float64, copy=False)

    def _products(self, rows: Rows, columns: Rows) -> FloatArray:
        left = self._exact(rows)
        if self.points.dtype == np.float64:
            return np.asarray(left @ self._exact(columns).T)
        others = self.points[columns]
        products = np.empty((len(left), len(others)))
        for part in row_blocks(len(others), others.shape[1]):
            products[:, part] = left @ others[part].astype(np.float64).T
        return products

    def squared(self, rows: Rows, columns: Rows) -> FloatArray:
        """Return exact squared distances, in units of the squared scale."""
        products = self._products(rows, columns)
        products *= -2.0
        products += self._squared_norms[rows][:, None]
        products += self._squared_norms[columns][None, :]
        return products

    def squared_to_each(self, rows: IndexArray, columns: IndexArray) -> FloatArray:
        """Return exact squared distances of every point to points of its own."""
        products = np.matmul(self._exact(columns), self._exact(rows)[:, :, None])[:, :, 0]
        products *= -2.0
        products += self._squared_norms[rows][:, None]
        products += self._squared_norms[columns]
        return np.asarray(products)

    def block(self, rows: Rows, columns: Rows) -> FloatArray:
        """Return euclidean distances."""
        distances = self.squared(rows, columns)
        np.sqrt(distances, out=distances)
        distances *= self.scale
        return distances

    def _profiled(self, profile: Profile) -> Callable[[npt.NDArray[np.floating]], FloatArray]:
        return lambda squared: profile(np.sqrt(squared) * self.scale)


class Angle(Euclidean):
    """Angles between directions on the grid, in radians."""

    def block(self, rows: Rows, columns: Rows) -> FloatArray:
        """Return angles, from the chord between directions.

        Directions on a grid are not quite of length one: with lengths a and b and the exact squared distance D, the chord
        between the true directions squared is ``(D - (a - b)**2) / (a b)``.
        """
        first, second = self._lengths[rows][:, None], self._lengths[columns][None, :]
        chords = self.squared(rows, columns)
        chords -= (first - second) ** 2
        chords /= first * second
        np.clip(chords, 0.0, 4.0, out=chords)
        np.sqrt(chords, out=chords)
        chords *= 0.5
        np.arcsin(chords, out=chords)
        chords *= 2.0
        return chords

    @cached_property
    def _lengths(self) -> FloatArray:
        return np.sqrt(self._squared_norms)

    def error(self, distance: float) -> float:
        """Return the error bound of one angle; near opposite vectors the arcsine magnifies it."""
        angle = min(distance, math.pi)
        chord = 2.0 * math.sin(angle / 2)
        # Lengths near 1 / scale are rounded by half an ulp each, and differ by at most the root of the dimension.
        squared = 8 * _HALF_ULP * self.scale * math.sqrt(self.points.shape[1])
        chord_error = min(squared / max(chord, 1e-300), math.sqrt(squared)) + 4 * _HALF_ULP * chord
        slope = 1.0 / max(math.cos(angle / 2), math.sqrt(max(chord_error, 1e-16)))
        return chord_error * slope + 8 * _HALF_ULP * distance


def euclidean(whole: npt.NDArray[np.integer], scale: float) -> Geometry:
    """Return the euclidean geometry of distinct whole-number vectors, by table where they are small."""
    norms = np.concatenate([_squared_norms(whole[start : start + 65_536]) for start in range(0, len(whole), 65_536)])
    if 4 * int(norms.max(initial=0)) >= _EXACT_LIMIT:
        return Euclidean("euclidean", _held(whole), scale)
    factor = np.empty((len(whole), whole.shape[1] + 2), dtype=np.float32)
    factor[:, :-2], factor[:, -2], factor[:, -1] = whole, 1.0, norms
    return IntegerEuclidean(factor, scale)


def small_enough(whole: npt.NDArray[np.integer]) -> bool:
    """Return whether squared distances of whole-number vectors are exact without taking their middle away."""
    largest = max(abs(int(whole.min(initial=0))), abs(int(whole.max(initial=0))))
    return largest * largest * int(whole.shape[1]) <= 2**50


def _squared_norms(whole: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    wide = whole.astype(np.int64)
    return np.asarray(np.einsum("ij,ij->i", wide, wide))


def _panels(numbers: IndexArray) -> Iterator[tuple[int, int]]:
    """Cut a sequence of block numbers into pieces for one matrix product each.

    A piece ends where it has enough points, or spans so many blocks that most of the product would be wasted.
    """
    cells = numbers // _PANEL_BLOCKS
    ends = [*(np.flatnonzero(cells[1:] != cells[:-1]) + 1).tolist(), len(numbers)] if len(numbers) else []
    begun = 0
    for end in ends:
        for start in range(begun, end, _PANEL_POINTS):
            yield start, min(start + _PANEL_POINTS, end)
        begun = end


def angle(directions: npt.NDArray[np.integer], step: float) -> Angle:
    """Return the geometry of angles between distinct directions on the grid."""
    return Angle("angle", _held(directions), step)


def _held(whole: npt.NDArray[np.integer]) -> npt.NDArray[np.float64] | npt.NDArray[np.int32]:
    """Return whole numbers in float64, which is faster, or as 32-bit integers where they are many."""
    if whole.size > _LARGEST_IN_FLOAT64 and whole.dtype.itemsize <= 4:
        return whole.astype(np.int32, copy=False)
    return whole.astype(np.float64)


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
