"""The exponential kernel w(y) exp(-rate min(d(x, y), gamma)) over a space, in blocks.

TEM, SanText and all their tunings are this kernel with different rates and output weights, each row divided by its own
sum Z(x).  For input words x, x' and any output y the triangle inequality gives

    ln P(y|x) / P(y|x')  <=  rate d_gamma(x, x') + ln Z(x') - ln Z(x),      d_gamma = min(d, gamma),

with equality at y = x, whatever the weights are.  So the *realised* epsilon, the least one for which the promise
``epsilon d_gamma`` is true, is  rate + max |ln Z(x) - ln Z(x')| / d_gamma(x, x')  over pairs of input words: a computation
over pairs, not over triples.  :func:`certify` computes it with every rounding error added.

A kernel may have a *fill* s(x) too, which is spread evenly over the n outputs before the row is divided by its sum
Z(x) = s(x) + sum of the kernel.  The ratio of two sums of two terms is at most the greater ratio of the terms, so then

    ln P(y|x) / P(y|x')  <=  max(rate d_gamma(x, x'), |ln s(x) - ln s(x')|) + ln Z(x') - ln Z(x).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

import numpy as np

from sfumato.foundation.errors import CertificationError
from sfumato.mechanism.integers import rounding_loss
from sfumato.mechanism.screened import SlopeScreen, Steepest
from sfumato.space import Space
from sfumato.space.metric import (
    BlockFunction,
    FloatArray,
    Geometry,
    IndexArray,
    Profile,
    in_threads,
    row_blocks,
    upper_tiles,
)
from sfumato.space.screen import straight
from sfumato.space.statistics import SCREENED_FROM

Tick = Callable[[int], None]
ULP = 2.0**-52
LEAST_SUM = 1e-280
"""A row's sum is at least that: cells that are not rounded up to the least weight are then far above the subnormal
numbers, for which no relative error is known."""
_TIGHT_PAIRS = 100
_SAMPLED_WORDS = 64
_POINTS_AT_ONCE = 8


@dataclass(frozen=True, eq=False)
class Ground:
    """The public things a kernel stands on: input and output points of a space, and the truncation gamma."""

    space: Space
    inputs: IndexArray
    outputs: IndexArray
    gamma: float

    @property
    def geometry(self) -> Geometry:
        """Distances of the space's points."""
        return self.space.geometry

    @cached_property
    def input_points(self) -> IndexArray:
        """Distinct points of the input words."""
        return np.unique(self.space.points[self.inputs])

    @cached_property
    def _output_points(self) -> tuple[IndexArray, IndexArray, IndexArray]:
        return np.unique(self.space.points[self.outputs], return_inverse=True, return_counts=True)

    @property
    def output_points(self) -> IndexArray:
        """Distinct points of the output words."""
        return self._output_points[0]

    @property
    def multiplicity(self) -> IndexArray:
        """How many output words lie on each output point."""
        return self._output_points[2]

    def to_words(self, per_point: FloatArray) -> FloatArray:
        """Spread a value per output point over its words (the last axis), each row in one piece of memory.

        A sum over a row then does not depend on how many rows there are.
        """
        return per_point.take(self._output_points[1].ravel(), axis=-1)

    @cached_property
    def every_output_is_a_point(self) -> bool:
        """Whether output points, in order, are exactly the output words."""
        return bool(
            (self.multiplicity == 1).all() and (self._output_points[1].ravel() == np.arange(len(self.outputs))).all()
        )

    @cached_property
    def reach(self) -> float:
        """The greatest distance that is charged: gamma or the diameter, whichever is less."""
        return min(self.gamma, self.space.statistics.diameter)

    @cached_property
    def symmetric(self) -> bool:
        """Whether inputs and outputs lie on all points of the space, so that the kernel is one symmetric matrix."""
        return len(self.input_points) == len(self.output_points) == len(self.geometry)

    @cached_property
    def mean_near(self) -> float:
        """Mean number of output words within gamma of evenly spread input words."""
        places = np.unique(np.linspace(0, len(self.inputs) - 1, _SAMPLED_WORDS).astype(np.intp))
        points = self.space.points
        some, others = points[self.inputs[places]], points[self.outputs]
        columns = slice(None) if len(others) == len(self.geometry) and self.every_output_is_a_point else others
        near = [
            np.count_nonzero(self.geometry.block(some[part], columns) < self.gamma)
            for part in row_blocks(len(some), 1, _POINTS_AT_ONCE)
        ]
        return sum(near) / len(places)

    def kernel_function(self, rate: float) -> BlockFunction:
        """Return a function for blocks of exp(-rate d_gamma) between points of the space."""

        return self.geometry.prepare(self._profile(rate))

    def _profile(self, rate: float) -> Profile:
        def profile(distances: FloatArray) -> FloatArray:
            np.minimum(distances, self.gamma, out=distances)
            distances *= -rate
            return np.asarray(np.exp(distances, out=distances))

        return profile

    def block_function(self, rate: float, block: int) -> Callable[[IndexArray, IndexArray], FloatArray] | None:
        """Return a function for the kernel between points and one block of output words each.

        None where a block would cost as much as the row (small vocabularies), or could differ from the row in the last
        bit (distances that are not exact).
        """
        flat = straight(self.geometry)
        if flat is None or len(self.outputs) < 64 * block:
            return None
        return flat.prepare_blocks(self._profile(rate), self.space.points[self.outputs], block)

    def times(
        self, vector: FloatArray, rate: float, points: IndexArray, threads: int | None, tick: Tick | None
    ) -> FloatArray:
        """Return K v for the rows of some points, never holding more than a few blocks of K."""
        kernel = self.kernel_function(rate)
        if self.symmetric:
            return _symmetric_times(kernel, vector, threads, tick)
        columns = slice(None) if len(self.output_points) == len(self.geometry) else self.output_points

        def work(rows: slice) -> FloatArray:
            product = kernel(points[rows], columns) @ vector
            if tick:
                tick(rows.stop - rows.start)
            return np.asarray(product)

        return np.concatenate(list(in_threads(work, row_blocks(len(points), len(self.output_points)), threads)))


