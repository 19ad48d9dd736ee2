"""How much a map of a space's points stretches distances: its exact Lipschitz constant over all pairs.

A mechanism that adds noise to f(x) promises epsilon |f(x) - f(x')|.  To say so in the distance of the space, this is
multiplied by the greatest |f(x) - f(x')| / d(x, x') over *all* pairs of the public vocabulary; nothing is sampled, and
nothing is estimated from a text.

Pairs are screened in blocks with the rounding error of the blocks added; a pair that may be the greatest is computed
again from the difference of its vectors.  The result is rounded up, so that it is a bound, and to 24 bits, so that it is
the same on every machine.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.foundation.errors import CertificationError
from sfumato.space import Space, cache
from sfumato.space.metric import Euclidean, FloatArray, IntegerEuclidean, in_threads, upper_tiles

Tick = Callable[[int], None]
_FORMAT = 2
_HALF_ULP = 2.0**-53
_SMALLEST_WORTH_KEEPING = 2000
_SLACK = 1e-9
_BITS = 24
_PAIRS_AT_ONCE = 4096
_FIGURES = ("constant", "neighbour")


@dataclass(frozen=True)
class Stretch:
    """What a map does to the distances of a space."""

    constant: float
    """No pair of points is stretched by more than this factor."""
    neighbour: float
    """Median distance of the image of a point to the nearest other image."""


class TooMuch(CertificationError):
    """A pair is stretched beyond the limit; another map may do."""

    def __init__(self) -> None:
        super().__init__("the map stretches a pair of words beyond the limit; try another map or a greater limit")


def measure(
    space: Space,
    images: FloatArray,
    limit: float = math.inf,
    threads: int | None = None,
    tick: Tick | None = None,
) -> Stretch:
    """Measure a map given by the image of every point of the space, over all pairs.

    Raises :class:`TooMuch` as soon as a pair is found beyond ``limit``.

    >>> line = Space.from_arrays(list("abc"), [[0.0], [1.0], [3.0]])
    >>> round(measure(line, np.array([[0.0], [2.0], [2.0]])).constant, 6)
    2.0
    """
    count = len(images)
    if count == 1:
        return Stretch(0.0, 0.0)
    pairs = _Pairs(space, images)
    tiles = list(upper_tiles(count))
    # The first strip gives the others a threshold; it is found before them so that the outcome does not depend on threads.
    first = _strip(pairs, tiles[0], 0.0, limit, tick)
    threshold, nearest = first
    greatest = threshold
    rest = in_threads(lambda strip: _strip(pairs, strip, threshold, limit, tick), tiles[1:], threads)
    for found, near in rest:
        greatest = max(greatest, found)
        np.minimum(nearest, near, out=nearest)
    return Stretch(_rounded_up(greatest), float(np.median(np.sqrt(nearest))))


class _Pairs:
    """Ratios of distances of pairs, in blocks with their error or one by one."""

    def __init__(self, space: Space, images: FloatArray) -> None:
        self.points = space.locations
        self.images = images
        geometry = space.geometry
        assert isinstance(geometry, (Euclidean, IntegerEuclidean))
        self._geometry = geometry
        self._unit = geometry.scale**2
        self._centred = images - images.mean(axis=0)
        self._norms = np.einsum("ij,ij->i", self._centred, self._centred)
        # The usual dot-product analysis of a squared distance that comes from a product.
        self._error = float(4.0 * (images.shape[1] + 4) * _HALF_ULP * self._norms.max(initial=0.0))

    def block(self, rows: slice, columns: slice) -> tuple[FloatArray, FloatArray]:
        """Return upper bounds of the squared ratios of a block, and the squared distances of the images."""
        squared = self._centred[rows] @ self._centred[columns].T
        squared *= -2.0
        squared += self._norms[rows][:, None] + self._norms[columns][None, :]
        np.maximum(squared, 0.0, out=squared)
        distances = np.asarray(self._geometry.squared(rows, columns), dtype=np.float64)
        distances *= self._unit
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = (squared + self._error) / distances
        if rows == columns:
            np.fill_diagonal(ratios, 0.0)
            np.fill_diagonal(squared, np.inf)
        return ratios, squared

    def squared_ratios(self, first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> FloatArray:
        """Return the squared ratios of some pairs, from the differences of their vectors."""
        above = self.images[first] - self.images[second]
        under = self.points[first] - self.points[second]
        return np.asarray((above * above).sum(axis=1) / (under * under).sum(axis=1))


def _strip(
    pairs: _Pairs, strip: tuple[slice, list[slice]], threshold: float, limit: float, tick: Tick | None
) -> tuple[float, FloatArray]:
    """Return the greatest squared ratio of a strip (or the threshold), and the nearest images as far as it shows them."""
    rows, columns = strip
    greatest = threshold
    nearest = np.full(len(pairs.images), np.inf)
    for tile in columns:
        ratios, squared = pairs.block(rows, tile)
        nearest[rows] = np.minimum(nearest[rows], squared.min(axis=1))
        nearest[tile] = np.minimum(nearest[tile], squared.min(axis=0))
        if ratios.max() > greatest * (1 + _SLACK):
            top = np.array([ratios.argmax()])
            greatest = max(greatest, _greatest_of(pairs, rows, tile, top, ratios.shape[1]))
            close = np.flatnonzero(ratios > greatest * (1 + _SLACK))
            greatest = max(greatest, _greatest_of(pairs, rows, tile, close, ratios.shape[1]))
        if greatest > limit**2:
            raise TooMuch()
    if tick:
        tick(rows.stop - rows.start)
    return greatest, nearest


def _greatest_of(pairs: _Pairs, rows: slice, columns: slice, cells: np.ndarray[Any, Any], width: int) -> float:
    first, second = np.divmod(cells, width)
    greatest = 0.0
    for start in range(0, len(cells), _PAIRS_AT_ONCE):
        part = slice(start, start + _PAIRS_AT_ONCE)
        ratios = pairs.squared_ratios(rows.start + first[part], columns.start + second[part])
        greatest = max(greatest, float(ratios.max()))
    return greatest


def _rounded_up(squared: float) -> float:
    """Return the root of a squared ratio, with the slack of the screening, rounded up to 24 bits."""
    if squared == 0.0:
        return 0.0
    mantissa, exponent = math.frexp(math.sqrt(squared) * (1 + _SLACK))
    return math.ldexp(math.ceil(mantissa * 2**_BITS) / 2**_BITS, exponent)


def remembered(
    space: Space, description: list[Any], compute: Callable[[], dict[str, float]], names: Collection[str] = _FIGURES
) -> dict[str, float]:
    """Return figures about a space and a map, by name: from disk, where they were computed before.

    They depend on public things only: the space, by its digest, and the description of the map.
    """
    if len(space) < _SMALLEST_WORTH_KEEPING:
        return compute()
    key = json.dumps([_FORMAT, space.digest, *description])
    name = f"stretch-{hashlib.sha256(key.encode()).hexdigest()}.json"
    found = cache.read_json(name) or {}
    if set(found) != set(names) or not all(isinstance(figure, (int, float)) for figure in found.values()):
        found = compute()
        cache.write_json(name, found)
    return found
