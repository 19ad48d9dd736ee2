"""What a mechanism promises: one frozen class per kind of promise.

A guarantee travels with whatever it is about: every mechanism, every sanitized text and every output file has one.
Guarantees of unlike kinds, units or metrics refuse to add.

>>> one = MetricGuarantee(mechanism="tem", epsilon=2.0, certified=1.9, metric="euclidean", radius=10.0)
>>> two = one + one
>>> two.epsilon, two.releases
(4.0, 2)
>>> one + NoGuarantee(mechanism="identity")
Traceback (most recent call last):
    ...
sfumato.foundation.errors.CompositionError: a 'metric' guarantee and a 'none' guarantee do not add: \
they promise different things; report them side by side
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Self

from sfumato.foundation.checks import require_count
from sfumato.foundation.errors import CompositionError, ParameterError


class Unit(StrEnum):
    """Whose change the promise is about."""

    WORD = "word"
    RECORD = "record"
    USER = "user"
    USER_ENTITY = "user and entity"


_KINDS: dict[str, type[Guarantee]] = {}


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """The fields every kind of promise has."""

    kind: ClassVar[str] = "abstract"
    additive: ClassVar[tuple[str, ...]] = ()
    """Fields that add up when releases are composed."""
    same: ClassVar[tuple[str, ...]] = ("unit", "neighbours")
    """Fields that must agree before two guarantees may be composed."""

    mechanism: str
    unit: Unit = Unit.WORD
    neighbours: str = "one protected word is replaced by another protected word"
    releases: int = 1
    public: tuple[str, ...] = ()
    arithmetic: str = "integer"
    secure: bool = True
    sound: bool = True
    unsound_because: str = ""
    notes: tuple[str, ...] = ()
    document_notes: tuple[str, ...] = ()
    """Which texts are compared where the promise about a word is added up over a document, and what is not counted."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _KINDS[cls.kind] = cls

    def promise(self) -> str:
        """The promise itself, in one or two plain sentences."""
        raise NotImplementedError

    def statement(self) -> str:
        """The whole guarantee in plain English."""
        parts = [self.promise()]
        if self.public:
            parts.append("Not hidden, because it is treated as public: " + "; ".join(self.public) + ".")
        parts += [note if note.endswith(".") else note + "." for note in self.notes]
        if self.arithmetic == "float64":
            parts.append(
                "The noise is computed in floating point: the promise holds for ideal real numbers, and an attacker "
                "who sees all bits of an output may learn more."
            )
        if not self.secure:
            parts.append("NOT SECURE: the random numbers follow from a seed; use this for experiments only.")
        if not self.sound:
            parts.append(f"UNSOUND: {self.unsound_because}")
        return " ".join(parts)

    def with_public(self, *items: str) -> Self:
        """Return this guarantee with more things declared public."""
        return dataclasses.replace(self, public=tuple(dict.fromkeys(self.public + items)))

    def with_notes(self, *notes: str) -> Self:
        """Return this guarantee with further sentences in its statement."""
        return dataclasses.replace(self, notes=tuple(dict.fromkeys(self.notes + notes)))

    def with_document_notes(self, *notes: str) -> Self:
        """Return this guarantee with further sentences for whoever adds it up over a document."""
        return dataclasses.replace(self, document_notes=tuple(dict.fromkeys(self.document_notes + notes)))

    def with_randomness(self, secure: bool) -> Self:
        """Return this guarantee as it holds for random numbers that are (not) secret."""
        return dataclasses.replace(self, secure=self.secure and secure)

    def repeated(self, times: int) -> Self:
        """Return the guarantee of ``times`` independent releases."""
        require_count(times=times)
        times = int(times)
        amounts = {name: getattr(self, name) * times for name in self.additive}
        return dataclasses.replace(self, releases=self.releases * times, **amounts)

    def __add__(self, other: object) -> Self:
        """Return the guarantee of both releases together."""
        if not isinstance(other, Guarantee):
            return NotImplemented
        if type(other) is not type(self):
            raise CompositionError(
                f"a {self.kind!r} guarantee and a {other.kind!r} guarantee do not add: "
                "they promise different things; report them side by side"
            )
        unlike = [name for name in self.same if getattr(self, name) != getattr(other, name)]
        if unlike:
            raise CompositionError(
                f"two {self.kind!r} guarantees with different {', '.join(unlike)} do not add; report them side by side"
            )
        amounts: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in self.additive}
        names = self.mechanism if self.mechanism == other.mechanism else f"{self.mechanism}+{other.mechanism}"
        both = dataclasses.replace(
            self,
            mechanism=names,
            releases=self.releases + other.releases,
            secure=self.secure and other.secure,
            sound=self.sound and other.sound,
            unsound_because=self.unsound_because or other.unsound_because,
            arithmetic=self.arithmetic if self.arithmetic == other.arithmetic else "float64",
            **amounts,
        )
        return both.with_public(*other.public).with_notes(*other.notes).with_document_notes(*other.document_notes)

    def to_json(self) -> dict[str, Any]:
        """Return plain data for a JSON file; :func:`guarantee_from_json` reads it back."""
        data = dataclasses.asdict(self)
        return {"kind": self.kind, **data, "statement": self.statement()}


