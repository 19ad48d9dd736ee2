"""Training plans: clipping, sampling, noise and the accounting event travel together.

A plan is public.  It is fixed before anything is trained, and its guarantee can be printed then:

>>> plan = TrainingPlan(slots=10_000, rate=0.02, steps=500, clip=1.0, noise=8.0, per_user=6, per_entity=2, delta=1e-5)
>>> round(plan.epsilon(), 3)
1.788
>>> plan.denominator
200.0
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Self

from sfumato.accounting import MixtureOfGaussiansEvent, SampledGaussianEvent, accountant, noise_for, releases_within
from sfumato.accounting.events import Event
from sfumato.foundation.checks import gather, require_count, require_positive, require_probability, require_share
from sfumato.foundation.errors import ParameterError, UnsoundError
from sfumato.foundation.guarantee import ApproximateGuarantee, Guarantee, NoGuarantee, Unit
from sfumato.training.published import ESTIMATORS, UNSOUND, PublishedRates, moments_epsilon

EMPTIED = (
    "the sentences of one user, and all sentences that mention one entity, are emptied in their slots; "
    "a sentence without a known entity is an entity of its own"
)
INCIDENCE = (
    "the number of slots, which slots belong to one user and which mention one entity (by number, without the words)"
)
_ACCOUNTANT = "pld"


@lru_cache(maxsize=256)
def _epsilon(event: Event, delta: float) -> float:
    return accountant(_ACCOUNTANT).epsilon(event, delta)


@dataclass(frozen=True, kw_only=True)
class Plan(ABC):
    """What every private method of training has."""

    method: ClassVar[str]

    rate: float
    """Chance of a unit to take part in a step, by its own secret coin."""
    steps: int
    clip: float
    noise: float
    """Standard deviation of the noise over the clipping norm."""
    delta: float

    def __post_init__(self) -> None:
        """Check all fields at once."""
        gather(
            lambda: require_share(rate=self.rate),
            lambda: require_positive(rate=self.rate, clip=self.clip, noise=self.noise),
            lambda: require_count(steps=self.steps),
            lambda: require_probability(delta=self.delta),
            self._check,
        )

    @abstractmethod
    def _check(self) -> None:
        """Check the fields of a subclass."""

    @property
    @abstractmethod
    def denominator(self) -> float:
        """What the noisy sum is divided by: public and the same in every step."""

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on every coordinate of the sum."""
        return self.noise * self.clip

    @abstractmethod
    def epsilon(self, steps: int | None = None) -> float:
        """Return the epsilon after some steps (all of them where ``steps`` is left out); 0 after none."""

    @abstractmethod
    def guarantee(self, steps: int | None = None) -> Guarantee:
        """Return the guarantee of what is known after some steps."""

    def with_steps(self, steps: int) -> Self:
        """Return this plan with another number of steps."""
        return dataclasses.replace(self, steps=steps)

    def within(self, epsilon: float) -> Self:
        """Return this plan cut short so that its epsilon stays within a budget."""
        if self.epsilon() <= epsilon:
            return self
        if self.epsilon(1) > epsilon:
            raise ParameterError(
                f"not even one step is within epsilon {epsilon:g}: one costs {self.epsilon(1):.4g}; "
                "raise the noise or the budget, or lower the rate"
            )
        low, high = 1, self.steps
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.epsilon(middle) <= epsilon else (low, middle)
        return self.with_steps(low)

    def to_json(self) -> dict[str, Any]:
        """Return plain data; :func:`~sfumato.training.plans.plan_from_json` reads it back."""
        return {"method": self.method, **dataclasses.asdict(self)}


class _Accounted(Plan):
    """A plan whose epsilon follows from an event."""

    @abstractmethod
    def event(self, steps: int | None = None) -> Event:
        """Return what the accountants are told."""

    def epsilon(self, steps: int | None = None) -> float:
        """Return the epsilon after some steps; the bound is that of privacy loss distributions."""
        if steps == 0:
            return 0.0
        return _epsilon(self.event(steps), self.delta)

    def within(self, epsilon: float) -> Self:
        """Return this plan cut short so that its epsilon stays within a budget."""
        if self.epsilon() <= epsilon:
            return self
        most = releases_within(self.event(1), epsilon=epsilon, delta=self.delta, accountant=_ACCOUNTANT)
        if most == 0:
            raise ParameterError(
                f"not even one step is within epsilon {epsilon:g}: one costs {self.epsilon(1):.4g}; "
                "raise the noise or the budget, or lower the rate"
            )
        return self.with_steps(min(most, self.steps))


