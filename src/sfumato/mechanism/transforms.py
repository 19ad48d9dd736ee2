"""Maps of vectors before noise is added, each with its exact Lipschitz constant over the public vocabulary.

| name | map | constant is at most |
|---|---|---|
| ``none`` | x | 1 |
| ``unit-norm`` | x / \\|x\\| | 1 / least \\|x\\| |
| ``unit-ball`` | x / max(1, \\|x\\|): projection on the unit ball | 1 |
| ``min-max`` | each vector's own range stretched to [-1, 1] | 2 (1 + sqrt(2 d)) / least range |
| ``observed-range`` | as min-max, to the range of all components instead of [-1, 1] | as min-max, times half that range |
| ``clip`` | each component cut off at the bounds of a public box | 1 |
| ``jl`` | a fixed public random projection to fewer dimensions | 1 + jl_beta: every pair is checked |

The bounds are theorems about real numbers; the constant that is used is computed over all pairs of the images as they are,
with their rounding (:mod:`sfumato.mechanism.stretch`).  Maps that shift with their points (``none``, ``jl``, and those that
change nothing) are applied without the middle of the space, which is added after the noise: far from the origin, numbers
hold too few digits of a vector to keep the distances of near points.  Bounds, ranges and the matrix come from the public
vocabulary and a public seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from sfumato.foundation.checks import gather, require_count, require_index
from sfumato.foundation.errors import CertificationError, ParameterError
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism.noise import normals
from sfumato.mechanism.stretch import Stretch, Tick, TooMuch, measure, remembered
from sfumato.space import Space
from sfumato.space.metric import FloatArray

TRANSFORMS = ("clip", "jl", "min-max", "none", "observed-range", "unit-ball", "unit-norm")
_MOST_MATRICES = 20
_LEAST_BETA, _GREATEST_BETA = 1e-3, 1e3
_FAILURE = 0.05
"""Chance that a random matrix fails the check of all pairs, for which the dimension is chosen."""


@dataclass(frozen=True)
class Transform:
    """A choice of transform with its public parameters."""

    name: str = "none"
    low: float = -1.0
    """The box of ``clip``."""
    high: float = 1.0
    jl_beta: float = 0.5
    jl_dimension: int | None = None
    jl_seed: int = 0
    threads: int | None = field(default=None, compare=False)
    tick: Tick | None = field(default=None, compare=False)

    def check(self) -> None:
        """Raise where a parameter is outside its domain, also one that this transform does not use."""
        gather(self._check_box, self._check_beta, lambda: require_index(jl_seed=self.jl_seed), self._check_dimension)

    def _check_box(self) -> None:
        if not (_is_finite(self.low) and _is_finite(self.high) and self.low < self.high):
            raise ParameterError("low and high must be finite numbers with low less than high")

    def _check_beta(self) -> None:
        if not (_is_finite(self.jl_beta) and _LEAST_BETA <= self.jl_beta <= _GREATEST_BETA):
            raise ParameterError(f"jl_beta must be a number from {_LEAST_BETA:g} to {_GREATEST_BETA:g}")

    def _check_dimension(self) -> None:
        if self.jl_dimension is not None:
            require_count(jl_dimension=self.jl_dimension)

    def apply(self, space: Space) -> Image:
        """Return the images of the points of a space."""
        return _IMAGES[self.name](self, space)


@dataclass(frozen=True, eq=False)
class Image:
    """The points of a space after a transform."""

    points: FloatArray
    """The images, less :attr:`origin`."""
    stretch: Stretch
    sentence: str
    """What the transform did, for the guarantee's statement; empty for none."""
    origin: FloatArray | float = 0.0

    @property
    def locations(self) -> FloatArray:
        """The images."""
        return np.asarray(self.points + self.origin)