@dataclass(frozen=True, kw_only=True)
class MetricGuarantee(Guarantee):
    """Metric differential privacy: the loss between two words grows with their distance."""

    kind = "metric"
    additive = ("epsilon", "certified")
    same: ClassVar[tuple[str, ...]] = ("unit", "neighbours", "metric", "space", "space_digest")

    epsilon: float
    certified: float
    """The least epsilon proved for what really runs; never above ``epsilon`` for a sound mechanism."""
    metric: str
    space: str = ""
    space_digest: str = ""
    """SHA-256 of the words and distances: two spaces of one name do not have one unit of distance."""
    radius: float = float("inf")
    """The greatest distance the promise is charged for (gamma or the diameter)."""
    bounded_range: float | None = None
    """How much the log-ratio of two words can vary over the outputs, per unit of distance; known for some mechanisms."""
    neighbour_distance: float | None = None
    """Median distance of a word to its nearest neighbour: the scale that gives epsilon a meaning."""

    def repeated(self, times: int) -> Self:
        """Return the guarantee of ``times`` releases: over all their outputs together, log-ratios vary so much more."""
        bounded = None if self.bounded_range is None else self.bounded_range * times
        return dataclasses.replace(super().repeated(times), bounded_range=bounded)

    def __add__(self, other: object) -> Self:
        """Return the guarantee of both releases, charged up to the greater of the two radii."""
        both = super().__add__(other)
        if both is NotImplemented or not isinstance(other, MetricGuarantee):
            return both
        ranges = (self.bounded_range, other.bounded_range)
        bounded = None if None in ranges else sum(amount for amount in ranges if amount is not None)
        return dataclasses.replace(both, radius=max(self.radius, other.radius), bounded_range=bounded)

    @property
    def local_epsilon(self) -> float:
        """The local-DP epsilon for the worst pair of words."""
        return self.certified * self.radius

    @property
    def neighbour_loss(self) -> float | None:
        """Privacy loss between a word and its median nearest neighbour."""
        return None if self.neighbour_distance is None else self.certified * self.neighbour_distance

    def promise(self) -> str:
        """State the metric promise."""
        text = (
            f"Whoever sees the output can raise or lower the odds between any two protected words by at most "
            f"exp({self.certified:.6g} x d), where d is their {self.metric} distance"
        )
        if self.space:
            text += f" in the space {self.space!r}"
        if self.radius != float("inf"):
            text += f", counted up to {self.radius:.4g} (so at most exp({self.local_epsilon:.4g}) for any two words)"
        text += "."
        if self.neighbour_loss is not None:
            text += (
                f" For a word and its typical nearest neighbour (distance {self.neighbour_distance:.4g}) "
                f"that is exp({self.neighbour_loss:.4g})."
            )
        return text


@dataclass(frozen=True, kw_only=True)
class PureGuarantee(Guarantee):
    """Local differential privacy: one bound for every pair."""

    kind = "pure"
    additive = ("epsilon", "certified")

    epsilon: float
    certified: float

    def promise(self) -> str:
        """State the pure promise."""
        if self.certified == 0:
            return "The output does not depend on the protected input at all (epsilon 0)."
        return (
            f"Whoever sees the output can raise or lower the odds between any two protected inputs by at most "
            f"exp({self.certified:.6g})."
        )


