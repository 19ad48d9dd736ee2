"""Figures over all pairs of a space: its scale, its densest and its widest places.

The diameter and the least distance are needed by proofs and are exact whatever the size of the space.  Where vectors
are not integers, a large space is screened in single precision (:mod:`sfumato.space.screen`): the median distance
between neighbours is then that of float32, and the density is counted around evenly spread points only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sfumato.foundation.checks import require_non_negative
from sfumato.foundation.errors import ParameterError
from sfumato.space.closest import least_apart
from sfumato.space.metric import (
    Euclidean,
    FloatArray,
    Geometry,
    IndexArray,
    IntegerEuclidean,
    in_threads,
    row_blocks,
    upper_tiles,
)
from sfumato.space.screen import SingleArray, UnitBall, straight

Tick = Callable[[int], None]
SCREENED_FROM = 8192
"""Points from which on pairs are screened in single precision."""
_INTEGERS_SCREENED_FROM = 65_536
BOUNDED_FROM = 500_000
"""Points beyond which pairs are no longer all looked at: it would take hours."""
_SAMPLED_POINTS = 256
_DENSITY_POINTS = 2048
_WORTH_A_PRODUCT = 1.0 / 64
"""Share of a block from which on it is computed whole in float64: pairs picked one by one cost so much more."""
_PAIRS_AT_ONCE = 4096
_ROUNDING = 1e-3
"""More than what rounding can put between figures that were not computed in the same precision."""


@dataclass(frozen=True)
class SpaceStatistics:
    """All-pairs figures of the distinct points of a space."""

    points: int
    diameter: float
    least_distance: float
    median_neighbour_distance: float
    """Median over the points of the distance to the nearest other point."""
    density: float
    """Mean number of other points within twice the median neighbour distance (over up to 2,048 points where screened)."""
    exact: bool = True
    """Whether diameter and least distance are attained; else they are bounds (from above and from below)."""

    def to_json(self) -> dict[str, float]:
        """Return plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any], words: int) -> SpaceStatistics | None:
        """Read back figures of a space of so many words; None where they cannot be the figures of any.

        >>> good = SpaceStatistics(3, 2.0, 0.5, 0.75, 1.0).to_json()
        >>> SpaceStatistics.from_json(good, 3).diameter, SpaceStatistics.from_json({**good, "diameter": 0.1}, 3)
        (2.0, None)
        """
        try:
            read = cls(**data)
        except TypeError:  # written by another version
            return None
        return read if read._possible(words) else None

    def _possible(self, words: int) -> bool:
        names = ("diameter", "least_distance", "median_neighbour_distance", "density")
        figures = {name: getattr(self, name) for name in names}
        if type(self.points) is not int or type(self.exact) is not bool or not 1 <= self.points <= words:
            return False
        try:
            require_non_negative(**figures)
        except ParameterError:
            return False
        if self.points == 1:
            return not any(figures.values())
        ordered = self.median_neighbour_distance >= self.least_distance * (1 - _ROUNDING)
        within = self.median_neighbour_distance <= self.diameter * (1 + _ROUNDING)
        return ordered and within and self.diameter >= self.least_distance > 0 and self.density <= self.points - 1


def nearest_distances(
    geometry: Geometry, threads: int | None = None, tick: Tick | None = None
) -> tuple[FloatArray, float]:
    """Return for every point the distance to its nearest other point, and the diameter."""
    count = len(geometry)

    def work(strip: tuple[slice, list[slice]]) -> tuple[FloatArray, float]:
        rows, columns = strip
        nearest, largest = np.full(count, np.inf), 0.0
        for tile in columns:
            distances = geometry.block(rows, tile)
            largest = max(largest, float(distances.max()))
            if tile == rows:
                np.fill_diagonal(distances, np.inf)
            nearest[rows] = np.minimum(nearest[rows], distances.min(axis=1))
            nearest[tile] = np.minimum(nearest[tile], distances.min(axis=0))
        if tick:
            tick(rows.stop - rows.start)
        return nearest, largest

    nearest, diameter = np.full(count, np.inf), 0.0
    for part, largest in in_threads(work, upper_tiles(count), threads):
        np.minimum(nearest, part, out=nearest)
        diameter = max(diameter, largest)
    return nearest, diameter


