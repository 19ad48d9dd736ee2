"""TEM and SanText: words drawn with a probability that falls exponentially with the distance.

Theorem (Carvalho et al., TEM; McSherry and Talwar for the exponential mechanism).  With
``P(y|x) = w(y) exp(-rate d_gamma(x, y)) / Z(x)`` the log-ratio of two inputs is at most
``rate d_gamma(x, x') + ln Z(x') - ln Z(x)``; the certificate bounds it over all pairs, on the integers that run.
Measured by ``tests/contracts`` and by :func:`sfumato.verify`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.foundation.checks import gather, require_epsilon, require_one_of, require_positive, require_probability
from sfumato.foundation.guarantee import MetricGuarantee
from sfumato.foundation.randomness import UInt64Array
from sfumato.foundation.registry import mechanism
from sfumato.mechanism import tuned_cache
from sfumato.mechanism.base import TableMechanism
from sfumato.mechanism.integers import to_weights
from sfumato.mechanism.kernel import Certificate, Ground, Tick, loss_allowance, truncation
from sfumato.mechanism.nearrows import NearRowStore, is_short
from sfumato.mechanism.rowstore import BLOCK, CompiledRows
from sfumato.mechanism.tuning import TUNINGS, Effort, Tuned, tune
from sfumato.mechanism.vocabulary import positions_of
from sfumato.space import Space
from sfumato.space.metric import BlockFunction, FloatArray, IndexArray


class ExponentialMechanism(TableMechanism):
    """A certified exponential kernel; see :func:`tem` and :func:`santext`."""

    _may_have_short_rows = True

    def __init__(self, ground: Ground, tuned: Tuned, guarantee: MetricGuarantee, row_memory: int = 2**29) -> None:
        super().__init__(ground.space, ground.inputs, ground.outputs, guarantee, row_memory)
        self.ground = ground
        self.tuned = tuned
        self._word_weights: FloatArray = ground.to_words(tuned.weights / ground.multiplicity)
        self._fill = _fill_of_points(ground, tuned)
        self.has_short_rows = self._may_have_short_rows and self._fill is None and is_short(ground, tuned.weights)
        """Whether rows list the near words only; see :mod:`sfumato.mechanism.nearrows`."""
        if self.has_short_rows:
            self.draw_from(lambda memory: NearRowStore(len(ground.space), memory, ground))

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if self.has_short_rows:
            self.draw_from(lambda memory: NearRowStore(len(self.space), memory, self.ground))

    # Made when they are first needed: a mechanism from a file is there at once.
    @cached_property
    def _kernel(self) -> BlockFunction:
        return self.ground.kernel_function(self.tuned.rate)

    @cached_property
    def _pairs(self) -> Callable[[IndexArray, IndexArray], FloatArray] | None:
        return self.ground.block_function(self.tuned.rate, BLOCK)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be made again."""
        return {name: value for name, value in super().__getstate__().items() if name not in ("_kernel", "_pairs")}

    @property
    def rate(self) -> float:
        """The rate at which probability falls with distance."""
        return self.tuned.rate

    @property
    def certificate(self) -> Certificate:
        """The bound on the realised epsilon and the pair of words that comes closest to it."""
        return self.tuned.certificate

    def _kernel_rows(self, ids: IndexArray) -> FloatArray:
        ground = self.ground
        columns = slice(None) if len(ground.output_points) == len(ground.geometry) else ground.output_points
        kernel = self._kernel(ground.space.points[ids], columns)
        if not ground.every_output_is_a_point:
            kernel = ground.to_words(kernel)
        kernel *= self._word_weights
        if self._fill is not None:
            kernel += self._fill[ground.space.points[ids], None]
        return kernel

    def _kernel_blocks(self, ids: IndexArray, blocks: IndexArray, columns: IndexArray) -> FloatArray:
        """Return the same for one block of each row, whose columns are given."""
        assert self._pairs is not None
        points = self.ground.space.points[ids]
        kernel = self._pairs(points, blocks)
        kernel *= self._word_weights[columns]
        if self._fill is not None:
            kernel += self._fill[points, None]
        return kernel

    def weights(self, ids: IndexArray) -> UInt64Array:
        """Return the integer weights of some rows."""
        kernel = self._kernel_rows(ids)
        return to_weights(kernel, kernel.sum(axis=1))

    def compile_rows(self, ids: IndexArray) -> CompiledRows:
        """Return whole rows, with the sums they were divided by."""
        kernel = self._kernel_rows(ids)
        norms = kernel.sum(axis=1)
        return CompiledRows(self.outputs[None, :], to_weights(kernel, norms), norms, shared=True)

    def block_weights(self, ids: IndexArray, blocks: IndexArray, norms: FloatArray) -> tuple[IndexArray, UInt64Array]:
        """Return one block of each row; for integer vectors it costs 16 distances and not a whole row."""
        if self._pairs is None:
            return super().block_weights(ids, blocks, norms)
        columns = blocks[:, None] * BLOCK + np.arange(BLOCK)
        inside = columns < len(self.outputs)
        columns = np.where(inside, columns, len(self.outputs) - 1)
        weights = to_weights(self._kernel_blocks(ids, blocks, columns), norms, len(self.outputs))
        return self.outputs[columns], np.where(inside, weights, np.uint64(0))