@dataclass(frozen=True, kw_only=True)
class TrainingPlan(_Accounted):
    """UeDP in its sound form: users and entities at once.

    Every sentence's gradient is clipped to ``clip`` and joins a step by a secret coin of its own; the denominator is
    fixed.  Emptying the sentences of one user and of one entity changes at most ``per_user + per_entity`` gradients,
    each to zero, so that one step is a mixture of Gaussians whose shift is ``clip`` times a binomial number
    (Choquette-Choo et al. 2024, corollary 4.7).  That the clipped sum keeps to this is measured in
    ``tests/unit/training/test_sensitivity.py``.
    """

    method = "uedp"

    slots: int
    """Sentences after limiting; public."""
    per_user: int
    per_entity: int

    def _check(self) -> None:
        require_count(slots=self.slots, per_user=self.per_user, per_entity=self.per_entity)

    @classmethod
    def calibrate(
        cls,
        *,
        epsilon: float,
        delta: float,
        slots: int,
        rate: float,
        steps: int,
        clip: float = 1.0,
        per_user: int,
        per_entity: int,
    ) -> TrainingPlan:
        """Return the plan with the least noise whose guarantee is (epsilon, delta).

        >>> plan = TrainingPlan.calibrate(
        ...     epsilon=2.0, delta=1e-5, slots=5000, rate=0.02, steps=100, per_user=4, per_entity=4
        ... )
        >>> 1.99 < plan.epsilon() <= 2.0
        True
        """
        rough = cls(
            slots=slots,
            rate=rate,
            steps=steps,
            clip=clip,
            noise=1.0,
            per_user=per_user,
            per_entity=per_entity,
            delta=delta,
        )
        noise = noise_for(
            lambda value: dataclasses.replace(rough, noise=value).event(),
            epsilon=epsilon,
            delta=delta,
            accountant=_ACCOUNTANT,
        )
        return dataclasses.replace(rough, noise=noise)

    @property
    def group(self) -> int:
        """How many sentences one user and one entity have together, at most.

        The number of slots would bound it too, but federated clients cannot see that all together keep to it.
        """
        return self.per_user + self.per_entity

    @property
    def denominator(self) -> float:
        """The expected number of sentences in a step: a function of public numbers."""
        return self.rate * self.slots

    def event(self, steps: int | None = None) -> Event:
        """Return what the accountants are told."""
        return MixtureOfGaussiansEvent.of_sampled_group(self.noise, self.group, self.rate) * (steps or self.steps)

    def guarantee(self, steps: int | None = None) -> Guarantee:
        """Return the guarantee of the model, and of everything that was seen on the way to it."""
        if steps == 0:
            return NoGuarantee(mechanism=self.method, notes=("Nothing was trained on the private sentences",))
        return (
            accountant(_ACCOUNTANT)
            .guarantee(self.event(steps), self.delta, unit=Unit.USER_ENTITY, neighbours=EMPTIED, mechanism=self.method)
            .with_public(INCIDENCE)
        )


