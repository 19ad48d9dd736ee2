"""From a noisy vector back to a word: the nearest one, or the two nearest.

What comes out is a function of the noisy vector and of public points only.  It never sees the true word: no candidates
are taken from it, it is not excluded, and nothing falls back to it.  So decoding is post-processing and costs no privacy,
whether it is exact or approximate.

The exact decoder screens with float32 matrix products, of which it only keeps the least score of every 64 points, and
settles every close call in float64, by distance and then by public index.  Its answer therefore does not depend on how
vectors are put into batches.
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
_VECTORS_AT_ONCE = 1024
_POINTS_AT_ONCE = 1 << 11
_GROUP = 64
_GROUPS_AT_ONCE = 1 << 10
_CELLS_AT_ONCE = 1 << 14
_SHORTLIST = 12
_CODED_FROM = 1 << 14


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
        count, dimension = centred.shape
        # The last group is filled up with its last point, which is left out again among the candidates.
        self._factor = np.zeros((-(-count // _GROUP) * _GROUP, dimension + 1), dtype=np.float32)
        self._factor[:count, :-1] = centred
        self._factor[:count, :-1] *= -2.0
        self._factor[:count, -1] = np.einsum("ij,ij->i", centred, centred)
        self._factor[count:] = self._factor[count - 1]
        # The usual dot-product analysis, for scores that are at most 3 in size; it covers the rounding to float32.
        self._score_error = 3.03 * (dimension + 8) * _SINGLE_HALF_ULP

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
        for start in range(0, len(vectors), _VECTORS_AT_ONCE):
            block = slice(start, start + _VECTORS_AT_ONCE)
            places[block], distances[block] = self._nearest_of_block(vectors[block], count)
        return places, distances

    def _nearest_of_block(self, vectors: FloatArray, count: int) -> tuple[IndexArray, FloatArray]:
        """Find the groups of points that can hold a nearest one by their least scores, and look into those only."""
        left = self._left(vectors)
        least = np.empty((len(vectors), len(self._factor) // _GROUP), dtype=np.float32)
        for start in range(0, len(self._factor), _POINTS_AT_ONCE):
            tile = self._factor[start : start + _POINTS_AT_ONCE]
            groups = slice(start // _GROUP, start // _GROUP + len(tile) // _GROUP)
            scores = left @ tile.T
            np.min(scores.reshape(len(left), -1, _GROUP), axis=2, out=least[:, groups])
        place, sizes = self._candidates(left, least, count)
        starts = np.cumsum(sizes) - sizes
        places = np.empty((len(vectors), count), dtype=np.intp)
        for size in np.unique(sizes).tolist():
            chosen = np.flatnonzero(sizes == size)
            near = place[starts[chosen][:, None] + np.arange(size)]
            for part in range(0, len(chosen), max(1, _CELLS_AT_ONCE // size)):
                some = slice(part, part + max(1, _CELLS_AT_ONCE // size))
                ordered = near[some] if size == 1 else _in_order(vectors[chosen[some]], self._points, near[some])
                places[chosen[some]] = ordered[:, :count]
        return places, _distances(vectors, self._points, places)

    def _candidates(
        self, left: npt.NDArray[np.float32], least: npt.NDArray[np.float32], count: int
    ) -> tuple[IndexArray, IndexArray]:
        """Return all points that may be among the nearest in truth, row by row, and how many each row has.

        The nearest ``count`` groups hold so many points with scores up to the last of their least scores.  So the true
        nearest have scores of at most that, and twice the error.
        """
        if least.shape[1] > count:
            limit = least.min(axis=1) if count == 1 else np.partition(least, count - 1, axis=1)[:, count - 1]
            limit = limit.astype(np.float64) + 2.0 * self._score_error
        else:
            limit = np.full(len(left), np.inf)
        row, group = np.nonzero(least <= limit[:, None])
        rows, places = [], []
        for start in range(0, len(row), _GROUPS_AT_ONCE):
            some, of = group[start : start + _GROUPS_AT_ONCE], row[start : start + _GROUPS_AT_ONCE]
            points = some[:, None] * _GROUP + np.arange(_GROUP)
            scores = np.matmul(self._factor[points], left[of][:, :, None])[:, :, 0]
            pair, within = np.nonzero((scores <= limit[of][:, None]) & (points < len(self._points)))
            rows.append(of[pair])
            places.append(points[pair, within])
        return np.concatenate(places), np.bincount(np.concatenate(rows), minlength=len(left))

    def _left(self, vectors: FloatArray) -> npt.NDArray[np.float32]:
        """Return the other factor: a score is (|y|**2 - 2 x.y) / max(|x|, 1) in units of the reach, which orders points
        as their distance does.
        """
        centred = vectors - self._middle
        centred /= self._reach
        sizes = np.sqrt(np.einsum("ij,ij->i", centred, centred))
        shrink = 1.0 / np.maximum(sizes, 1.0)
        left = np.empty((len(vectors), centred.shape[1] + 1), dtype=np.float32)
        left[:, :-1] = centred * shrink[:, None]
        left[:, -1] = shrink
        return left


class ApproximateDecoder:
    """Nearly always the nearest points: only the lists of points nearest to the vector are searched (faiss).

    The points are put into about 2 sqrt(n) lists around centres that depend on the points alone.  In the ``probes`` lists
    nearest to a vector all points are compared, of large spaces by a code of 4 bits for every two components, and the best
    few of them in float64.
    """

    def __init__(self, points: FloatArray, probes: int) -> None:
        self._points = points
        self._probes = probes
        self._prepare()

    def _prepare(self) -> None:
        self._middle = self._points.mean(axis=0)
        self._index = _build_index(_singles(self._points - self._middle), self._probes)

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
        places = self._index.search(_singles(vectors - self._middle), shortlist)[1].astype(np.intp)
        places = _filled(places)
        places = _distinct(_in_order(vectors, self._points, places), count)
        return places, _distances(vectors, self._points, places)


def _filled(places: IndexArray) -> IndexArray:
    """Return places without gaps: a row that has some (-1) gets the first points in public order as further candidates.

    They come in addition, so that a row with gaps has as many different places as it is long, and a row without is decoded
    as it would be alone.

    >>> _filled(np.array([[5, -1], [3, 4]])).tolist()
    [[5, 0, 0, 1], [3, 4, 3, 3]]
    """
    missing = places < 0
    if not missing.any():
        return places
    first = np.arange(places.shape[1])
    more = np.where(np.any(missing, axis=1, keepdims=True), first, places[:, :1])
    return np.hstack([np.where(missing, 0, places), more])


def _singles(vectors: FloatArray) -> npt.NDArray[np.float32]:
    """Return vectors in single precision, with a component of 0 more where their number is odd."""
    singles = np.zeros((len(vectors), vectors.shape[1] + vectors.shape[1] % 2), dtype=np.float32)
    singles[:, : vectors.shape[1]] = vectors
    return singles


def _build_index(rows: npt.NDArray[np.float32], probes: int) -> Any:
    """Build the index on one thread, so that the same points always give the same lists."""
    try:
        faiss: Any = importlib.import_module("faiss")
    except ImportError:
        raise MissingExtraError("faiss-cpu", "ann") from None
    lists = min(len(rows), round(2 * len(rows) ** 0.5))
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        # The lists to search are found by a graph, whose answer for one vector does not depend on the others.
        held_as = "Flat" if len(rows) < _CODED_FROM else f"PQ{rows.shape[1] // 2}x4fs"
        index = faiss.index_factory(rows.shape[1], f"IVF{lists}_HNSW16,{held_as}")
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
