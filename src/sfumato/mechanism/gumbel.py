"""The truncated Gumbel mechanism, as published; its guarantee is false.

Xu, Feyisetan, Aggarwal, Xu and Teissier (2021), "Density-Aware Differentially Private Textual Perturbations Using Truncated
Gumbel Noise": for a word of a space with n words, draw k from a Poisson distribution with mean ln n, truncated to 1 ... n; add to
the distances of its k nearest words (itself among them) Gumbel noise of scale b, truncated to the diameter; release the word
with the least sum.  With D the diameter and m the least distance between words,

    b = 2 D / min(W(2 alpha D), ln(alpha m)),      alpha = (epsilon - 2 (1 + ln n) / m) / 3,

where W is Lambert's function.  The claim is epsilon d.  It is false: the probability of a word falls with its *rank* among the
neighbours like the tail of a Poisson distribution, however near it is.  ``tests/unit/mechanism/test_gumbel.py`` measures it.

The distribution of the result can be computed, so the mechanism is a table here, too.  Given k, the word at distance d_j has
the least sum with probability  integral of f(t - d_j) prod_(i <= k, i != j) S(t - d_i) dt  with density f and survival
function S of the noise; the integral is taken piece by piece between the points where a density begins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

import numpy as np

from sfumato.foundation.checks import require_epsilon
from sfumato.foundation.errors import CertificationError
from sfumato.foundation.guarantee import MetricGuarantee
from sfumato.foundation.randomness import UInt64Array
from sfumato.foundation.registry import mechanism
from sfumato.mechanism.base import Row, TableMechanism
from sfumato.mechanism.integers import LEAST_WEIGHT, to_weights
from sfumato.mechanism.nearest import nearest_outputs
from sfumato.mechanism.rowstore import CompiledRows
from sfumato.space import Space
from sfumato.space.metric import FloatArray, IndexArray

_LOST = 2.0**-64
"""Neighbours whose chance to be a candidate is below this are left out: no 63-bit weight could hold it."""
_NODES = 12
_LAST_PIECES = 8
_BATCH_NUMBERS = 2_000_000


@dataclass(frozen=True, kw_only=True)
class ClaimedMetricGuarantee(MetricGuarantee):
    """A published promise of metric privacy that is false: no epsilon is certified."""

    kind = "claimed-metric"

    certified: float = math.inf
    """Never a number: nothing is certified; null in JSON."""

    def __post_init__(self) -> None:
        """Read null as what it stands for."""
        object.__setattr__(self, "certified", math.inf)

    @property
    def neighbour_loss(self) -> None:
        """None: no loss is bounded."""
        return

    def promise(self) -> str:
        """State what is claimed, and that it is not so."""
        return (
            "Nothing is certified. The publication claims that whoever sees the output can raise or lower the odds between "
            f"any two protected words by at most exp({self.epsilon:.6g} x d), where d is their {self.metric} distance"
            + (f" in the space {self.space!r}" if self.space else "")
            + "; that is false."
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data for a JSON file."""
        return {**super().to_json(), "certified": None}


