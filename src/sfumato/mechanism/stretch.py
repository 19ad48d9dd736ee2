"""How much a map of a space's points stretches distances: its exact Lipschitz constant over all pairs.

A mechanism that adds noise to f(x) promises epsilon |f(x) - f(x')|.  To say so in the distance of the space, this is
multiplied by the greatest |f(x) - f(x')| / d(x, x') over *all* pairs of the public vocabulary; nothing is sampled, and
nothing is estimated from a text.

The images that are measured are the very ones that noise is added to, with their rounding; distances are those of the
space, exact in whole numbers.  Pairs are screened in blocks with the rounding error of the blocks added; a pair that may
be the greatest is computed again from the difference of its vectors.  The result is rounded up, so that it is a bound, and
to 24 bits, so that it is the same on every machine.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.foundation.checks import require_non_negative, require_positive
from sfumato.foundation.errors import CertificationError, ParameterError
from sfumato.space import Space, cache
from sfumato.space.metric import Euclidean, FloatArray, IntegerEuclidean, in_threads, upper_tiles

Tick = Callable[[int], None]
_FORMAT = 3
_HALF_ULP = 2.0**-53
_SMALLEST_WORTH_KEEPING = 2000
_SLACK = 1e-9
_BITS = 24
_PAIRS_AT_ONCE = 4096
_PAIRS_TRIED = 512


@dataclass(frozen=True)
class Stretch:
    """What a map does to the distances of a space."""

    constant: float
    """No pair of points is stretched by more than this factor."""
    neighbour: float
    """Median distance of the image of a point to the nearest other image."""


@dataclass(frozen=True, eq=False)
class Inverse:
    """The matrix that makes noise of a shape spherical, as far as it could be computed."""

    matrix: FloatArray
    off: float
    """By what share the length of an image can differ from that under the true inverse, roundings included."""


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
    inverse: Inverse | None = None,
) -> Stretch:
    """Measure a map given by the image of every point of the space, over all pairs.

    Where noise is added to the points, not to the images, and has the shape whose ``inverse`` gave the images, that is given
    too: ratios are then computed from differences of points, so that the rounding of the images does not count.

    Raises :class:`TooMuch` as soon as a pair is found beyond ``limit``.

    >>> line = Space.from_arrays(list("abc"), [[0.0], [1.0], [3.0]])
    >>> round(measure(line, np.array([[0.0], [2.0], [2.0]])).constant, 6)
    2.0
    """
    count = len(images)
    if count == 1:
        return Stretch(0.0, 0.0)
    pairs = _Pairs(space, images, inverse)
    tiles = list(upper_tiles(count))
    # The first strip gives the others a threshold; it is found before them so that the outcome does not depend on threads.
    first = _strip(pairs, tiles[0], 0.0, limit, tick)
    threshold, nearest = first
    greatest = threshold
    rest = in_threads(lambda strip: _strip(pairs, strip, threshold, limit, tick), tiles[1:], threads)
    for found, near in rest:
        greatest = max(greatest, found)
        np.minimum(nearest, near, out=nearest)
    return Stretch(_rounded_up(greatest, inverse.off if inverse else 0.0), float(np.median(np.sqrt(nearest))))


class _Pairs:
    """Ratios of distances of pairs, in blocks with their error or one by one."""

    def __init__(self, space: Space, images: FloatArray, inverse: Inverse | None = None) -> None:
        self.images = images
        self._inverse = inverse
        geometry = space.geometry
        assert isinstance(geometry, (Euclidean, IntegerEuclidean))
        self._geometry = geometry
        self._unit = geometry.scale**2
        self._centred = images - images.mean(axis=0)
        self._norms = np.einsum("ij,ij->i", self._centred, self._centred)
        # The usual dot-product analysis of a squared distance that comes from a product.
        self._error = float(4.0 * (images.shape[1] + 4) * _HALF_ULP * self._norms.max(initial=0.0))
        if inverse is not None:
            # Every image is off by at most so much, and the distance of two by twice that.
            longest = float(np.sqrt(np.einsum("ij,ij->i", space.centred, space.centred).max()))
            off = 2.0 * images.shape[1] * _HALF_ULP * float(np.linalg.norm(inverse.matrix)) * longest
            self._error += 4.0 * off * (2.0 * float(np.sqrt(self._norms.max(initial=0.0))) + off)

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
        if self._inverse is None:
            above = self.images[first] - self.images[second]
        else:
            points = self._geometry.points
            between = points[first].astype(np.float64) - points[second].astype(np.float64)
            above = (between * self._geometry.scale) @ self._inverse.matrix
        return np.asarray((above * above).sum(axis=1) / (self._geometry.between(first, second) * self._unit))


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
        if not ratios.max() <= greatest * (1 + _SLACK):  # NaN is looked at, too
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
        if not np.isfinite(ratios).all():  # NaN would be passed over by max()
            raise CertificationError(
                "how far the map stretches a pair of words cannot be computed: numbers are too large or too small; scale "
                "the vectors of the space"
            )
        greatest = max(greatest, float(ratios.max()))
    return greatest


def _rounded_up(squared: float, off: float) -> float:
    """Return the root of a squared ratio, with what it can be off and the slack of the screening, rounded up to 24 bits."""
    if squared == 0.0:
        return 0.0
    mantissa, exponent = math.frexp(math.sqrt(squared) * (1 + _SLACK) / (1 - off))
    return math.ldexp(math.ceil(mantissa * 2**_BITS) / 2**_BITS, exponent)


def remembered(
    space: Space,
    description: list[Any],
    compute: Callable[[], dict[str, float]],
    images_of: Callable[[dict[str, float]], FloatArray],
    inverse: Inverse | None = None,
    attempts: int = 0,
) -> dict[str, float]:
    """Return figures about a space and a map, by name: from disk, where they were computed before.

    They depend on public things only: the space, by its digest, and the description of the map.  Whatever was written into
    a file becomes a promise, so what is read is tried on some public pairs, with the images that figures stand for, and is
    computed again where it cannot be true.  With ``attempts`` the figures are of one of so many maps, whose number they hold.
    """
    if len(space) < _SMALLEST_WORTH_KEEPING:
        return compute()
    key = json.dumps([_FORMAT, space.digest, *description])
    name = f"stretch-{hashlib.sha256(key.encode()).hexdigest()}.json"
    found = cache.read_json(name) or {}
    if not (_possible(found, attempts) and _holds(space, images_of(found), found["constant"], inverse)):
        found = compute()
        cache.write_json(name, found)
    return found


def _possible(found: dict[str, Any], attempts: int) -> bool:
    """Return whether these are numbers that figures can be; a constant of 0 is rare enough to be measured again."""
    if set(found) != {"constant", "neighbour", *(["attempt"] if attempts else [])}:
        return False
    try:
        require_positive(constant=found["constant"])
        require_non_negative(**found)
    except ParameterError:
        return False
    return found.get("attempt", 0) in range(max(attempts, 1))


def _holds(space: Space, images: FloatArray, constant: float, inverse: Inverse | None) -> bool:
    """Return whether some pairs, drawn with a fixed seed, are stretched by no more than a constant."""
    count = len(images)
    if count == 1:
        return True
    first, step = np.random.default_rng(0).integers([[0], [1]], [[count], [count]], size=(2, _PAIRS_TRIED))
    ratios = _Pairs(space, images, inverse).squared_ratios(first, (first + step) % count)
    return bool((ratios <= constant**2).all())
