"""The greatest slope of a function over all pairs of points of a large space, without all pairs in float64.

For every pair the slope is ``(|v - v'| + a) / min(d, gamma)``, with ``v`` the value of a point and ``a >= 0`` an
allowance.  The outcome is the exact maximum over all pairs, in float64.  Proof, with ``G`` the range of the values and
``b`` a slope that some pair is known to have:

* At the beginning the pair with the least and the greatest value is tried, so ``b >= (G + a) / gamma`` from then on,
  and a pair beyond gamma, whose slope is at most ``(G + a) / gamma``, cannot do better.
* A pair within gamma does better only if ``|v - v'| + a > b d``.  Both sides are squared, ``|v - v'| <= G`` is put in,
  and there remains ``(v - v')**2 - b**2 d**2 > -(2 a G + a**2)``.  The left-hand side is one entry of a product of two
  matrices, so tiles are screened in single precision by their greatest entry.  The threshold is lowered by a bound on
  the error of an entry (see :mod:`sfumato.space.screen`), so no such pair is missed; what reaches it is computed from
  the difference of its vectors in float64.

Measured by ``tests/unit/mechanism/test_screened.py`` against all pairs, in spaces made to mislead the screen too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato.space.metric import (
    Euclidean,
    FloatArray,
    IndexArray,
    IntegerEuclidean,
    in_threads,
    upper_tiles,
)
from sfumato.space.screen import HALF_ULP, SingleArray, UnitBall

Tick = Callable[[int], None]
_EXTREMES = 400
_KEPT = 100
_PAIRS_AT_ONCE = 65_536


@dataclass(frozen=True)
class Steepest:
    """The pair with the greatest slope, by places among the points, and the pairs that come close."""

    slope: float
    first: int
    second: int
    pairs: IndexArray


class SlopeScreen:
    """The values of points, and the greatest slope between any two of them."""

    def __init__(
        self,
        geometry: Euclidean | IntegerEuclidean,
        points: IndexArray,
        values: FloatArray,
        gamma: float,
        allowance: float,
    ) -> None:
        self._geometry = geometry
        self._points = points
        self._values = values
        self._gamma = gamma
        self._allowance = allowance
        every = len(points) == len(geometry)
        self._ball = UnitBall.of(geometry, slice(None) if every else points)
        self._unit = self._ball.reach * geometry.scale

    def steepest(self, threads: int | None, tick: Tick | None) -> Steepest:
        """Return the steepest pair."""
        count = len(self._points)
        best = _Best()
        self._try_extremes(best)
        if best.slope == 0.0:  # all values are equal and nothing is allowed for
            return best.result()
        self._prepare(best.slope)
        tiles = list(upper_tiles(count))
        # The first strip raises the slope for the others, whose outcome then does not depend on the threads.
        self._strip(tiles[0], best, tick)
        for found in in_threads(lambda strip: self._strip(strip, best.copy(), tick), tiles[1:], threads):
            best.take(found)
        return best.result()

    def _slopes(self, first: IndexArray, second: IndexArray) -> FloatArray:
        distances = np.sqrt(self._geometry.between(self._points[first], self._points[second])) * self._geometry.scale
        np.minimum(distances, self._gamma, out=distances)
        gaps = np.abs(self._values[first] - self._values[second]) + self._allowance
        return np.asarray(gaps / distances)

    def _try(self, first: IndexArray, second: IndexArray, best: _Best) -> None:
        for start in range(0, len(first), _PAIRS_AT_ONCE):
            part = slice(start, start + _PAIRS_AT_ONCE)
            best.add(self._slopes(first[part], second[part]), first[part], second[part])

    def _try_extremes(self, best: _Best) -> None:
        """Start from the pairs between the points with the least and the greatest values."""
        order = np.argsort(self._values, kind="stable")
        low, high = order[:_EXTREMES], order[-_EXTREMES:]
        first, second = np.repeat(low, len(high)), np.tile(high, len(low))
        apart = first != second
        self._try(first[apart], second[apart], best)

    def _prepare(self, slope: float) -> None:
        """Lay out values in units of length: the value over the slope over the reach."""
        self._start = slope
        middle = (self._values.max() + self._values.min()) / 2
        self._heights = (self._values - middle) / (slope * self._unit)
        self._most = float(np.abs(self._heights).max())
        gap = 2.0 * self._most
        allowance = self._allowance / (slope * self._unit)
        self._room = 2.0 * allowance * gap + allowance**2
        count, dimension = self._ball.vectors.shape
        right = np.empty((count, dimension + 4), dtype=np.float32)
        right[:, :dimension] = self._ball.vectors
        right[:, dimension] = self._heights
        right[:, dimension + 1] = 1.0
        right[:, dimension + 2] = self._heights**2
        right[:, dimension + 3] = self._ball.squares
        self._right = right

    def _left(self, rows: slice, factor: float) -> SingleArray:
        """Return the other matrix, for a slope ``factor`` times the one started with."""
        vectors, heights = self._ball.vectors[rows], self._heights[rows]
        dimension = vectors.shape[1]
        left = np.empty((len(vectors), dimension + 4), dtype=np.float32)
        np.multiply(vectors, np.float32(2.0 * factor**2), out=left[:, :dimension])
        left[:, dimension] = -2.0 * heights
        left[:, dimension + 1] = heights**2 - factor**2 * self._ball.squares[rows]
        left[:, dimension + 2] = 1.0
        left[:, dimension + 3] = -(factor**2)
        return left

    def _threshold(self, factor: float) -> float:
        """Return what an entry must reach: the room of the allowance, and the error of the product.

        The terms of an entry add up to at most 4 (h**2 + factor**2) in size, h being the greatest height.  A sum of so
        many products errs by at most their number times half an ulp of that; each term was rounded at most four times
        before.
        """
        terms = self._right.shape[1]
        size = 4.0 * (self._most**2 + factor**2)
        return -float(self._room + 1.02 * (terms + 6.0) * HALF_ULP * size)

    def _strip(self, strip: tuple[slice, list[slice]], best: _Best, tick: Tick | None) -> _Best:
        rows, columns = strip
        for tile in columns:
            factor = max(best.slope / self._start, 1.0)
            threshold = self._threshold(factor)
            excess = self._left(rows, factor) @ self._right[tile].T
            if tile == rows:
                np.fill_diagonal(excess, -np.inf)
            if excess.max() < threshold:
                continue
            first, second = np.nonzero(excess >= threshold)
            self._try(rows.start + first, tile.start + second, best)
        if tick:
            tick(rows.stop - rows.start)
        return best


class _Best:
    """The steepest pairs so far, the same whatever the order in which pairs come."""

    def __init__(self) -> None:
        self.slope = 0.0
        self._slopes = np.empty(0)
        self._pairs = np.empty((0, 2), dtype=np.intp)

    def copy(self) -> _Best:
        other = _Best()
        other.slope, other._slopes, other._pairs = self.slope, self._slopes, self._pairs
        return other

    def add(self, slopes: FloatArray, first: IndexArray, second: IndexArray) -> None:
        wanted = np.flatnonzero(slopes >= 0.5 * self.slope)
        pairs = np.stack([np.minimum(first, second)[wanted], np.maximum(first, second)[wanted]], axis=1)
        self._merge(slopes[wanted], pairs)

    def take(self, other: _Best) -> None:
        self._merge(other._slopes, other._pairs)

    def _merge(self, slopes: FloatArray, pairs: IndexArray) -> None:
        pairs = np.concatenate([self._pairs, pairs])
        slopes = np.concatenate([self._slopes, slopes])
        order = np.lexsort((pairs[:, 1], pairs[:, 0], -slopes))
        slopes, pairs = slopes[order], pairs[order]
        fresh = np.ones(len(pairs), dtype=bool)
        fresh[1:] = (pairs[1:] != pairs[:-1]).any(axis=1)
        self._slopes, self._pairs = slopes[fresh][:_KEPT], pairs[fresh][:_KEPT]
        if len(self._slopes):
            self.slope = float(self._slopes[0])

    def result(self) -> Steepest:
        first, second = (int(place) for place in self._pairs[0])
        return Steepest(self.slope, first, second, self._pairs)
