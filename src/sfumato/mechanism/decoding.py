"""From a noisy vector back to a word: the nearest one, or the two nearest.

What comes out is a function of the noisy vector and of public points only.  It never sees the true word: no candidates
are taken from it, it is not excluded, and nothing falls back to it.  So decoding is post-processing and costs no privacy,
whether it is exact or approximate.

The exact decoder screens with float32 matrix products and settles every close call in float64, by distance and then
by public index.  Its answer therefore does not depend on how vectors are put into batches.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sfumato.foundation.errors import MissingExtraError
from sfumato.space.metric import FloatArray, IndexArray

DECODINGS = ("approximate", "exact")
_SINGLE_HALF_ULP = 2.0**-24
_BLOCK_CELLS = 8_000_000
_SHORTLIST = 8


@dataclass(frozen=True, eq=False)
class Targets:
    """Distinct public points that noisy vectors are decoded to, and the output words on them."""

    points: FloatArray
    first: IndexArray
    """First output word (position in the space) on each point, in public order."""
    second: IndexArray
    """Second output word on each point, or -1."""

    @classmethod
    def of(cls, locations: FloatArray, words: IndexArray) -> Targets:
        """Return the targets of output words with those locations (one row each), in the order of the words."""
        rows = np.ascontiguousarray(locations) + 0.0  # -0.0 and 0.0 are the same place
        keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
        _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
        by_point = np.argsort(inverse.ravel(), kind="stable")
        starts = np.cumsum(counts) - counts
        first = by_point[starts]
        second = np.where(counts > 1, by_point[np.minimum(starts + 1, len(by_point) - 1)], -1)
        order = np.argsort(first)
        first, second = first[order], second[order]
        return cls(rows[first], words[first], np.where(second >= 0, words[second], -1))

    def words(self, count: int) -> IndexArray:
        """Return the words that decoding to ``count`` nearest words can give."""
        if count == 1:
            return self.first
        return np.sort(np.concatenate([self.first, self.second[self.second >= 0]]))


class Decoder(Protocol):
    """Finds the nearest points of noisy vectors."""

    def nearest(self, vectors: FloatArray, count: int) -> tuple[IndexArray, FloatArray]:
        """Places of the ``count`` nearest points of each vector and their distances, nearest first."""
        ...


class ExactDecoder:
    """The nearest points, exactly.

    >>> decoder = ExactDecoder(np.array([[0.0], [1.0], [4.0]]))
    >>> places, distances = decoder.nearest(np.array([[0.7], [9.0]]), 2)
    >>> places.tolist(), distances.round(6).tolist()
    ([[1, 0], [2, 1]], [[0.3, 0.7], [5.0, 8.0]])
    """

    def __init__(self, points: FloatArray) -> None:
        self._points = points
        self._prepare()

    def _prepare(self) -> None:
        """Lay the points out so that one product gives |y|**2 - 2 x.y, shifted and scaled into the unit ball."""
        self._middle = self._points.mean(axis=0)
        centred = self._points - self._middle
        self._reach = float(np.sqrt(np.einsum("ij,ij->i", centred, centred).max())) or 1.0
        centred /= self._reach
        squares = np.einsum("ij,ij->i", centred, centred)
        self._factor = np.ascontiguousarray(np.vstack([-2.0 * centred.T, squares]).astype(np.float32))
        # The usual dot-product analysis, for scores that are at most 3 in size; it covers the rounding to float32.
        self._score_error = 3.03 * (len(self._factor) + 7) * _SINGLE_HALF_ULP

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be made again."""
        return {"_points": self._points}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def nearest(self, vectors: FloatArray, count: int) -> tuple[IndexArray, FloatArray]:
        """Return the nearest points; ties go to the lower place."""
        count = min(count, len(self._points))
        places = np.empty((len(vectors), count), dtype=np.intp)
        distances = np.empty((len(vectors), count))
        step = max(1, _BLOCK_CELLS // len(self._points))
        for start in range(0, len(vectors), step):
            block = slice(start, start + step)
            places[block], distances[block] = self._nearest_of_block(vectors[block], count)
        return places, distances

    def _nearest_of_block(self, vectors: FloatArray, count: int) -> tuple[IndexArray, FloatArray]:
        if len(self._points) == 1:
            only = np.zeros((len(vectors), 1), dtype=np.intp)
            return only, _distances(vectors, self._points, only)
        scores = self._scores(vectors)
        places = np.empty((len(vectors), count), dtype=np.intp)
        rows = np.arange(len(vectors))
        least = np.empty((len(vectors), count), dtype=np.float32)
        for rank in range(count):
            places[:, rank] = scores.argmin(axis=1)
            least[:, rank] = scores[rows, places[:, rank]]
            scores[rows, places[:, rank]] = np.inf
        # Everything that may be among the nearest in truth has a score of at most this.
        limit = least[:, -1].astype(np.float64) + 2.0 * self._score_error
        unclear = np.flatnonzero(scores.min(axis=1) <= limit)
        scores[rows[:, None], places] = least
        if count > 1:
            places = _in_order(vectors, self._points, places)
        for row in unclear.tolist():
            near = np.flatnonzero(scores[row] <= limit[row])[None, :]
            places[row] = _in_order(vectors[row : row + 1], self._points, near)[0, :count]
        return places, _distances(vectors, self._points, places)

    def _scores(self, vectors: FloatArray) -> npt.NDArray[np.float32]:
        """Return (|y|**2 - 2 x.y) / max(|x|, 1) in units of the reach, which orders points as their distance does."""
        centred = vectors - self._middle
        centred /= self._reach
        sizes = np.sqrt(np.einsum("ij,ij->i", centred, centred))
        shrink = 1.0 / np.maximum(sizes, 1.0)
        left = np.empty((len(vectors), centred.shape[1] + 1), dtype=np.float32)
        left[:, :-1] = centred * shrink[:, None]
        left[:, -1] = shrink
        return np.asarray(left @ self._factor)


class ApproximateDecoder:
    """Nearly always the nearest points: only the lists of points nearest to the vector are searched (faiss).

    The points are put into about sqrt(n) lists around centres that depend on the points alone; ``probes`` lists are
    searched for each vector, and the best few are compared in float64.
    """

    def __init__(self, points: FloatArray, probes: int) -> None:
        self._points = points
        self._probes = probes
        self._prepare()

    def _prepare(self) -> None:
        self._middle = self._points.mean(axis=0)
        self._index = _build_index(self._points - self._middle, self._probes)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the index: it is built again."""
        return {"_points": self._points, "_probes": self._probes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def nearest(self, vectors: FloatArray, count: int) -> tuple[IndexArray, FloatArray]:
        """Return the nearest points that were found."""
        count = min(count, len(self._points))
        shortlist = min(_SHORTLIST, len(self._points))
        queries = np.ascontiguousarray((vectors - self._middle).astype(np.float32))
        places = self._index.search(queries, shortlist)[1].astype(np.intp)
        # Where the lists searched hold fewer points than asked for, the first ones in public order fill up.
        missing = places < 0
        places[missing] = np.broadcast_to(np.arange(shortlist), places.shape)[missing]
        places = _distinct(_in_order(vectors, self._points, places), count)
        return places, _distances(vectors, self._points, places)


def _build_index(points: FloatArray, probes: int) -> Any:
    """Build the index on one thread, so that the same points always give the same lists."""
    try:
        faiss: Any = importlib.import_module("faiss")
    except ImportError:
        raise MissingExtraError("faiss-cpu", "ann") from None
    lists = max(1, round(len(points) ** 0.5))
    rows = np.ascontiguousarray(points.astype(np.float32))
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        # The lists to search are found by a graph, whose answer for one vector does not depend on the others.
        index = faiss.index_factory(points.shape[1], f"IVF{lists}_HNSW16,Flat")
        index.cp.min_points_per_centroid = 1
        index.train(rows)
        index.add(rows)
    finally:
        faiss.omp_set_num_threads(threads)
    index.nprobe = min(probes, lists)
    faiss.downcast_index(index.quantizer).hnsw.efSearch = max(64, 2 * index.nprobe)
    return index


def _distances(vectors: FloatArray, points: FloatArray, places: IndexArray) -> FloatArray:
    """Return float64 distances of each vector to some points; each depends on the two alone."""
    differences = vectors[:, None, :] - points[places]
    return np.asarray(np.sqrt((differences * differences).sum(axis=-1)))


def _in_order(vectors: FloatArray, points: FloatArray, places: IndexArray) -> IndexArray:
    """Sort each row of places by distance, and then by place.

    Compared is |x - y|**2 - |x - z|**2 = (y - z).((y - x) + (z - x)) for one z of the row: unlike the distances themselves
    it tells near points apart from any distance.
    """
    reference = points[places.min(axis=1)][:, None, :]
    near, vectors = points[places], vectors[:, None, :]
    scores = ((near - reference) * ((near - vectors) + (reference - vectors))).sum(axis=-1)
    return np.take_along_axis(places, np.lexsort((places, scores), axis=-1), axis=1)


def _distinct(places: IndexArray, count: int) -> IndexArray:
    """Return the first ``count`` distinct places of each row (rows are sorted, so equal places are neighbours)."""
    if count == 1:
        return places[:, :1]
    other = (places != places[:, :1]).argmax(axis=1)
    return np.take_along_axis(places, np.stack([np.zeros_like(other), other], axis=1), axis=1)
