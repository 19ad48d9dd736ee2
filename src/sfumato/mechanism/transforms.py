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

The bounds are theorems; the constant that is used is computed over all pairs (:mod:`sfumato.mechanism.stretch`) and is
never above the bound.  Bounds, ranges and the matrix come from the public vocabulary and a public seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from sfumato.foundation.checks import require_count, require_non_negative, require_positive
from sfumato.foundation.errors import CertificationError, ParameterError
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism.noise import normals
from sfumato.mechanism.stretch import Stretch, Tick, TooMuch, measure, remembered
from sfumato.space import Space
from sfumato.space.metric import FloatArray

TRANSFORMS = ("clip", "jl", "min-max", "none", "observed-range", "unit-ball", "unit-norm")
_MOST_MATRICES = 20
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
        """Raise where a parameter of this transform is outside its domain."""
        if self.name == "clip" and not (_is_finite(self.low) and _is_finite(self.high) and self.low < self.high):
            raise ParameterError("low and high must be finite numbers with low less than high")
        if self.name == "jl":
            require_positive(jl_beta=self.jl_beta)
            require_non_negative(jl_seed=self.jl_seed)
            if self.jl_dimension is not None:
                require_count(jl_dimension=self.jl_dimension)

    def apply(self, space: Space) -> Image:
        """Return the images of the points of a space."""
        return _IMAGES[self.name](self, space, space.locations)


@dataclass(frozen=True, eq=False)
class Image:
    """The points of a space after a transform."""

    locations: FloatArray
    stretch: Stretch
    sentence: str
    """What the transform did, for the guarantee's statement; empty for none."""


def _is_finite(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _measured(choice: Transform, space: Space, images: FloatArray, key: list[object], bound: float) -> Stretch:
    """Return the stretch of a map, never above its theoretical bound."""

    def compute() -> dict[str, float]:
        found = measure(space, images, threads=choice.threads, tick=choice.tick)
        return {"constant": found.constant, "neighbour": found.neighbour}

    figures = remembered(space, key, compute)
    return Stretch(min(figures["constant"], bound), figures["neighbour"])


def _unchanged(space: Space) -> Stretch:
    return Stretch(1.0, space.statistics.median_neighbour_distance)


def _none(choice: Transform, space: Space, points: FloatArray) -> Image:
    return Image(points, _unchanged(space), "")


def _norms(points: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", points, points)))


def _unit_norm(choice: Transform, space: Space, points: FloatArray) -> Image:
    norms = _norms(points)
    if norms.min() == 0:
        raise ParameterError("transform 'unit-norm' has no value for a zero vector; drop its words or use 'unit-ball'")
    images = points / norms[:, None]
    bound = 1.0 / float(norms.min()) * (1 + 1e-12)
    stretch = _measured(choice, space, images, ["unit-norm"], bound)
    return Image(images, stretch, "Vectors were divided by their length")


def _unit_ball(choice: Transform, space: Space, points: FloatArray) -> Image:
    norms = _norms(points)
    sentence = "Vectors longer than 1 were shortened to length 1"
    if norms.max() <= 1:
        return Image(points, _unchanged(space), sentence)
    images = points / np.maximum(norms, 1.0)[:, None]
    return Image(images, _measured(choice, space, images, ["unit-ball"], 1.0), sentence)


def _own_range(points: FloatArray) -> tuple[FloatArray, float]:
    """Return every vector with its own range stretched to [0, 1], and the least of those ranges."""
    least = points.min(axis=1)
    ranges = points.max(axis=1) - least
    if ranges.min() == 0:
        raise ParameterError(
            "transforms 'min-max' and 'observed-range' have no value for a vector whose components are all equal; drop "
            "its words or use transform 'clip'"
        )
    return np.asarray((points - least[:, None]) / ranges[:, None]), float(ranges.min())


def _min_max(choice: Transform, space: Space, points: FloatArray) -> Image:
    unit, least_range = _own_range(points)
    images = 2.0 * unit - 1.0
    bound = 2.0 * (1.0 + math.sqrt(2.0 * space.dimension)) / least_range * (1 + 1e-12)
    stretch = _measured(choice, space, images, ["min-max"], bound)
    return Image(images, stretch, "Each vector's own range of components was stretched to [-1, 1]")


def _observed_range(choice: Transform, space: Space, points: FloatArray) -> Image:
    """As min-max, up to a shift and the factor (high - low) / 2."""
    low, high = float(points.min()), float(points.max())
    min_max = _min_max(choice, space, points)
    half = (high - low) / 2.0
    images = low + half * (min_max.locations + 1.0)
    stretch = Stretch(min_max.stretch.constant * half * (1 + 1e-12), min_max.stretch.neighbour * half)
    sentence = (
        f"Each vector's own range of components was stretched to [{low:.4g}, {high:.4g}], the range of the public "
        "vocabulary"
    )
    return Image(images, stretch, sentence)


def _clip(choice: Transform, space: Space, points: FloatArray) -> Image:
    low, high = float(choice.low), float(choice.high)
    images = np.clip(points, low, high)
    sentence = f"Components were clipped to the public range [{low:.4g}, {high:.4g}]"
    if np.array_equal(images, points):
        return Image(points, _unchanged(space), sentence)
    return Image(images, _measured(choice, space, images, ["clip", low, high], 1.0), sentence)


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


def _jl(choice: Transform, space: Space, points: FloatArray) -> Image:
    dimension = choice.jl_dimension
    if dimension is None:
        dimension = least_dimension(len(points), choice.jl_beta)
        if dimension >= space.dimension > 1:
            raise ParameterError(
                f"a projection that stretches no pair of {len(points)} points by more than 1 + jl_beta needs {dimension} "
                f"dimensions, and the space has only {space.dimension}; use a greater jl_beta or give jl_dimension"
            )
    limit = 1.0 + choice.jl_beta

    def compute() -> dict[str, float]:
        for attempt in range(_MOST_MATRICES):
            images = points @ projection(int(choice.jl_seed), attempt, space.dimension, dimension)
            try:
                found = measure(space, images, limit, choice.threads, choice.tick)
            except TooMuch:
                continue
            return {"constant": found.constant, "neighbour": found.neighbour, "attempt": attempt}
        raise CertificationError(
            f"{_MOST_MATRICES} projections to {dimension} dimensions each stretched a pair by more than {limit:g}; use a "
            "greater jl_beta or jl_dimension"
        )

    description = ["jl", float(choice.jl_beta), dimension, int(choice.jl_seed)]
    figures = remembered(space, description, compute, ("constant", "neighbour", "attempt"))
    attempt = int(figures["attempt"])
    images = points @ projection(int(choice.jl_seed), attempt, space.dimension, dimension)
    sentence = (
        f"Vectors were projected from {space.dimension} to {dimension} dimensions by a public random matrix (seed "
        f"{choice.jl_seed}, attempt {attempt}); every pair of words was checked"
    )
    return Image(images, Stretch(min(figures["constant"], limit), figures["neighbour"]), sentence)


_IMAGES: dict[str, Callable[[Transform, Space, FloatArray], Image]] = {
    "clip": _clip,
    "jl": _jl,
    "min-max": _min_max,
    "none": _none,
    "observed-range": _observed_range,
    "unit-ball": _unit_ball,
    "unit-norm": _unit_norm,
}
