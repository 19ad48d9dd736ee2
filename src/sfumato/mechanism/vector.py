"""Mechanisms that add noise to a word's vector and look for a word there.

Theorem (Chatzikokolakis et al. 2013; Feyisetan et al. 2020 for words).  Noise with density proportional to
``exp(-rate |z|)`` added to f(x) changes the odds between x and x' by at most ``exp(rate |f(x) - f(x')|)``, and whatever is
computed from the noisy vector and public data changes them no more.  With the constant of
:mod:`sfumato.mechanism.stretch` that is at most ``exp(rate constant d(x, x'))``.
Measured by ``tests/contracts/test_vector_mechanisms.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.foundation.checks import gather, require_count, require_epsilon, require_one_of, require_share
from sfumato.foundation.errors import CertificationError, ParameterError
from sfumato.foundation.guarantee import MetricGuarantee
from sfumato.foundation.randomness import RunKey, Source, UInt64Array
from sfumato.mechanism import noise
from sfumato.mechanism.base import require_ids
from sfumato.mechanism.decoding import DECODINGS, ApproximateDecoder, Decoder, ExactDecoder, Targets
from sfumato.mechanism.stretch import Stretch
from sfumato.mechanism.vocabulary import positions_of
from sfumato.space import Space
from sfumato.space.metric import FloatArray, IndexArray

NOISES = ("calibrated", "plain")
MAPPINGS = ("nearest", "none", "vickrey")
_BATCH = 1024
_RECALL_DRAWS = 500
_LONGEST_NOISE = 1e100


@dataclass(frozen=True)
class Settings:
    """What all mechanisms of this kind let the caller choose."""

    epsilon: float
    noise: str
    mapping: str
    t: float
    decoding: str
    probes: int
    inputs: Sequence[str] | None
    outputs: Sequence[str] | None

    def check(self, space: Space) -> None:
        """Raise where a choice is outside its domain, naming all such choices."""
        gather(
            lambda: require_epsilon(epsilon=self.epsilon),
            lambda: require_one_of(NOISES, noise=self.noise),
            lambda: require_one_of(MAPPINGS, mapping=self.mapping),
            lambda: require_share(t=self.t),
            lambda: require_one_of(DECODINGS, decoding=self.decoding),
            lambda: require_count(probes=self.probes),
        )
        if space.metric != "euclidean" or space.metric_function is not None:
            raise ParameterError(
                f"this noise is made for straight-line distances and the metric of the space is {space.metric!r}; build "
                "the space with metric='euclidean', or use 'tem', which takes any metric"
            )


@dataclass(frozen=True, eq=False)
class NoiseField:
    """Where words lie when noise is added, and the shape of that noise."""

    points: FloatArray
    """What noise is added to: one row for each point of the space."""
    stretch: Stretch
    """Of the map to coordinates in which the noise is spherical."""
    spread: FloatArray | None = None
    """Symmetric matrix that gives spherical noise its shape; None leaves it spherical."""
    origin: FloatArray | float = 0.0
    """Added to all noisy vectors alike, after the noise: far from it, numbers could not tell near points apart."""

    @property
    def locations(self) -> FloatArray:
        """Where the points lie among the vectors that come out."""
        return np.asarray(self.points + self.origin)

    @property
    def dimension(self) -> int:
        """Number of components of a noisy vector."""
        return int(self.points.shape[1])

    def noisy(self, points: IndexArray, numbers: UInt64Array, rate: float) -> FloatArray:
        """Return the places of points with noise added, from dimension + 1 integers each."""
        added = noise.noise(numbers)
        if self.spread is not None:
            # Not a matrix product: its rounding would depend on how many vectors are multiplied together.
            added = np.einsum("ij,jk->ik", added, self.spread, optimize=False)
        added /= rate
        added += self.points[points]
        added += self.origin
        return added


@dataclass(frozen=True, eq=False, repr=False)
class VectorMechanism:
    """A noisy vector for every word, and a word for every noisy vector."""

    space: Space
    guarantee: MetricGuarantee
    inputs: IndexArray
    outputs: IndexArray
    rate: float
    """The density of the noise falls as exp(-rate |z|)."""
    mapping: str
    t: float
    recall: float | None
    """Share of public test draws for which approximate decoding finds the nearest word, or the two nearest words where one
    of two comes out; None where it is exact."""
    field: NoiseField
    targets: Targets
    decoder: Decoder

    def vectors(self, ids: IndexArray, source: Source) -> FloatArray:
        """Return a noisy vector for every input word.

        A word that is not an input is replaced by a uniformly drawn input before the noise is added.
        """
        require_ids(ids, self.space)
        noisy = np.empty((len(ids), self.field.dimension))
        for block, known, numbers in self._draws(ids, source):
            start = np.where(known, ids[block], self.inputs[noise.below(numbers[:, -2], len(self.inputs))])
            noisy[block] = self._noisy(start, numbers)
        return noisy

    def sample(self, ids: IndexArray, source: Source) -> IndexArray:
        """Draw an output word for every input word.

        A word that is not an input is replaced by a uniform draw from the words that inputs can come out as.
        """
        if self.mapping == "none":
            raise ParameterError(
                "mapping 'none' gives vectors, not words: call vectors(), or compile with mapping='nearest'"
            )
        require_ids(ids, self.space)
        drawn = np.empty(len(ids), dtype=np.intp)
        support = self.targets.words(2 if self.mapping == "vickrey" else 1)
        for block, known, numbers in self._draws(ids, source):
            words = support[noise.below(numbers[:, -2], len(support))]
            if known.any():
                words[known] = self.decode(self._noisy(ids[block][known], numbers[known]), numbers[known, -1])
            drawn[block] = words
        return drawn

    def decode(self, vectors: FloatArray, coins: UInt64Array) -> IndexArray:
        """Return an output word for every noisy vector: a function of the vector, public points and a coin only."""
        if self.mapping != "vickrey":
            return self.targets.first[self.decoder.nearest(vectors, 1)[0][:, 0]]
        places, distances = self.decoder.nearest(vectors, 2)
        nearest, after = places[:, 0], places[:, -1]
        first, twin = self.targets.first[nearest], self.targets.second[nearest]
        second = np.where(twin >= 0, twin, self.targets.first[after])
        farther = np.where(twin >= 0, distances[:, 0], distances[:, -1])
        chance = first_probability(distances[:, 0], farther, self.t)
        return np.where(noise.unit_interval(coins) < chance, first, second)

    def _draws(
        self, ids: IndexArray, source: Source
    ) -> Iterator[tuple[slice, np.ndarray[tuple[int], np.dtype[np.bool_]], UInt64Array]]:
        """Yield blocks of draws with their integers: those of the noise, one for an unknown word and one for a coin."""
        keys = noise.keys_of_draws(source, len(ids))
        is_input = np.zeros(len(self.space) + 1, dtype=bool)  # the last place stands for UNKNOWN
        is_input[self.inputs] = True
        for start in range(0, len(ids), _BATCH):
            block = slice(start, start + _BATCH)
            yield block, is_input[ids[block]], noise.expand(keys[block], self.field.dimension + 3)

    def _noisy(self, ids: IndexArray, numbers: UInt64Array) -> FloatArray:
        return self.field.noisy(self.space.points[ids], numbers[:, :-2], self.rate)


def first_probability(nearest: FloatArray, second: FloatArray, t: float) -> FloatArray:
    """Return the chance that the nearest of two words is taken: (1 - t) d2 / (t d1 + (1 - t) d2), and 1 for 0 / 0.

    >>> float(first_probability(np.array([0.3]), np.array([0.7]), 0.75)[0].round(6))
    0.4375
    """
    share = (1.0 - t) * second
    whole = t * nearest + share
    return np.asarray(np.divide(share, whole, out=np.ones_like(whole), where=whole > 0))


def compile_vector(
    name: str, space: Space, settings: Settings, field: NoiseField, notes: Sequence[str]
) -> VectorMechanism:
    """Return the finished mechanism for a field; the settings have been checked."""
    inputs, outputs = positions_of(space, settings.inputs), positions_of(space, settings.outputs)
    inputs.flags.writeable = outputs.flags.writeable = False
    rate, certified = _calibrate(settings, field)
    targets = Targets.of(field.locations[space.points[outputs]], outputs)
    exact = ExactDecoder(targets.points)
    decoder: Decoder = exact
    recall = None
    if settings.decoding == "approximate":
        decoder = ApproximateDecoder(targets.points, int(settings.probes))
        pairs = settings.mapping == "vickrey"
        recall = _recall(exact, decoder, field, space.points[inputs], rate, targets.second if pairs else None)
        notes = [*notes, _recall_note(recall, pairs)]
    guarantee = MetricGuarantee(
        mechanism=name,
        epsilon=max(float(settings.epsilon), certified),
        certified=certified,
        metric=space.metric,
        space=space.name,
        space_digest=space.digest,
        radius=space.statistics.diameter,
        neighbour_distance=space.statistics.median_neighbour_distance or None,
        arithmetic="float64",
        notes=(*notes, *_noise_notes(settings, field, rate, certified)),
    )
    return VectorMechanism(
        space, guarantee, inputs, outputs, rate, settings.mapping, float(settings.t), recall, field, targets, decoder
    )


def _calibrate(settings: Settings, field: NoiseField) -> tuple[float, float]:
    """Return the rate of the noise and the epsilon it certifies in the distance of the space."""
    epsilon, constant = float(settings.epsilon), field.stretch.constant
    if not (math.isfinite(constant) and constant >= 0):
        raise CertificationError(
            f"the map before the noise stretches distances by {constant!r}, which no map can; delete the folder of cached "
            "figures (SFUMATO_CACHE_DIR, or ~/.cache/sfumato), and report this if it happens again"
        )
    if settings.noise == "calibrated" and constant > 0:
        rate = epsilon / constant
        certified = epsilon
    else:
        rate = epsilon
        certified = epsilon * constant
    if not (rate > 0 and math.isfinite(rate) and field.dimension / rate < _LONGEST_NOISE):
        raise ParameterError(
            "epsilon is so small, or two words so near, that the noise cannot be represented; use a larger epsilon, or "
            "merge words with nearly equal vectors"
        )
    return rate, certified


def _noise_notes(settings: Settings, field: NoiseField, rate: float, certified: float) -> list[str]:
    notes = []
    constant = field.stretch.constant
    if constant != 1:
        told = f"the map before the noise stretches distances by at most {constant:.6g}, over all pairs of words"
        if settings.noise == "plain":
            notes.append(
                f"The noise is that of the nominal epsilon {settings.epsilon:g}, and {told}: in the distance of the space "
                f"the promise is {certified:.6g}"
            )
        else:
            notes.append(f"The noise is calibrated: {told}, and the noise is scaled by that factor")
    length = field.dimension / rate
    neighbour = field.stretch.neighbour
    if neighbour > 0:
        measured = "" if field.spread is None else " (both in Mahalanobis distance)"
        note = (
            f"The noise has a mean length of {length:.4g}, {length / neighbour:.3g} times the median distance between "
            f"nearest neighbours where it is added{measured}"
        )
        if length / neighbour > math.sqrt(field.dimension) / 2:
            note += ": it drowns the words, and most replacements have nothing to do with the original"
        notes.append(note)
    return notes


def _recall(
    exact: Decoder,
    decoder: Decoder,
    field: NoiseField,
    points: IndexArray,
    rate: float,
    twins: IndexArray | None,
) -> float:
    """Measure how often approximate decoding is right, on public words and noise from a public seed.

    With ``twins`` (the second word on every target, or -1) that is: how often it finds the same two words.
    """
    chosen = points[np.linspace(0, len(points) - 1, _RECALL_DRAWS).astype(np.intp)]
    keys = noise.keys_of_draws(RunKey.from_seed(0).stream("recall", b""), _RECALL_DRAWS)
    noisy = field.noisy(chosen, noise.expand(keys, field.dimension + 1), rate)
    count = 1 if twins is None else 2
    wanted, found = exact.nearest(noisy, count)[0], decoder.nearest(noisy, count)[0]
    right = wanted[:, 0] == found[:, 0]
    if twins is not None:
        right &= (wanted[:, -1] == found[:, -1]) | (twins[wanted[:, 0]] >= 0)
    return float(right.mean())


def _recall_note(recall: float, pairs: bool) -> str:
    right = "were decoded to the two nearest words" if pairs else "came out as the nearest word"
    return (
        f"Noisy vectors are decoded approximately: of {_RECALL_DRAWS} public test draws {recall:.1%} {right}. Decoding sees "
        "the noisy vector and public data only, so this costs usefulness, not privacy"
    )