def _symmetric_times(kernel: BlockFunction, vector: FloatArray, threads: int | None, tick: Tick | None) -> FloatArray:
    """Return K v computing each pair once; the sums are added in one fixed order, whatever the threads do."""

    def work(strip: tuple[slice, list[slice]]) -> FloatArray:
        rows, columns = strip
        product = np.zeros(len(vector))
        for tile in columns:
            block = kernel(rows, tile)
            product[rows] += block @ vector[tile]
            if tile != rows:
                product[tile] += vector[rows] @ block
        if tick:
            tick(rows.stop - rows.start)
        return product

    total = np.zeros(len(vector))
    for part in in_threads(work, upper_tiles(len(vector)), threads):
        total += part
    return total


@dataclass(frozen=True)
class Certificate:
    """An upper bound on the realised epsilon of the integers that run, and where it is attained."""

    epsilon: float
    first: int
    """An input word (by position in the space) of the worst pair; -1 where there is only one point."""
    second: int
    tight_pairs: IndexArray = field(default_factory=lambda: np.empty((0, 2), dtype=np.intp), repr=False)
    """Pairs of input points (by place) that come close to the bound; where to look when the rate changes."""


class UnderflowingRows(CertificationError):
    """At this rate the rows of some input words are too small for floating point; a smaller one may do."""

    def __init__(self, rate: float) -> None:
        super().__init__(
            f"at rate {rate:g} some input words are so far from every output word that their row underflows; "
            "use a smaller epsilon, or make the inputs part of the outputs"
        )


def require_apart(ground: Ground) -> None:
    """Refuse a metric under which two words with unlike vectors are at distance 0, and so would need equal rows."""
    if len(ground.input_points) > 1 and not ground.space.statistics.least_distance > 0:
        raise CertificationError(
            "under this metric two words with unlike vectors are at distance 0; give them the same vector, or use a "
            "metric that tells them apart"
        )


def log_sums(
    ground: Ground,
    weights: FloatArray,
    rate: float,
    threads: int | None,
    tick: Tick | None = None,
    fill: FloatArray | None = None,
) -> FloatArray:
    """Return ln Z for every input point; ``weights`` are per output point, ``fill`` per input point."""
    sums = ground.times(weights, rate, ground.input_points, threads, tick)
    if fill is not None:
        sums += fill
    if not (sums >= LEAST_SUM).all():
        raise UnderflowingRows(rate)
    return np.asarray(np.log(sums))