def _is_finite(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _measured(choice: Transform, space: Space, images: FloatArray, key: list[object]) -> Stretch:
    """Return the stretch of a map."""

    def compute() -> dict[str, float]:
        found = measure(space, images, threads=choice.threads, tick=choice.tick)
        return {"constant": found.constant, "neighbour": found.neighbour}

    figures = remembered(space, key, compute, lambda _: images)
    return Stretch(figures["constant"], figures["neighbour"])


def _unchanged(space: Space, sentence: str) -> Image:
    stretch = Stretch(1.0, space.statistics.median_neighbour_distance)
    return Image(space.centred, stretch, sentence, space.middle)


def _none(choice: Transform, space: Space) -> Image:
    return _unchanged(space, "")


def _norms(points: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", points, points)))


def _unit_norm(choice: Transform, space: Space) -> Image:
    points = space.locations
    norms = _norms(points)
    if norms.min() == 0:
        raise ParameterError("transform 'unit-norm' has no value for a zero vector; drop its words or use 'unit-ball'")
    images = points / norms[:, None]
    stretch = _measured(choice, space, images, ["unit-norm"])
    return Image(images, stretch, "Vectors were divided by their length")


def _unit_ball(choice: Transform, space: Space) -> Image:
    points = space.locations
    norms = _norms(points)
    sentence = "Vectors longer than 1 were shortened to length 1"
    if norms.max() <= 1:
        return _unchanged(space, sentence)
    images = points / np.maximum(norms, 1.0)[:, None]
    return Image(images, _measured(choice, space, images, ["unit-ball"]), sentence)


def _own_range(points: FloatArray) -> FloatArray:
    """Return every vector with its own range stretched to [0, 1]."""
    least = points.min(axis=1)
    ranges = points.max(axis=1) - least
    if ranges.min() == 0:
        raise ParameterError(
            "transforms 'min-max' and 'observed-range' have no value for a vector whose components are all equal; drop "
            "its words or use transform 'clip'"
        )
    return np.asarray((points - least[:, None]) / ranges[:, None])


def _min_max(choice: Transform, space: Space) -> Image:
    images = 2.0 * _own_range(space.locations) - 1.0
    stretch = _measured(choice, space, images, ["min-max"])
    return Image(images, stretch, "Each vector's own range of components was stretched to [-1, 1]")


def _observed_range(choice: Transform, space: Space) -> Image:
    """As min-max, up to a shift and the factor (high - low) / 2; the shift is made after the noise."""
    points = space.locations
    low, high = float(points.min()), float(points.max())
    images = (high - low) * _own_range(points)
    stretch = _measured(choice, space, images, ["observed-range"])
    sentence = (
        f"Each vector's own range of components was stretched to [{low:.4g}, {high:.4g}], the range of the public "
        "vocabulary"
    )
    return Image(images, stretch, sentence, low)


def _clip(choice: Transform, space: Space) -> Image:
    points = space.locations
    low, high = float(choice.low), float(choice.high)
    images = np.clip(points, low, high)
    sentence = f"Components were clipped to the public range [{low:.4g}, {high:.4g}]"
    if np.array_equal(images, points):
        return _unchanged(space, sentence)
    stretch = _measured(choice, space, images, ["clip", low, high])
    if np.array_equal(points - space.middle, space.centred):
        # Cutting off rounds nothing, so where the vectors themselves are not rounded it never stretches.
        stretch = Stretch(min(stretch.constant, 1.0), stretch.neighbour)
    return Image(images, stretch, sentence)


def least_dimension(points: int, beta: float, failure: float = _FAILURE) -> int:
    """Return the least m for which a random projection of so many points to m dimensions very likely stretches no pair by
    more than 1 + beta.

    That is the least m with  N (N - 1) / 2 x P[chi2_m > m (1 + beta)**2] <= failure.

    >>> least_dimension(40_000, 0.5), least_dimension(40_000, 1.0)
    (93, 26)
    """
    from scipy.special import gammaincc

    pairs = points * (points - 1) / 2

    def fails(dimension: int) -> bool:
        return bool(pairs * gammaincc(dimension / 2, dimension * (1 + beta) ** 2 / 2) > failure)

    high = 1
    while fails(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fails(middle) else (low, middle)
    return high


def projection(seed: int, attempt: int, rows: int, columns: int) -> FloatArray:
    """Return the public matrix of a seed: normal entries with variance 1 / columns."""
    numbers = RunKey.from_seed(seed).stream("jl", attempt.to_bytes(4, "little")).uint64(rows * columns)
    return normals(numbers).reshape(rows, columns) / math.sqrt(columns)


def _jl_dimension(choice: Transform, space: Space) -> int:
    """Return to how many dimensions vectors are projected: fewer than they have."""
    if choice.jl_dimension is not None:
        if choice.jl_dimension >= space.dimension:
            raise ParameterError(
                f"jl_dimension must be less than the {space.dimension} of the space, got {choice.jl_dimension}; otherwise "
                "leave transform='none'"
            )
        return int(choice.jl_dimension)
    points = len(space.geometry)
    dimension = least_dimension(points, choice.jl_beta)
    if dimension >= space.dimension:
        raise ParameterError(
            f"a projection that stretches no pair of {points} points by more than 1 + jl_beta needs {dimension} "
            f"dimensions, and the space has only {space.dimension}; use a greater jl_beta, give jl_dimension, or leave "
            "transform='none'"
        )
    return dimension


def _jl(choice: Transform, space: Space) -> Image:
    dimension, seed, limit = _jl_dimension(choice, space), int(choice.jl_seed), 1.0 + choice.jl_beta
    points = space.centred

    def matrix(attempt: float) -> FloatArray:
        return projection(seed, int(attempt), space.dimension, dimension)

    def compute() -> dict[str, float]:
        for attempt in range(_MOST_MATRICES):
            try:
                found = measure(space, points @ matrix(attempt), limit, choice.threads, choice.tick)
            except TooMuch:
                continue
            return {"constant": found.constant, "neighbour": found.neighbour, "attempt": attempt}
        raise CertificationError(
            f"{_MOST_MATRICES} projections to {dimension} dimensions each stretched a pair by more than {limit:g}; use a "
            "greater jl_beta or jl_dimension"
        )

    figures = remembered(
        space, ["jl", float(choice.jl_beta), dimension, seed], compute,
        lambda found: points @ matrix(found["attempt"]), attempts=_MOST_MATRICES,
    )  # fmt: skip
    attempt = int(figures["attempt"])
    chosen = matrix(attempt)
    sentence = (
        f"Vectors were projected from {space.dimension} to {dimension} dimensions by a public random matrix (seed "
        f"{seed}, attempt {attempt}); every pair of words was checked"
    )
    return Image(points @ chosen, Stretch(figures["constant"], figures["neighbour"]), sentence, space.middle @ chosen)


_IMAGES: dict[str, Callable[[Transform, Space], Image]] = {
    "clip": _clip,
    "jl": _jl,
    "min-max": _min_max,
    "none": _none,
    "observed-range": _observed_range,
    "unit-ball": _unit_ball,
    "unit-norm": _unit_norm,
}
