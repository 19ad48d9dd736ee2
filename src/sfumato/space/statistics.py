"""Figures over all pairs of a space: its scale, its densest and its widest places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from sfumato.space.metric import FloatArray, Geometry, in_threads, upper_tiles


@dataclass(frozen=True)
class SpaceStatistics:
    """All-pairs figures of the distinct points of a space."""

    points: int
    diameter: float
    least_distance: float
    median_neighbour_distance: float
    """Median over the points of the distance to the nearest other point."""
    density: float
    """Mean number of other points within twice the median neighbour distance."""

    def to_json(self) -> dict[str, float]:
        """Return plain data."""
        return asdict(self)


def nearest_distances(
    geometry: Geometry, threads: int | None = None, tick: Callable[[int], None] | None = None
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


def compute_statistics(
    geometry: Geometry, threads: int | None = None, tick: Callable[[int], None] | None = None
) -> SpaceStatistics:
    """Compute the figures in two blocked passes; ``tick`` is told how many rows were done in the first."""
    count = len(geometry)
    if count == 1:
        return SpaceStatistics(1, 0.0, 0.0, 0.0, 0.0)
    nearest, diameter = nearest_distances(geometry, threads, tick)
    median = float(np.median(nearest))

    def near(strip: tuple[slice, list[slice]]) -> int:
        rows, columns = strip
        within = [int(np.count_nonzero(geometry.block(rows, tile) <= 2 * median)) for tile in columns]
        return 2 * sum(within[1:]) + within[0]

    within = sum(in_threads(near, upper_tiles(count), threads)) - count
    return SpaceStatistics(count, diameter, float(nearest.min()), median, within / count)