def loss_allowance(ground: Ground, rate: float) -> float:
    """Return what integer rounding and floating-point arithmetic can add to a log-ratio.

    A wrong distance counts three times: in the kernels of both rows, and in what is charged for the pair, whose slope
    is never above the rate.  A sum of n terms errs by at most n half-ulps: two sums are certified and two divide rows.
    """
    statistics = ground.space.statistics
    distance_error = max(ground.geometry.error(statistics.least_distance), ground.geometry.error(statistics.diameter))
    floating = 3 * rate * distance_error + 2 * ULP * (len(ground.outputs) + 16 * (1 + rate * ground.reach))
    return rounding_loss(len(ground.outputs)) + floating


def certify(
    ground: Ground,
    log_z: FloatArray,
    rate: float,
    threads: int | None,
    tick: Tick | None = None,
    fill: FloatArray | None = None,
) -> Certificate:
    """Return the certificate of a kernel with the given sums: no pair of input words loses more.

    The bound is for the integers: it includes rounding to weights, the least weight and the error of the distances.
    """
    points = ground.input_points
    if len(points) == 1:
        return Certificate(0.0, -1, -1)
    worst = steepest_pair(ground, log_z, loss_allowance(ground, rate), threads, tick)
    if fill is not None:
        rate = max(rate, steepest_fill(ground, fill, threads, tick).slope)
    words = first_word_of_points(ground)
    return Certificate(
        (rate + worst.slope) * (1 + 1e-12),
        int(words[points[worst.first]]),
        int(words[points[worst.second]]),
        worst.pairs,
    )


def steepest_fill(ground: Ground, fill: FloatArray, threads: int | None, tick: Tick | None = None) -> Steepest:
    """Return where the logarithm of a fill changes most for the distance, with what rounding can add."""
    if not (np.isfinite(fill).all() and (fill > 0).all()):
        raise CertificationError("a fill must be a positive number for every input; compile the mechanism again")
    logs = np.log(fill)
    return steepest_pair(ground, logs, 4 * ULP * (1 + float(np.abs(logs).max())), threads, tick)


def steepest_pair(
    ground: Ground, values: FloatArray, allowance: float, threads: int | None, tick: Tick | None = None
) -> Steepest:
    """Return the pair of input points with the greatest (|value - value'| + allowance) / d_gamma."""
    points = ground.input_points
    flat = straight(ground.geometry)
    if flat is not None and len(points) >= SCREENED_FROM:
        return SlopeScreen(flat, points, values, ground.gamma, allowance).steepest(threads, tick)

    def profile(distances: FloatArray) -> FloatArray:
        """One over the charged distance; 0 between a point and itself, which loses nothing."""
        np.minimum(distances, ground.gamma, out=distances)
        with np.errstate(divide="ignore"):
            np.divide(1.0, distances, out=distances)
        distances[np.isinf(distances)] = 0.0
        return distances

    inverse = ground.geometry.prepare(profile)

    def work(strip: tuple[slice, list[slice]]) -> list[tuple[float, int, int]]:
        rows, columns = strip
        worst = []
        for tile in columns:
            gap = np.abs(values[rows][:, None] - values[tile][None, :])
            gap += allowance
            gap *= inverse(points[rows], points[tile])
            row, column = divmod(int(gap.argmax()), gap.shape[1])
            worst.append((float(gap[row, column]), rows.start + row, tile.start + column))
        if tick:
            tick(rows.stop - rows.start)
        return worst

    worst = sorted(chain.from_iterable(in_threads(work, upper_tiles(len(points)), threads)), reverse=True)
    slope, first, second = worst[0]
    return Steepest(slope, first, second, np.array([pair for _, *pair in worst[:_TIGHT_PAIRS]], dtype=np.intp))


def first_word_of_points(ground: Ground) -> IndexArray:
    """Return for every point of the space the first input word that lies on it (-1 for none)."""
    words = np.full(len(ground.geometry), -1, dtype=np.intp)
    words[ground.space.points[ground.inputs][::-1]] = ground.inputs[::-1]
    return words


def truncation(epsilon: float, beta: float, outputs: int) -> float:
    """Return the gamma beyond which all words together have a chance of at most ``beta`` under TEM.

    >>> round(truncation(2.0, 0.001, 50_000), 10)
    17.7265130629
    """
    if outputs <= 1:
        return math.inf
    return max(2.0 / epsilon * math.log((1.0 - beta) * (outputs - 1) / beta), 0.0) or math.inf
