"""Words with vectors and a metric: the public ground on which every word mechanism stands."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.foundation.checks import require_count, require_positive
from sfumato.foundation.errors import ParameterError, SpaceError
from sfumato.space import cache, grid, metric, own_metric
from sfumato.space.distinct import distinct_rows
from sfumato.space.metric import DistanceFunction, FloatArray, Geometry, IndexArray
from sfumato.space.statistics import SpaceStatistics, compute_statistics

METRICS = ("angle", "euclidean")


@dataclass(frozen=True, eq=False)
class Space:
    """A public vocabulary in a metric space.

    >>> space = Space.from_arrays(["cold", "cool", "warm", "hot"], [[0.0], [1.0], [3.0], [4.0]])
    >>> len(space), space.statistics.diameter
    (4, 4.0)
    >>> space.neighbours("cool", 2)
    [('cold', 1.0), ('warm', 2.0)]
    """

    words: tuple[str, ...]
    vectors: npt.NDArray[np.generic] = field(repr=False)
    metric: str = "euclidean"
    name: str = "unnamed"
    scale: float = 1.0
    """A stored vector times ``scale`` is the real one (integer vectors are stored as they are)."""
    metric_function: DistanceFunction | None = field(default=None, repr=False)
    triangle_checked: bool = True
    """Whether the triangle inequality is known to hold everywhere, not only on a sample of triples."""

    @classmethod
    def from_arrays(
        cls,
        words: Iterable[str],
        vectors: npt.ArrayLike,
        *,
        metric: str | DistanceFunction = "euclidean",
        name: str = "unnamed",
        scale: float = 1.0,
    ) -> Space:
        """Build a space from words and a two-dimensional array, checking everything that can be wrong with them."""
        words = tuple(words)
        array = _checked_vectors(words, vectors)
        require_positive(scale=scale)
        if callable(metric):
            label = getattr(metric, "__name__", "own")
            whole = _check_own_metric(label, metric, array, scale)
            return cls(words, array, label, name, scale, metric, whole)
        if metric not in METRICS:
            raise ParameterError(f"metric must be one of {', '.join(METRICS)} or a function of two arrays of vectors")
        grid.require_size(array, scale)
        space = cls(words, array, metric, name, scale)
        if metric == "angle":
            _ = space.geometry  # a zero vector has no direction: say so now
        return space

    @classmethod
    def load(cls, name: str = "default", *, limit: int | None = None) -> Space:
        """Return the default space of the package, or one that was fetched with ``sfumato space get``.

        ``limit`` takes the first words only: the published files hold millions, sorted by frequency.
        """
        if limit is not None:
            require_count(limit=limit)
        if name == "default":
            space = _default_space()
            return space if limit is None or limit >= len(space) else space.head(limit)
        from sfumato.space import catalogue

        return catalogue.load(name, limit=limit)

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        metric: str | DistanceFunction = "euclidean",
        limit: int | None = None,
        member: str | None = None,
        duplicates: str = "error",
    ) -> Space:
        """Read a GloVe, word2vec or fastText file (text or binary, also gzipped or zipped) or a ``.npz``.

        ``member`` names a file inside a zip archive; ``duplicates="first"`` keeps the first of repeated words.
        """
        from sfumato.space import files

        words, vectors, scale = files.read(Path(path), limit=limit, member=member, duplicates=duplicates)
        vectors.flags.writeable = False  # nobody else has it, so it need not be copied
        return cls.from_arrays(words, vectors, metric=metric, name=Path(path).stem, scale=scale)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the digest of a metric of one's own: where this is read, its name may stand for another function."""
        state = self.__dict__.copy()
        if self.metric_function is not None:
            state.pop("digest", None)
        return state

    def __len__(self) -> int:
        return len(self.words)

    @property
    def dimension(self) -> int:
        """Number of components of a vector."""
        return int(self.vectors.shape[1])

    @cached_property
    def index(self) -> dict[str, int]:
        """Position of every word."""
        return {word: position for position, word in enumerate(self.words)}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that fixes the distances: words, vectors, scale and metric.

        A metric of one's own is a program, of which nothing but its identity can be told: with one, the digest is that
        of this process, and another one where the same space is made again in another process.
        """
        hasher = hashlib.sha256()
        words = "\n".join(self.words)
        parts: list[bytes | memoryview] = [
            words.encode("utf-8", "surrogatepass"),
            str((self.vectors.dtype.str, self.vectors.shape, self.scale, self.metric)).encode(),
            np.ascontiguousarray(self.vectors).data,
        ]
        if words.count("\n") != len(self.words) - 1:  # words with line breaks: where each one ends is not clear
            parts.append(str([len(word) for word in self.words]).encode())
        if self.metric_function is not None:
            parts.append(b"function " + own_metric.token_of(self.metric_function).encode())
        for part in parts:
            hasher.update(str(len(part)).encode() + b":")
            hasher.update(part)
        return hasher.hexdigest()

    def with_known(
        self,
        digest: str,
        statistics: SpaceStatistics,
        distinct: tuple[npt.NDArray[Any], IndexArray],
        step: float,
    ) -> Space:
        """Return this space with figures that were computed before, so that they need not be again."""
        known = replace(self)
        known.__dict__.update(digest=digest, statistics=statistics, distinct=distinct, step=step)
        return known

    @cached_property
    def _rounded(self) -> tuple[npt.NDArray[Any], float, FloatArray | float]:
        """Vectors (directions, for angles) as whole numbers, what they count, and the middle they count from."""
        if self.metric == "angle":
            return *grid.unit_directions(self.vectors), 0.0
        vectors: npt.NDArray[Any] = self.vectors
        if np.issubdtype(vectors.dtype, np.integer) and metric.small_enough(vectors):
            return vectors, 1.0, 0.0
        return grid.on_grid(vectors)

    @cached_property
    def step(self) -> float:
        """What the whole numbers in :attr:`distinct` count, before the scale."""
        return self._rounded[1]

    @cached_property
    def distinct(self) -> tuple[npt.NDArray[Any], IndexArray]:
        """Distinct vectors in order of first appearance (on a grid, see the guide), and the point of every word."""
        if self.metric_function is not None:
            array = np.ascontiguousarray(self.vectors) + self.vectors.dtype.type(0)  # -0.0 and 0.0 are the same
        else:
            array = np.ascontiguousarray(self._rounded[0])
        first, inverse = distinct_rows(array)
        if len(first) == len(array):
            return array, np.arange(len(array))
        order = np.argsort(first, kind="stable")
        rank = np.empty(len(order), dtype=np.intp)
        rank[order] = np.arange(len(order))
        return array[first[order]], rank[inverse]

    @property
    def points(self) -> IndexArray:
        """Point of every word in :attr:`geometry`; words with the same vector share a point."""
        return self.distinct[1]

    @cached_property
    def geometry(self) -> Geometry:
        """The distinct points and their distances."""
        distinct = self.distinct[0]
        if self.metric_function is not None:
            return own_metric.OwnFunction(self.metric, distinct.astype(np.float64) * self.scale, self.metric_function)
        if self.metric == "angle":
            return metric.angle(distinct, self.step)
        return metric.euclidean(distinct, self.scale * self.step)

    @property
    def locations(self) -> FloatArray:
        """The real vectors of the distinct points.

        Where they lie far from the origin their last digits are lost: what depends on differences must start from
        :attr:`centred`.
        """
        first = np.unique(self.points, return_index=True)[1]
        whole, step, middle = self._rounded
        return np.asarray((whole[first].astype(np.float64) + middle) * (step * self.scale))

    @property
    def centred(self) -> FloatArray:
        """The distinct points less :attr:`middle`: straight-line distances are computed from these."""
        return np.asarray(self.distinct[0].astype(np.float64) * (self.scale * self.step))

    @property
    def middle(self) -> FloatArray:
        """What was taken away from every vector before distances are computed, which it does not change."""
        step, middle = self._rounded[1:]
        return np.asarray(np.zeros(self.dimension) + middle * (step * self.scale))

    @cached_property
    def statistics(self) -> SpaceStatistics:
        """All-pairs figures; computed once and kept on disk by digest (not for a user's own metric)."""
        return self.compute_statistics()

    def compute_statistics(self, tick: Callable[[int], None] | None = None) -> SpaceStatistics:
        """Return :attr:`statistics`, telling ``tick`` about rows done where they must be computed."""
        name = f"statistics-{self.digest}.json"
        known = None if self.metric_function else _shipped_statistics(name) or cache.read_json(name)
        read = known and SpaceStatistics.from_json(known, len(self))
        if read:
            return read
        statistics = compute_statistics(self.geometry, tick=tick)
        if not self.metric_function:
            cache.write_json(name, statistics.to_json())
        return statistics

    def positions(self, words: Sequence[str]) -> IndexArray:
        """Return the positions of words, which must all be in the vocabulary."""
        found = [self.index.get(word, -1) for word in words]
        if -1 in found:
            raise ParameterError(
                f"{found.count(-1)} of {len(found)} words are not in the space {self.name!r}, the first at "
                f"position {found.index(-1)} of the list"
            )
        return np.array(found, dtype=np.intp)

    def distances(self, rows: IndexArray, columns: IndexArray | None = None) -> FloatArray:
        """Return the block of distances between words, given by position."""
        others = self.points if columns is None else self.points[columns]
        return self.geometry.block(self.points[rows], others)

    def distance(self, one: str, other: str) -> float:
        """Return the distance of two words."""
        a, b = self.positions([one, other])
        return float(self.distances(np.array([a]), np.array([b]))[0, 0])

    def neighbours(self, word: str, count: int = 10) -> list[tuple[str, float]]:
        """Return the nearest other words with their distances; ties in vocabulary order."""
        require_count(count=count)
        row = self.distances(self.positions([word]))[0]
        row[self.index[word]] = np.inf
        count = min(count, len(self) - 1)
        nearest = np.argsort(row, kind="stable")[:count]
        return [(self.words[i], float(row[i])) for i in nearest]

    def restricted(self, words: Sequence[str], name: str | None = None) -> Space:
        """Return the space of some of its words, in vocabulary order."""
        if isinstance(words, str) or len(words) == 0:
            raise SpaceError("a part of a space is given by a list of at least one word")
        chosen = np.unique(self.positions(words))
        return Space(
            tuple(self.words[i] for i in chosen),
            self.vectors[chosen],
            self.metric,
            name or f"{self.name} (part)",
            self.scale,
            self.metric_function,
            self.triangle_checked,
        )

    def head(self, count: int) -> Space:
        """Return the space of the first ``count`` words."""
        require_count(count=count)
        return self.restricted(self.words[:count], f"{self.name} (first {count})")


def _checked_vectors(words: tuple[str, ...], vectors: npt.ArrayLike) -> npt.NDArray[np.generic]:
    try:
        array = np.asarray(vectors)
    except ValueError:  # rows of unlike lengths
        array = np.empty(0)
    if array.ndim != 2 or array.dtype.kind not in "iuf":
        raise SpaceError("vectors must be a two-dimensional array of numbers, one row for each word")
    if not words:
        raise SpaceError("a space needs at least one word")
    if len(words) != len(array):
        raise SpaceError(f"there are {len(words)} words but {len(array)} vectors")
    if array.shape[1] == 0:
        raise SpaceError("vectors need at least one component")
    if array.dtype.kind == "f":
        rows = metric.row_blocks(len(array), array.shape[1])
        bad = np.flatnonzero(np.concatenate([~np.isfinite(array[part]).all(axis=1) for part in rows]))
        if len(bad):
            raise SpaceError(f"the vector at position {bad[0]} has a NaN or infinite component ({len(bad)} such)")
    seen: set[str] = set()
    for position, word in enumerate(words):
        if not isinstance(word, str) or word == "":
            raise SpaceError(f"the word at position {position} is empty or not text")
        if word in seen:
            raise SpaceError(f"the word at position {position} appears twice; words must be distinct")
        seen.add(word)
    if array.flags.writeable or array.base is not None:  # somebody else could change it
        array = array.copy()
        array.flags.writeable = False
    return array


def _check_own_metric(name: str, function: DistanceFunction, array: npt.NDArray[np.generic], scale: float) -> bool:
    return own_metric.check_axioms(name, function, array.astype(np.float64) * scale)


def _shipped_statistics(name: str) -> dict[str, Any] | None:
    """Return the figures that ship beside the default space, so that a first run need not compute them."""
    shipped = resources.files("sfumato.space") / "data" / name
    return json.loads(shipped.read_text()) if shipped.is_file() else None


def _default_space() -> Space:
    source = resources.files("sfumato.space") / "data" / "default.npz"
    with source.open("rb") as file, np.load(file) as data:
        words = data["words"].tobytes().decode("utf-8").split("\n")
        vectors, scale = data["vectors"], float(data["scale"])
    vectors.flags.writeable = False
    return Space(tuple(words), vectors, "euclidean", "default", scale)
