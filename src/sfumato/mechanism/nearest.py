"""The outputs nearest to a word, with ties broken by public order (the position in the vocabulary)."""

from __future__ import annotations

import numpy as np

from sfumato.space import Space
from sfumato.space.metric import FloatArray, IndexArray, in_threads, row_blocks


def nearest(distances: FloatArray, count: int) -> IndexArray:
    """Return the places of the ``count`` least distances, the nearest first and ties in order of place.

    >>> nearest(np.array([2.0, 1.0, 1.0, 0.0, 1.0]), 3).tolist()
    [3, 1, 2]
    """
    if count >= len(distances):
        return np.argsort(distances, kind="stable")
    bound = np.partition(distances, count - 1)[count - 1]
    near = np.flatnonzero(distances <= bound)
    return near[np.argsort(distances[near], kind="stable")[:count]]


def nearest_outputs(
    space: Space, points: IndexArray, outputs: IndexArray, count: int, threads: int | None = None
) -> tuple[IndexArray, FloatArray]:
    """Return for each point its nearest output words (as places in ``outputs``) and their distances."""
    columns = space.points[outputs]

    def work(rows: slice) -> tuple[IndexArray, FloatArray]:
        block = space.geometry.block(points[rows], columns)
        chosen = np.array([nearest(row, count) for row in block])
        return chosen, np.take_along_axis(block, chosen, axis=1)

    found = list(in_threads(work, row_blocks(len(points), len(outputs)), threads))
    return np.concatenate([places for places, _ in found]), np.concatenate([far for _, far in found])