@dataclass(frozen=True, kw_only=True)
class GroupGuarantee(Guarantee):
    """Local differential privacy inside public groups of words; the group itself is not protected."""

    kind = "group"
    additive = ("epsilon", "certified", "global_epsilon")
    same = ("unit", "neighbours", "groups", "grouping")

    epsilon: float
    certified: float
    groups: int
    smallest_group: int
    largest_group: int
    words_alone: int
    """Words that are a group of their own: they have no protection."""
    global_epsilon: float = float("inf")
    """Bound for words of unlike groups; finite only with a global mix."""
    grouping: str = ""
    """SHA-256 of which words form a group: the promises of two groupings do not add."""

    def promise(self) -> str:
        """State the group promise."""
        text = (
            f"Words are in {self.groups} public groups of {self.smallest_group} to {self.largest_group}. Inside a "
            f"group, whoever sees the output can raise or lower the odds between any two words by at most "
            f"exp({self.certified:.6g}). "
        )
        if self.global_epsilon == float("inf"):
            text += "The group is not protected."
        else:
            text += f"Between words of unlike groups the bound is exp({self.global_epsilon:.6g})."
        if self.words_alone:
            protection = "no protection" if self.global_epsilon == float("inf") else "that protection only"
            text += f" {self.words_alone} words are alone in their group and have {protection}."
        return text


@dataclass(frozen=True, kw_only=True)
class UtilityOptimisedGuarantee(MetricGuarantee):
    """Metric privacy for a protected set; words outside it are kept with some probability."""

    kind = "utility-optimised"
    same = (*MetricGuarantee.same, "keep_probability", "protected_digest")

    keep_probability: float
    """Chance that a word outside the protected set is released as it is."""
    protected_digest: str = ""
    """SHA-256 of which words are protected: the promises about two sets of words do not add."""

    def promise(self) -> str:
        """State the utility-optimised promise."""
        import math

        extra = math.inf if self.keep_probability >= 1 else -math.log1p(-self.keep_probability) * self.releases
        return (
            super().promise()
            + f" This holds for outputs in the protected set, with exp({extra:.4g}) more where one of the two words is "
            "outside it. A word outside the protected set that appears in the output is revealed."
        )


@dataclass(frozen=True, kw_only=True)
class ApproximateGuarantee(Guarantee):
    """(epsilon, delta) differential privacy."""

    kind = "approximate"
    additive = ("epsilon", "delta")

    epsilon: float
    delta: float

    def promise(self) -> str:
        """State the approximate promise."""
        return (
            f"Except with probability {self.delta:.3g}, whoever sees the output can raise or lower the odds between "
            f"neighbouring inputs by at most exp({self.epsilon:.6g}). Neighbouring means: {self.neighbours}."
        )


@dataclass(frozen=True, kw_only=True)
class GaussianGuarantee(Guarantee):
    """Gaussian differential privacy: as hard as telling N(0, 1) from N(mu, 1)."""

    kind = "gaussian"
    same = ("unit", "neighbours")

    mu: float

    def promise(self) -> str:
        """State the Gaussian promise."""
        return (
            f"Telling two neighbouring inputs apart from the output is at least as hard as telling a standard normal "
            f"draw from one shifted by {self.mu:.6g}. Neighbouring means: {self.neighbours}."
        )

    def repeated(self, times: int) -> Self:
        """Return the guarantee of ``times`` releases: mu grows with the square root."""
        require_count(times=times)
        times = int(times)
        return dataclasses.replace(self, mu=self.mu * times**0.5, releases=self.releases * times)

    def __add__(self, other: object) -> Self:
        """Return the guarantee of both releases: the squares of mu add."""
        both = super().__add__(other)
        if both is NotImplemented or not isinstance(other, GaussianGuarantee):
            return both
        return dataclasses.replace(both, mu=(self.mu**2 + other.mu**2) ** 0.5)


@dataclass(frozen=True, kw_only=True)
class NoGuarantee(Guarantee):
    """Nothing is promised."""

    kind = "none"

    def promise(self) -> str:
        """State that there is no promise."""
        return "There is no privacy guarantee."


def guarantee_from_json(data: dict[str, Any]) -> Guarantee:
    """Read back what :meth:`Guarantee.to_json` wrote.

    >>> guarantee_from_json(NoGuarantee(mechanism="identity").to_json())
    NoGuarantee(mechanism='identity', unit=<Unit.WORD: 'word'>, ...
    """
    kind = _KINDS.get(str(data.get("kind")))
    if kind is None:
        raise ParameterError(f"kind must be one of {', '.join(sorted(_KINDS))}")
    names = {field.name for field in dataclasses.fields(kind)}
    values = {name: value for name, value in data.items() if name in names}
    values["unit"] = Unit(values["unit"])
    values["public"] = tuple(values["public"])
    values["notes"] = tuple(values["notes"])
    values["document_notes"] = tuple(values.get("document_notes", ()))
    return kind(**values)