@dataclass(frozen=True, kw_only=True)
class UserPlan(_Accounted):
    """User-level privacy: federated averaging with clipped updates (McMahan et al. 2018); entities have no promise."""

    method = "user"

    users: int

    def _check(self) -> None:
        require_count(users=self.users)

    @classmethod
    def calibrate(
        cls, *, epsilon: float, delta: float, users: int, rate: float, steps: int, clip: float = 1.0
    ) -> UserPlan:
        """Return the plan with the least noise whose guarantee is (epsilon, delta)."""
        rough = cls(users=users, rate=rate, steps=steps, clip=clip, noise=1.0, delta=delta)
        noise = noise_for(
            lambda value: dataclasses.replace(rough, noise=value).event(),
            epsilon=epsilon,
            delta=delta,
            accountant=_ACCOUNTANT,
        )
        return dataclasses.replace(rough, noise=noise)

    @property
    def denominator(self) -> float:
        """The expected number of users in a step."""
        return self.rate * self.users

    def event(self, steps: int | None = None) -> Event:
        """Return what the accountants are told."""
        return SampledGaussianEvent(self.noise, self.rate) * (steps or self.steps)

    def guarantee(self, steps: int | None = None) -> Guarantee:
        """Return the guarantee of the model."""
        if steps == 0:
            return NoGuarantee(mechanism=self.method, notes=("Nothing was trained on the private sentences",))
        return (
            accountant(_ACCOUNTANT)
            .guarantee(
                self.event(steps),
                self.delta,
                unit=Unit.USER,
                neighbours="all sentences of one user are emptied",
                mechanism=self.method,
            )
            .with_public("the number of users")
            .with_notes("Nothing is promised about an entity that several users mention")
        )


@dataclass(frozen=True, kw_only=True)
class PublishedPlan(Plan):
    """UeDP as published: for comparison only, and only where ``allow_unsound`` is given.

    ``rate`` is the rate of users.  The noise and the denominator are those of the paper's estimators.
    """

    method = "uedp-as-published"

    users: int
    entity_rate: float
    sensitive: int
    """Sentences with an entity: read off the private data, which is one of the reasons why this is unsound."""
    sentences: int
    estimator: str = "f_E+"
    released_noise: bool = False
    """Draw the noise as the program that was released with the paper does: with the square of its deviation."""
    allow_unsound: bool = False

    def _check(self) -> None:
        gather(
            lambda: require_count(users=self.users, sensitive=self.sensitive, sentences=self.sentences),
            lambda: require_share(entity_rate=self.entity_rate),
            lambda: require_positive(entity_rate=self.entity_rate),
        )
        if self.estimator not in ESTIMATORS[:2]:
            raise ParameterError(f"estimator must be one of {', '.join(ESTIMATORS[:2])}")
        if self.sensitive > self.sentences:
            raise ParameterError("sensitive must be at most sentences")
        if not self.allow_unsound:
            raise UnsoundError(
                "UeDP as published has a false guarantee; give allow_unsound=True to run it for comparison, "
                "or use the method 'uedp'"
            )

    @property
    def rates(self) -> PublishedRates:
        """The rates of the published accounting."""
        return PublishedRates(self.rate, self.entity_rate, self.sensitive / self.sentences)

    @property
    def sampled_users(self) -> float:
        """The expected number of users in a step, with the paper's weight 1 for each."""
        return self.rate * self.users

    @property
    def denominator(self) -> float:
        """The weight of the sampled users.

        The paper divides by a weight of entities as well; that scales update and noise alike, and the learning rate
        undoes it.
        """
        return self.sampled_users

    @property
    def deviation(self) -> float:
        """The published sensitivity, (|U| + 1) times the clipping norm, times the noise; on the scale of the sum.

        The released program divides by the weights of users and entities first and then draws with the square of that
        deviation, which is far below 1: there is hardly any noise left.
        """
        published = self.noise * self.clip * (self.sampled_users + 1)
        if not self.released_noise:
            return published
        entities = self.entity_rate * self.sensitive + (self.sentences - self.sensitive)
        return published**2 / (self.sampled_users * entities)

    def epsilon(self, steps: int | None = None) -> float:
        """Return what the published analysis prints."""
        if steps == 0:
            return 0.0
        return moments_epsilon(
            self.rates.of(self.estimator), noise=self.noise, steps=steps or self.steps, delta=self.delta
        )

    def guarantee(self, steps: int | None = None) -> Guarantee:
        """Return the published guarantee, marked as unsound."""
        if steps == 0:
            return NoGuarantee(mechanism=self.method, notes=("Nothing was trained on the private sentences",))
        return ApproximateGuarantee(
            mechanism=f"{self.method} ({self.estimator})",
            unit=Unit.USER_ENTITY,
            neighbours="all sentences of one user and all sentences with one entity are removed (claimed)",
            releases=steps or self.steps,
            epsilon=self.epsilon(steps),
            delta=self.delta,
            arithmetic="float64",
            sound=False,
            unsound_because=UNSOUND,
        )