def _fill_of_points(ground: Ground, tuned: Tuned) -> FloatArray | None:
    """Return for every point of the space what each output word gets of its fill; None where there is none."""
    if tuned.fill is None:
        return None
    fill = np.zeros(len(ground.geometry))
    fill[ground.input_points] = tuned.fill / len(ground.outputs)
    return fill


def _guarantee(name: str, ground: Ground, epsilon: float, tuned: Tuned, tuning: str) -> MetricGuarantee:
    space = ground.space
    notes = []
    if tuned.note and tuned.tuning == tuning:
        notes.append(f"{tuned.note[0].upper()}{tuned.note[1:]}")
    elif tuned.note:
        notes.append(f"Tuning {tuning!r} became {tuned.tuning!r}: {tuned.note}")
    if tuned.tuning != "published":
        notes.append(
            "The tuning spends the slack of a single release; over many words the bound per word adds up as it is, and "
            "(epsilon, delta) accounting over a document gains less than with the published form"
        )
    if not space.triangle_checked:
        notes.append("The triangle inequality of the user's metric was checked on sampled words only")
    return MetricGuarantee(
        mechanism=name,
        epsilon=epsilon,
        certified=tuned.certificate.epsilon,
        metric=space.metric,
        space=space.name,
        space_digest=space.digest,
        radius=ground.reach,
        bounded_range=_bounded_range(ground, tuned),
        neighbour_distance=space.statistics.median_neighbour_distance or None,
        notes=tuple(notes),
    )


def _bounded_range(ground: Ground, tuned: Tuned) -> float | None:
    """Return how far ln P(y|x) - ln P(y|x') varies over the outputs y, per unit of distance.

    The kernels alone vary by rate d either way; rounding to integers adds its allowance to both ends.  With a fill, either
    way is within the certificate.
    """
    if tuned.fill is not None:
        return 2 * tuned.certificate.epsilon
    least = min(ground.space.statistics.least_distance, ground.gamma)
    if not least:
        return None
    return 2 * (tuned.rate + loss_allowance(ground, tuned.rate) / least)


def _compile(
    name: str, ground: Ground, epsilon: float, tuning: str, effort: Effort, row_memory: int
) -> ExponentialMechanism:
    tuned = tuned_cache.load(ground, epsilon, tuning)
    if tuned is None:
        tuned = tune(ground, epsilon, tuning, effort)
        tuned_cache.store(ground, epsilon, tuning, tuned)
    guarantee = _guarantee(name, ground, epsilon, tuned, tuning)
    return ExponentialMechanism(ground, tuned, guarantee, row_memory)


@mechanism("tem", kind="metric")
def tem(
    space: Space,
    *,
    epsilon: float,
    tuning: str = "best",
    gamma: float | None = None,
    beta: float = 0.001,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    threads: int | None = None,
    row_memory: int = 2**29,
    tick: Tick | None = None,
    say: Callable[[str], None] | None = None,
) -> ExponentialMechanism:
    """Truncated exponential mechanism: near words are likely, all words beyond gamma equally unlikely.

    ``gamma`` is computed from ``beta`` (the chance that TEM as published leaves the truncation radius) unless it is
    given, and is never above the diameter.  ``inputs`` are the protected words, ``outputs`` the words that may come out;
    both default to the whole space.

    >>> line = Space.from_arrays(list("abcde"), [[0.0], [1.0], [2.0], [3.0], [4.0]])
    >>> published = tem(line, epsilon=1.0, gamma=2.0, tuning="published")
    >>> [round(float(p), 6) for p in published.row("a").probabilities]
    [0.368981, 0.223798, 0.13574, 0.13574, 0.13574]
    >>> round(published.guarantee.certified, 6)
    0.584394
    """
    gather(
        lambda: require_epsilon(epsilon=epsilon),
        lambda: require_probability(beta=beta),
        lambda: require_one_of(TUNINGS, tuning=tuning),
        lambda: require_positive(gamma=gamma) if gamma is not None else None,
    )
    into = positions_of(space, outputs)
    if gamma is None:
        gamma = truncation(epsilon, beta, len(into))
    gamma = min(gamma, space.statistics.diameter) or math.inf
    ground = Ground(space, positions_of(space, inputs), into, gamma)
    return _compile("tem", ground, epsilon, tuning, Effort(threads, tick, say), row_memory)


@mechanism("santext", kind="metric")
def santext(
    space: Space,
    *,
    epsilon: float,
    tuning: str = "published",
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    threads: int | None = None,
    row_memory: int = 2**29,
    tick: Tick | None = None,
    say: Callable[[str], None] | None = None,
) -> ExponentialMechanism:
    """SanText: the exponential mechanism over the whole space, without truncation.

    It is TEM with gamma at the diameter, and takes the same tunings.

    >>> line = Space.from_arrays(list("abc"), [[0.0], [1.0], [2.0]])
    >>> round(float(santext(line, epsilon=1.0, tuning="calibrated").row("b").probability(1)), 3)
    0.541
    """
    gather(lambda: require_epsilon(epsilon=epsilon), lambda: require_one_of(TUNINGS, tuning=tuning))
    ground = Ground(space, positions_of(space, inputs), positions_of(space, outputs), math.inf)
    return _compile("santext", ground, epsilon, tuning, Effort(threads, tick, say), row_memory)
