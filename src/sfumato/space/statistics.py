"""Figures over all pairs of a space: its scale, its densest and its widest places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from sfumato.space.metric import FloatArray, Geometry, in_threads, row_blocks


@dataclass(frozen=True)
class SpaceStatistics:
    """All-pairs figures of the distinct points of a space."""

    points: int
    diameter: float
    least_distance: float
    median_neighbour_distance: float
    """Median over the points of the distance to the nearest other point."""
    mean_distance: float
    density: float
    """Mean number of other points within twice the median neighbour distance."""

    def to_json(self) -> dict[str, float]:
        """Return plain data."""
        return asdict(self)


def nearest_distances(geometry: Geometry, threads: int = 2) -> FloatArray:
    """Return for every point the distance to its nearest other point."""
    return _one_pass(geometry, threads, None)[0]


def _one_pass(geometry: Geometry, threads: int, tick: Callable[[int], None] | None) -> tuple[FloatArray, float, float]:
    count = len(geometry)

    def work(rows: slice) -> tuple[FloatArray, float, float]:
        distances = geometry.block(rows, slice(None))
        largest, total = float(distances.max()), float(distances.sum())
        distances[np.arange(rows.stop - rows.start), np.arange(rows.start, rows.stop)] = np.inf
        if tick:
            tick(rows.stop - rows.start)
        return distances.min(axis=1), largest, total

    nearest, largest, totals = zip(*in_threads(work, row_blocks(count, count), threads), strict=True)
    pairs = max(count * (count - 1), 1)
    return np.concatenate(nearest), max(largest), sum(totals) / pairs


def compute_statistics(
    geometry: Geometry, threads: int = 2, tick: Callable[[int], None] | None = None
) -> SpaceStatistics:
    """Compute the figures in two blocked passes; ``tick`` is told how many rows were done."""
    count = len(geometry)
    if count == 1:
        return SpaceStatistics(1, 0.0, 0.0, 0.0, 0.0, 0.0)
    nearest, diameter, mean = _one_pass(geometry, threads, tick)
    median = float(np.median(nearest))

    def near(rows: slice) -> int:
        return int((geometry.block(rows, slice(None)) <= 2 * median).sum()) - int(rows.stop - rows.start)

    within = sum(in_threads(near, row_blocks(count, count), threads))
    return SpaceStatistics(count, diameter, float(nearest.min()), median, mean, within / count)