def compute_statistics(geometry: Geometry, threads: int | None = None, tick: Tick | None = None) -> SpaceStatistics:
    """Compute the figures; ``tick`` is told how many rows were done in the first pass."""
    count = len(geometry)
    if count == 1:
        return SpaceStatistics(1, 0.0, 0.0, 0.0, 0.0)
    flat = straight(geometry)
    if flat is not None and count > BOUNDED_FROM:
        return _bounds(flat, threads)
    if flat is not None and count >= (SCREENED_FROM if isinstance(flat, Euclidean) else _INTEGERS_SCREENED_FROM):
        return _Screened(flat).statistics(threads, tick)
    nearest, diameter = nearest_distances(geometry, threads, tick)
    median = float(np.median(nearest))

    def near(strip: tuple[slice, list[slice]]) -> int:
        rows, columns = strip
        within = [int(np.count_nonzero(geometry.block(rows, tile) <= 2 * median)) for tile in columns]
        return 2 * sum(within[1:]) + within[0]

    within = sum(in_threads(near, upper_tiles(count), threads)) - count
    return SpaceStatistics(count, diameter, float(nearest.min()), median, within / count)


def _bounds(geometry: Euclidean | IntegerEuclidean, threads: int | None) -> SpaceStatistics:
    """Return bounds in place of figures over all pairs, and estimates from evenly spread points.

    Twice the greatest distance from the middle is a bound on the diameter; for the least distance see
    :mod:`sfumato.space.closest`.
    """
    count = len(geometry)
    middle = np.rint(np.mean(geometry.points, axis=0, dtype=np.float64))
    reach = 0.0
    for rows in row_blocks(count, geometry.points.shape[1]):
        centred = geometry.points[rows] - middle
        reach = max(reach, float(np.einsum("ij,ij->i", centred, centred).max()))
    chosen = np.unique(np.linspace(0, count - 1, _SAMPLED_POINTS).astype(np.intp))

    def nearest(part: slice) -> FloatArray:
        squared = geometry.squared(chosen[part], slice(None))
        squared[np.arange(len(squared)), chosen[part]] = np.inf
        return np.asarray(squared.min(axis=1), dtype=np.float64)

    found = np.concatenate(list(in_threads(nearest, row_blocks(len(chosen), count, 1 << 24), threads)))
    median = float(np.median(np.sqrt(found))) * geometry.scale
    limit = (2.0 * median / geometry.scale) ** 2

    def within(part: slice) -> int:
        return int(np.count_nonzero(geometry.squared(chosen[part], slice(None)) <= limit))

    near = sum(in_threads(within, row_blocks(len(chosen), count, 1 << 24), threads)) - len(chosen)
    diameter = 2.0 * float(np.sqrt(reach)) * geometry.scale * (1 + 1e-12)
    least = least_apart(geometry) * geometry.scale * (1 - 1e-12)
    return SpaceStatistics(count, diameter, least, median, near / len(chosen), exact=False)


_Found = tuple[SingleArray, float, float]


