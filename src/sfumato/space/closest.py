"""A distance that no two of many points are nearer than, without looking at all pairs.

Points are projected on a few directions at right angles, which makes no distance larger, and put into the cells of a grid
there.  With k directions the grid is laid k + 1 times, each time moved along all of them by w / (k + 1), w being the width of
a cell.  The places at which the k + 1 grids cut one direction are w / (k + 1) apart, so between two points nearer than that at
most one of the grids cuts it.  Over k directions at most k of the k + 1 grids part the two points, and in one of them
they share a cell (the argument of shifted grids, Chan 1998).  So all pairs nearer than w / (k + 1) are among the pairs that
share a cell, whose distances are computed exactly.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from sfumato.space.metric import Euclidean, FloatArray, IndexArray, IntegerEuclidean, row_blocks

_DIRECTIONS = 6
_FIRST_SHARE = 0.125
"""Of the spread of the projections, the first distance that is tried."""
_PAIRS_PER_POINT = 8
_PAIRS_AT_ONCE = 65_536
_ROUNDING = 1e-3
"""Far above what rounding adds to a projection, which is below d 2**-26 for whole numbers below 2**26."""


def least_apart(geometry: Euclidean | IntegerEuclidean) -> float:
    """Return a lower bound on the distance of two points, in units of the scale.

    >>> from sfumato.space import Space
    >>> geometry = Space.from_arrays(["a", "b", "c"], np.array([[0, 9], [40, 3], [44, 0]], dtype=np.int8)).geometry
    >>> 1 <= least_apart(geometry) <= 5
    True
    """
    projected = _projected(geometry)
    near = float(projected.std(axis=0).max()) * _FIRST_SHARE
    while near > 2:
        keys = [_cells(projected, near, number) for number in range(projected.shape[1] + 1)]
        if sum(map(_pairs_in, keys)) <= _PAIRS_PER_POINT * len(projected):
            shared = (geometry.between(first, second).min() for key in keys for first, second in _pairs(key))
            return max(1.0, min(near, float(np.sqrt(min(shared, default=np.inf)))))
        near /= 2
    return 1.0  # distinct points differ by whole numbers


def _projected(geometry: Euclidean | IntegerEuclidean) -> FloatArray:
    count, dimension = geometry.points.shape
    random = np.random.default_rng(0).normal(size=(dimension, min(_DIRECTIONS, dimension)))
    directions = np.linalg.qr(random)[0]
    projected = np.empty((count, directions.shape[1]))
    for part in row_blocks(count, dimension):
        projected[part] = geometry.points[part].astype(np.float64) @ directions
    return projected


def _cells(projected: FloatArray, near: float, number: int) -> npt.NDArray[np.uint64]:
    """Return a number for the cell of every point in one of the grids; now and then two cells have the same."""
    grids = projected.shape[1] + 1
    step = near * (1 + 1e-9) + _ROUNDING
    random = np.random.default_rng(1).integers(0, 2**63, size=(projected.shape[1],), dtype=np.int64)
    keys = np.zeros(len(projected), dtype=np.int64)
    for place, factor in enumerate(map(int, random)):
        keys += np.floor(projected[:, place] / (step * grids) + number / grids).astype(np.int64) * (factor | 1)
    return keys.view(np.uint64)


def _pairs_in(keys: npt.NDArray[np.uint64]) -> int:
    counts = np.unique(keys, return_counts=True)[1]
    return int((counts * (counts - 1) // 2).sum())


def _pairs(keys: npt.NDArray[np.uint64]) -> Iterator[tuple[IndexArray, IndexArray]]:
    """Yield the pairs of places with equal keys, some at a time."""
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    begins = np.arange(len(keys))
    for apart in range(1, len(keys)):
        begins = begins[: np.searchsorted(begins, len(keys) - apart)]
        begins = begins[keys[begins] == keys[begins + apart]]
        if len(begins) == 0:
            return
        for start in range(0, len(begins), _PAIRS_AT_ONCE):
            part = begins[start : start + _PAIRS_AT_ONCE]
            yield order[part], order[part + apart]