class TruncatedGumbel(TableMechanism):
    """The published mechanism's exact distribution, in integers; see :func:`truncated_gumbel`."""

    def __init__(self, space: Space, guarantee: MetricGuarantee, scale: float) -> None:
        every = np.arange(len(space))
        super().__init__(space, every, every, guarantee)
        self.scale = scale
        self.candidate_chances = candidate_chances(len(space))

    def row(self, word: str) -> Row:
        """Return the exact distribution of one input word over its nearest words."""
        row = super().row(word)
        real = row.weights > 0
        return Row(row.cells[real], row.weights[real], row.total)

    def cells(self, ids: IndexArray) -> IndexArray:
        """Return the nearest words of each word, itself first."""
        return self._neighbours(ids)[0]

    def weights(self, ids: IndexArray) -> UInt64Array:
        """Return the integer weights of some rows; a word too improbable for a 63-bit integer has none."""
        return self.compile_rows(ids).weights

    def compile_rows(self, ids: IndexArray) -> CompiledRows:
        """Return whole rows."""
        cells, distances = self._neighbours(ids)
        width = distances.shape[1]
        step = max(1, _BATCH_NUMBERS // (width * (width + _LAST_PIECES) * _NODES))
        probabilities = np.concatenate(
            [self._probabilities(distances[start : start + step]) for start in range(0, len(ids), step)]
        )
        small = (probabilities * 2.0**63).astype(np.uint64)
        weights = np.where(small < LEAST_WEIGHT, small, to_weights(probabilities))
        return CompiledRows(cells, weights, np.zeros(len(ids)))

    def _neighbours(self, ids: IndexArray) -> tuple[IndexArray, FloatArray]:
        return nearest_outputs(self.space, self.space.points[ids], self.outputs, len(self.candidate_chances), 1)

    def _probabilities(self, distances: FloatArray) -> FloatArray:
        """Return the chance of each of the sorted neighbours, for a few words at once."""
        times, lengths = _grid(distances, self.space.statistics.diameter)
        gaps = times[:, :, None] - distances[:, None, :]
        density, survival = _truncated_gumbel(gaps, self.scale, self.space.statistics.diameter)
        nobody_below = np.cumprod(survival, axis=2)  # chance that none of the k first is below t, for every k
        reaches = np.cumsum((nobody_below * self.candidate_chances)[:, :, ::-1], axis=2)[:, :, ::-1]
        return np.asarray(np.einsum("rt,rtk->rk", lengths, density / survival * reaches))


def candidate_chances(words: int) -> FloatArray:
    """Return the chances of k = 1, 2, ... candidates; what is too small to matter belongs to the last.

    >>> candidate_chances(2).round(4).tolist()
    [0.7426, 0.2574]
    """
    mean = math.log(words)
    candidates = np.arange(1, words + 1)
    from scipy import stats  # slow to import, and only this mechanism needs it

    chances = stats.poisson.pmf(candidates, mean)
    chances /= chances.sum()
    beyond = np.cumsum(chances[::-1])[::-1]
    width = max(1, int((beyond > _LOST).sum()))
    kept = chances[:width].copy()
    kept[-1] += chances[width:].sum()
    return np.asarray(kept)


def _grid(distances: FloatArray, diameter: float) -> tuple[FloatArray, FloatArray]:
    """Return Gauss-Legendre nodes and weights for each row, piece by piece between the points where a density begins."""
    begins = distances - diameter
    rest = np.linspace(begins[:, -1], distances[:, 0] + diameter, _LAST_PIECES + 1, axis=1)
    edges = np.hstack([begins[:, :-1], rest])
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    middles, halves = (edges[:, 1:] + edges[:, :-1]) / 2, (edges[:, 1:] - edges[:, :-1]) / 2
    times = middles[:, :, None] + halves[:, :, None] * nodes
    lengths = halves[:, :, None] * weights
    return times.reshape(len(distances), -1), lengths.reshape(len(distances), -1)


def _truncated_gumbel(noise: FloatArray, scale: float, bound: float) -> tuple[FloatArray, FloatArray]:
    """Return density and survival function of Gumbel noise that is drawn again until it is within the bound."""
    inside = np.clip(noise, -bound, bound)
    tail = np.exp(-inside / scale)
    # Shares of exp(-exp(-bound / scale)); differences by expm1, as a scale far above the bound leaves no digits else.
    whole = -math.expm1(-2.0 * math.sinh(bound / scale))
    above = -np.expm1(tail * np.expm1((inside - bound) / scale))
    density = np.exp(math.exp(-bound / scale) - tail) * tail / scale
    survival = np.maximum(above, np.finfo(float).tiny)
    return np.where(noise < -bound, 0.0, density) / whole, survival / whole


def least_epsilon(space: Space) -> float:
    """Return the epsilon that must be exceeded for the published scale of the noise to exist.

    >>> line = Space.from_arrays(list("abcde"), [[0.0], [1.0], [2.0], [3.0], [4.0]])
    >>> round(least_epsilon(line), 6)
    8.218876
    """
    statistics = space.statistics
    if statistics.points < 2:
        return math.inf
    return (2.0 * (1.0 + math.log(len(space))) + 3.0) / statistics.least_distance


def noise_scale(space: Space, epsilon: float) -> float:
    """Return the scale b of the Gumbel noise."""
    least, largest = space.statistics.least_distance, space.statistics.diameter
    alpha = (epsilon - 2.0 * (1.0 + math.log(len(space))) / least) / 3.0
    from scipy import special

    # ln(alpha m), from how far epsilon is above its least value: just above it, alpha m is 1 in all digits.
    logarithm = math.log1p((epsilon - least_epsilon(space)) * least / 3.0)
    return 2.0 * largest / min(float(special.lambertw(2.0 * alpha * largest).real), logarithm)


def _enough(least: float) -> str:
    """Return a number above the least epsilon, as short as it can be read.

    >>> _enough(127.69300001), _enough(8.5)
    ('127.694', '8.50001')
    """
    return f"{Context(prec=6, rounding=ROUND_CEILING).create_decimal(Decimal(math.nextafter(least, math.inf))).normalize():f}"


@mechanism("truncated-gumbel", kind=ClaimedMetricGuarantee.kind, sound=False)
def truncated_gumbel(space: Space, *, epsilon: float) -> TruncatedGumbel:
    """Truncated Gumbel noise on the distances of a random number of neighbours, as published.

    Its claim is false, and it exists only above an epsilon that grows as the two nearest words of the space come together;
    ``tem`` with ``tuning="calibrated"`` has the promise that this one only claims, at every epsilon.

    >>> line = Space.from_arrays(list("abcde"), [[0.0], [1.0], [2.0], [3.0], [4.0]])
    >>> mechanism = truncated_gumbel(line, epsilon=9.0)
    >>> round(mechanism.scale, 4), mechanism.guarantee.sound
    (34.5708, False)
    """
    require_epsilon(epsilon=epsilon)
    least = least_epsilon(space)
    if math.isinf(least):
        raise CertificationError(
            "all words of this space have the same vector, so the published noise scale does not exist at any epsilon; use "
            "mechanism 'tem' with tuning='calibrated' instead"
        )
    if not epsilon > least:
        raise CertificationError(
            f"at epsilon {epsilon:g} the published noise scale does not exist in this space; epsilon must be {_enough(least)} "
            "or more. Even then its claim is false: use mechanism 'tem' with tuning='calibrated' instead, which is "
            "certified at every epsilon"
        )
    guarantee = ClaimedMetricGuarantee(
        mechanism="truncated-gumbel",
        epsilon=epsilon,
        metric=space.metric,
        space=space.name,
        space_digest=space.digest,
        radius=space.statistics.diameter,
        neighbour_distance=space.statistics.median_neighbour_distance or None,
        sound=False,
        unsound_because=(
            "whether a word can come out depends on "
            "its rank among the neighbours of the input, so near inputs can have very unlike outputs; use 'tem' with "
            "tuning='calibrated'."
        ),
    )
    return TruncatedGumbel(space, guarantee, noise_scale(space, epsilon))