class _Screened:
    """Statistics of a large space by single-precision products and float64 for the extreme pairs."""

    def __init__(self, geometry: Euclidean | IntegerEuclidean) -> None:
        self._geometry = geometry
        self._ball = UnitBall.of(geometry, slice(None))
        self._left, self._right = self._ball.factors()
        self._error = self._ball.error()
        self._unit = (self._ball.reach * geometry.scale) ** 2

    def statistics(self, threads: int | None, tick: Tick | None) -> SpaceStatistics:
        count = len(self._ball)
        nearest = np.full(count, np.inf, dtype=np.float32)
        least, largest = np.inf, 0.0
        for near, low, high in in_threads(lambda strip: self._strip(strip, tick), upper_tiles(count), threads):
            np.minimum(nearest, near, out=nearest)
            least, largest = min(least, low), max(largest, high)
        scale = self._geometry.scale
        median = float(np.sqrt(max(float(np.median(nearest)), 0.0) * self._unit))
        least_distance, diameter = float(np.sqrt(least)) * scale, float(np.sqrt(largest)) * scale
        return SpaceStatistics(
            count, diameter, least_distance, max(median, least_distance), self._density(median, threads)
        )

    def _strip(self, strip: tuple[slice, list[slice]], tick: Tick | None) -> tuple[SingleArray, float, float]:
        """Return the nearest distances as far as a strip shows them, and its exact least and greatest squared distance."""
        rows, columns = strip
        nearest = np.full(len(self._ball), np.inf, dtype=np.float32)
        least, largest = np.inf, 0.0
        in_single = True
        for tile in columns:
            found = self._in_single(rows, tile, least, largest) if in_single else None
            if found is None:
                in_single = False  # what one tile cannot tell apart, the next of the strip cannot either
                found = self._in_double(rows, tile)
            squared, low, high = found
            least, largest = min(least, low), max(largest, high)
            nearest[rows] = np.minimum(nearest[rows], squared.min(axis=1))
            nearest[tile] = np.minimum(nearest[tile], squared.min(axis=0))
        if tick:
            tick(rows.stop - rows.start)
        return nearest, least, largest

    def _in_single(self, rows: slice, tile: slice, least: float, largest: float) -> _Found | None:
        """Return squared distances in single precision, and the exact least and greatest where they may be new extremes.

        None where too many pairs may be extreme: where a few points lie far out, single precision, whose error is a share
        of their distance, does not tell the others apart.
        """
        squared = self._left[rows] @ self._right[tile].T
        unit, error = self._ball.reach**2, self._error
        most = max(_PAIRS_AT_ONCE, int(_WORTH_A_PRODUCT * squared.size))
        greatest = float(squared.max())
        if greatest >= largest / unit - error:
            top = np.flatnonzero(squared >= max(greatest - 2 * error, largest / unit - error))
            if len(top) > most:
                return None
            largest = float(self._exact(rows, tile, top).max())
        if tile == rows:
            np.fill_diagonal(squared, np.inf)
        lowest = float(squared.min())
        if np.isfinite(lowest) and lowest <= least / unit + error:
            bottom = np.flatnonzero(squared <= min(lowest + 2 * error, least / unit + error))
            if len(bottom) > most:
                return None
            least = float(self._exact(rows, tile, bottom).min())
        return squared, least, largest

    def _in_double(self, rows: slice, tile: slice) -> _Found:
        """Return the same for a whole block from its exact squared distances."""
        squared = np.asarray(self._geometry.squared(rows, tile), dtype=np.float64)
        largest = float(squared.max())
        if tile == rows:
            np.fill_diagonal(squared, np.inf)
        return (squared / self._ball.reach**2).astype(np.float32), float(squared.min()), largest

    def _exact(self, rows: slice, columns: slice, cells: IndexArray) -> FloatArray:
        row, column = np.divmod(cells, columns.stop - columns.start)
        parts = [slice(start, start + _PAIRS_AT_ONCE) for start in range(0, len(cells), _PAIRS_AT_ONCE)]
        between = self._geometry.between
        return np.concatenate([between(rows.start + row[part], columns.start + column[part]) for part in parts])

    def _density(self, median: float, threads: int | None) -> float:
        count = len(self._ball)
        chosen = np.unique(np.linspace(0, count - 1, _DENSITY_POINTS).astype(np.intp))
        limit = 4.0 * median**2 / self._unit

        def work(part: slice) -> int:
            if limit < self._error:  # what far points leave of single precision does not tell these apart
                return int(
                    np.count_nonzero(self._geometry.squared(chosen[part], slice(None)) <= limit * self._ball.reach**2)
                )
            return int(np.count_nonzero(self._left[chosen[part]] @ self._right.T <= np.float32(limit)))

        within = sum(in_threads(work, row_blocks(len(chosen), count), threads))
        return (within - len(chosen)) / len(chosen)
