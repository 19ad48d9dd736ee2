"""What noise is added to a vector, and what that promises: one frozen, public value.

A plan has everything that fixes the noise, and it computes its own guarantee from those numbers.  Whoever receives a plan
from somebody else (a client from a server) therefore never has to believe an epsilon: it follows from clip and scale.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from sfumato.accounting.gaussian import epsilon_of
from sfumato.accounting.rounding import up
from sfumato.accounting.zcdp import epsilon_of_rho
from sfumato.foundation.checks import (
    gather,
    require_count,
    require_non_negative,
    require_one_of,
    require_positive,
    require_probability,
)
from sfumato.foundation.errors import ParameterError
from sfumato.foundation.guarantee import ApproximateGuarantee, GaussianGuarantee, Guarantee, PureGuarantee, Unit
from sfumato.latent.noise import GREATEST_UNITS

DISTRIBUTIONS = ("gaussian", "laplace", "discrete")
POSITIONS = ("sentence", "token")
CHANGES = ("sentence", "word")
SENTENCE_NEIGHBOURS = "one sentence is replaced by any other sentence"
WORD_NEIGHBOURS = "one word of one sentence is replaced by any other word"
PUBLIC = (
    "that a sentence was sent, when and by whom, and how many were",
    "the labels, unless randomised response is used for them",
    "the encoder, the clipping norm and the noise's distribution",
)
_TOKENS_PUBLIC = "the number of tokens of each sentence, up to the public maximum"
_WORD_PUBLIC = "which words of a sentence are the same as in another: the promise is for one word, not for the sentence"


@dataclass(frozen=True, kw_only=True)
class NoisePlan:
    """Clip to ``clip``, then add noise of the given ``scale``.

    ``scale`` is the standard deviation of one coordinate for the Gaussian distributions and the scale b of the density
    exp(-|z|/b)/(2b) for Laplace noise, whose vectors are clipped in l1.  One release changes by at most
    :attr:`sensitivity` when one sentence is replaced by any other (or, with ``change="word"``, one word).

    >>> plan = NoisePlan(clip=1.0, scale=2 * 3.7306316348159, dimension=3)
    >>> plan.sensitivity, round(plan.epsilon(), 6)
    (2.0, 1.0)
    """

    clip: float
    scale: float
    dimension: int
    distribution: str = "gaussian"
    position: str = "sentence"
    change: str = "sentence"
    tokens: int = 1
    """Position "token": the most tokens a sentence has."""
    grid: float = 0.0
    """Discrete Gaussian: the distance of two neighbouring values of a coordinate."""
    delta: float = 1e-5
    """Where epsilons are quoted; the guarantee itself is a whole curve."""
    releases: int = 1
    """How often each sentence is sent, all told; the guarantee is that of all of them together."""

    def __post_init__(self) -> None:
        gather(
            lambda: require_positive(clip=self.clip, scale=self.scale),
            lambda: require_count(dimension=self.dimension, tokens=self.tokens, releases=self.releases),
            lambda: require_one_of(DISTRIBUTIONS, distribution=self.distribution),
            lambda: require_one_of(POSITIONS, position=self.position),
            lambda: require_one_of(CHANGES, change=self.change),
            lambda: require_non_negative(grid=self.grid),
            lambda: require_probability(delta=self.delta),
        )
        if self.change == "word" and self.position != "token":
            raise ParameterError(
                "change='word' needs position='token' and an encoder whose token vectors do not look at other tokens"
            )
        if self.distribution == "discrete":
            steps = self.scale / self.grid if self.grid else math.inf
            if not (1 <= steps <= GREATEST_UNITS and abs(steps - round(steps)) < 1e-6):
                raise ParameterError(
                    f"the scale of discrete noise must be 1 to {GREATEST_UNITS} whole grid steps; choose another grid"
                )

    @property
    def norm(self) -> str:
        """In which norm vectors are clipped."""
        return "l1" if self.distribution == "laplace" else "l2"

    @property
    def changed_vectors(self) -> int:
        """How many clipped vectors of a release a change can move."""
        return 1 if self.position == "sentence" or self.change == "word" else self.tokens

    @property
    def sensitivity(self) -> float:
        """How far the clipped release can move: 2 C for each vector that can change, added up in the plan's norm.

        Rounding to the grid moves each coordinate of either release by at most half a step: grid * sqrt(dimension) more
        for each vector.
        """
        if self.distribution == "laplace":
            return 2 * self.clip * self.changed_vectors
        one = 2 * self.clip + (self.grid * math.sqrt(self.dimension) if self.distribution == "discrete" else 0.0)
        return one if self.changed_vectors == 1 else up(one * math.sqrt(self.changed_vectors))

    @property
    def steps(self) -> int:
        """Standard deviation of the discrete Gaussian in grid steps."""
        return round(self.scale / self.grid)

    @property
    def drawn_scale(self) -> float:
        """The scale of what is really drawn: of the discrete Gaussian, a whole number of grid steps."""
        return min(self.scale, self.steps * self.grid) if self.distribution == "discrete" else self.scale

    @property
    def unit(self) -> Unit:
        """Whose change is hidden."""
        return Unit.WORD if self.change == "word" else Unit.RECORD

    @property
    def per_release(self) -> Guarantee:
        """The promise for one release: what a ledger is charged each time."""
        return dataclasses.replace(self, releases=1).guarantee

    @property
    def guarantee(self) -> Guarantee:
        """The promise for all releases of one sentence together.

        Gaussian: sqrt(n) sensitivity / scale in the sense of Gaussian differential privacy (Dong, Roth and Su 2022,
        theorem 2.7 and corollary 3.3).  Laplace: n sensitivity / scale, pure.  Discrete: n (sensitivity/scale)^2 / 2
        zero-concentrated (Canonne, Kamath and Steinke 2020, theorem 4), stated at :attr:`delta`.  Measured by
        ``tests/unit/latent/test_empirical.py``.
        """
        ratio = up(self.sensitivity / self.drawn_scale)
        common: dict[str, Any] = {
            "mechanism": f"latent {self.distribution}",
            "unit": self.unit,
            "neighbours": WORD_NEIGHBOURS if self.change == "word" else SENTENCE_NEIGHBOURS,
            "releases": self.releases,
            "public": self.public,
            "arithmetic": "integer" if self.distribution == "discrete" else "float64",
        }
        if self.distribution == "laplace":
            epsilon = ratio * self.releases
            return PureGuarantee(epsilon=epsilon, certified=epsilon, **common)
        if self.distribution == "discrete":
            epsilon = epsilon_of_rho(up(self.releases * ratio * ratio / 2), self.delta)
            return ApproximateGuarantee(epsilon=epsilon, delta=self.delta, **common)
        return GaussianGuarantee(mu=up(math.sqrt(self.releases) * ratio), **common)

    @property
    def public(self) -> tuple[str, ...]:
        """What the promise does not hide."""
        more = (_TOKENS_PUBLIC,) if self.position == "token" else ()
        return (*PUBLIC, *more, *((_WORD_PUBLIC,) if self.change == "word" else ()))

    def epsilon(self, delta: float | None = None) -> float:
        """Return epsilon at ``delta`` (the plan's own where none is given)."""
        at = self.delta if delta is None else delta
        promise = dataclasses.replace(self, delta=at).guarantee
        return epsilon_of(promise.mu, at) if isinstance(promise, GaussianGuarantee) else promise.epsilon  # type: ignore[attr-defined]

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on one coordinate."""
        return self.scale * math.sqrt(2) if self.distribution == "laplace" else self.scale

    @property
    def noise_to_signal(self) -> float:
        """Expected length of the noise over the clipping norm (of Laplace: over the longest clipped vector)."""
        return self.deviation * math.sqrt(self.dimension) / self.clip

    @property
    def greatest_norm(self) -> float:
        """An l2 norm that one honest vector exceeds with probability below 1e-12.

        Take independent coordinates that are s-subgaussian: normal ones are, and discrete Gaussian ones, whose moment
        generating function is at most the normal one by Poisson summation (Canonne, Kamath and Steinke 2020).  Their
        squared length is above s^2 (d + 2 sqrt(d t) + 2 t) with probability at most exp(-t) (Hsu, Kakade and Zhang 2012,
        theorem 1), so their length is above s (sqrt(d) + sqrt(2 t)) at most as often; sqrt(2 t) = 7.5 gives
        6e-13.  Laplace noise has every coordinate below L = b ln(2e12 d), by the union bound, but for 5e-13; the squares
        of coordinates that are cut off there have mean at most 2 b^2 and second moment at most 24 b^4, so Bernstein's
        inequality bounds their sum at t = ln(2e12), and L sqrt(d) bounds its root where that is less.
        """
        root = math.sqrt(self.dimension)
        if self.distribution == "laplace":
            log = math.log(2e12)
            longest = math.log(self.dimension) + log
            squares = 2 * self.dimension + math.sqrt(48 * self.dimension * log) + longest**2 * log / 3
            return self.clip + self.scale * min(longest * root, math.sqrt(squares))
        return self.clip + self.grid * root / 2 + self.scale * (root + 7.5)

    def to_json(self) -> dict[str, Any]:
        """Return plain data; :meth:`from_json` reads it back."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> NoisePlan:
        """Read back what :meth:`to_json` wrote, checking every number.

        >>> plan = NoisePlan(clip=1.0, scale=4.0, dimension=3)
        >>> NoisePlan.from_json(plan.to_json()) == plan
        True
        """
        names = {field.name for field in dataclasses.fields(cls)}
        unknown = set(data) - names
        if unknown:
            raise ParameterError(f"a noise plan has no {', '.join(sorted(str(name)[:40] for name in unknown))}")
        return cls(**data)
