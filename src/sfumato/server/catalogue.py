"""The mechanisms that callers may name, compiled before the first request.

An operator offers a mechanism at one epsilon or at several; every combination is a *choice*, and callers can reach no
other.  What is compiled is read-only and the same in every process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sfumato.audit import Deniability, deniability
from sfumato.foundation.errors import BudgetError, CertificationError, ParameterError
from sfumato.foundation.guarantee import Guarantee
from sfumato.foundation.registry import Entry, entry
from sfumato.mechanism.artifact import load
from sfumato.mechanism.base import Mechanism
from sfumato.mechanism.digits import digits
from sfumato.policy import Policy
from sfumato.release.prices import PriceList
from sfumato.sanitize import Sanitizer
from sfumato.sanitize.identifiers import IdentifierReplacer
from sfumato.server.policies import made
from sfumato.server.settings import MechanismSettings, Settings, SpaceSettings
from sfumato.space import Space, catalogue

_FIGURES_OVER_WORDS = 100


class NotOfferedError(ParameterError):
    """A caller named something that the operator does not offer."""


class RefusedError(CertificationError):
    """A combination that is offered has no certificate."""


@dataclass(frozen=True)
class Choice:
    """One mechanism as it is offered."""

    mechanism: str
    tuning: str | None
    epsilon: float | None


@dataclass(frozen=True)
class Offers:
    """What came of compiling every choice."""

    compiled: dict[Choice, Mechanism]
    refused: dict[Choice, str]
    """Choices without a certificate, and why."""


@dataclass(frozen=True)
class Service:
    """A choice together with a policy: what a request goes through."""

    choice: Choice
    policy: str
    sanitizer: Sanitizer
    prices: PriceList | None
    """None where there is no ledger."""

    @property
    def guarantee(self) -> Guarantee:
        """The promise about a word."""
        return self.sanitizer.guarantee


class Catalogue:
    """Everything that is offered."""

    def __init__(self, settings: Settings, offers: Offers) -> None:
        self.settings = settings
        self._offers = offers
        self._policies: dict[str, Policy] = {name: made(policy) for name, policy in settings.policies.items()}
        self._services: dict[tuple[Choice, str], Service] = {}
        self._figures: dict[Choice, Deniability] = {}
        self._lock = threading.Lock()
        for name in settings.mechanisms:
            for policy in settings.policies:
                self.service(name, None, None, policy)  # what cannot be paid for is found now

    def choices(self, name: str) -> list[Choice]:
        """Return every choice of a mechanism, the default first."""
        return choices(name, self.settings.mechanisms[name])

    def refused(self, name: str) -> list[Choice]:
        """Return the choices of a mechanism that have no certificate."""
        return [choice for choice in self._offers.refused if choice.mechanism == name]

    def choose(self, name: str | None, tuning: str | None, epsilon: float | None) -> Choice:
        """Return what a caller chose, where it is offered."""
        name = name or self.settings.mechanism
        if name not in self.settings.mechanisms:
            raise NotOfferedError(
                f"no mechanism of that name is offered; choose one of {_listed(self.settings.mechanisms)}"
            )
        choices = self.choices(name)
        wanted = Choice(
            name,
            choices[0].tuning if tuning is None else tuning,
            choices[0].epsilon if epsilon is None else epsilon,
        )
        if wanted in self._offers.refused:
            raise RefusedError(self._offers.refused[wanted])
        if wanted not in choices:
            tunings = _listed(_distinct([choice.tuning for choice in choices if choice.tuning]))
            epsilons = _listed(_distinct([f"{choice.epsilon:g}" for choice in choices if choice.epsilon]))
            raise NotOfferedError(
                f"{name} is not offered like this; tunings: {tunings or 'no choice'}; epsilons: {epsilons or 'no choice'}"
            )
        return wanted

    def policy_name(self, name: str | None) -> str:
        """Return the policy a caller chose, where it is offered."""
        name = name or self.settings.policy
        if name not in self._policies:
            raise NotOfferedError(f"no policy of that name is offered; choose one of {_listed(self._policies)}")
        return name

    def mechanism(self, choice: Choice) -> Mechanism:
        """Return a compiled mechanism."""
        return self._offers.compiled[choice]

    def service(self, name: str | None, tuning: str | None, epsilon: float | None, policy: str | None) -> Service:
        """Return what a request with these choices goes through."""
        choice, policy = self.choose(name, tuning, epsilon), self.policy_name(policy)
        found = self._services.get((choice, policy))
        if found is None:
            found = self._services[choice, policy] = self._new_service(choice, policy)
        return found

    def figures(self, choice: Choice) -> Deniability:
        """Return how far a mechanism changes words, over public words; computed once."""
        with self._lock:
            if choice not in self._figures:
                mechanism = self._offers.compiled[choice]
                self._figures[choice] = deniability(mechanism, words=_FIGURES_OVER_WORDS, draws=300)
            return self._figures[choice]

    def _new_service(self, choice: Choice, policy: str) -> Service:
        settings = self.settings.mechanisms[choice.mechanism]
        sanitizer = Sanitizer(
            self._offers.compiled[choice],
            policy=self._policies[policy],
            oov=settings.oov,
            carry_case=settings.carry_case,
            consistency=settings.consistency,
            public_length=settings.public_length,
            digits=None if settings.digit_epsilon is None else digits(epsilon=settings.digit_epsilon),
            identifiers=None if settings.identifiers is None else IdentifierReplacer(form=settings.identifiers),
        )
        return Service(choice, policy, sanitizer, self._prices(sanitizer))

    def _prices(self, sanitizer: Sanitizer) -> PriceList | None:
        ledger = self.settings.ledger
        if ledger is None:
            return None
        try:
            return PriceList.of(sanitizer, ledger.kind)
        except (BudgetError, ParameterError) as error:
            raise ParameterError(
                f"{sanitizer.guarantee.mechanism} cannot be paid for from this ledger: {error}; set kind in [ledger]"
            ) from None


def compiled(settings: Settings, say: Callable[[str], None] = lambda line: None) -> Offers:
    """Compile every choice, or map its file; a default that has no certificate ends the start."""
    spaces: dict[str, Space] = {}
    offers = Offers({}, {})
    for name, offered in settings.mechanisms.items():
        if offered.artifact is not None:
            choice = choices(name, offered)[0]
            say(f"mapping {described(choice)}")
            offers.compiled[choice] = load(offered.artifact, offered.digest)
            continue
        if offered.space not in spaces:
            spaces[offered.space] = load_space(settings.spaces[offered.space])
            spaces[offered.space].compute_statistics()
        default, *others = choices(name, offered)
        for choice in (default, *others):
            say(f"compiling {described(choice)}")
            try:
                offers.compiled[choice] = entry(offered.algorithm).compiler(
                    spaces[offered.space], **options_of(offered, choice)
                )
            except CertificationError as refusal:
                if choice == default:
                    raise
                offers.refused[choice] = str(refusal)
                say(f"not offered: {described(choice)} has no certificate")
    return offers


def choices(name: str, settings: MechanismSettings) -> list[Choice]:
    """Return every choice of a mechanism, the default first."""
    named = [settings.tuning] if settings.tuning is not None or not settings.tunings else []
    tunings = _distinct([*named, *settings.tunings])
    epsilons = _distinct([settings.epsilon, *settings.epsilons])
    return [Choice(name, tuning, epsilon) for tuning in tunings for epsilon in epsilons]


def options_of(settings: MechanismSettings, choice: Choice) -> dict[str, Any]:
    """Return the options that a choice is compiled with."""
    options = dict(settings.options)
    if choice.epsilon is not None:
        options["epsilon"] = choice.epsilon
    if choice.tuning is not None:
        options["tuning"] = choice.tuning
    return options


def load_space(settings: SpaceSettings) -> Space:
    """Return a space from its settings."""
    names = [one.name for one in catalogue.entries()]
    if settings.source == "default" or settings.source in names:
        return Space.load(settings.source, limit=settings.words)
    space = Space.from_file(settings.source)
    return space if settings.words is None or settings.words >= len(space) else space.head(settings.words)


def known(offered: MechanismSettings) -> Entry | None:
    """Return what the registry knows of a mechanism; a file may hold one that it does not know."""
    try:
        return entry(offered.algorithm)
    except ParameterError:
        return None


def described(choice: Choice) -> str:
    """Return a choice in words.

    >>> described(Choice("everyday", "best", 6.0))
    'everyday (tuning best, epsilon 6)'
    """
    parts = []
    if choice.tuning is not None:
        parts.append(f"tuning {choice.tuning}")
    if choice.epsilon is not None:
        parts.append(f"epsilon {choice.epsilon:g}")
    return f"{choice.mechanism} ({', '.join(parts)})" if parts else choice.mechanism


def _distinct(values: Any) -> list[Any]:
    return list(dict.fromkeys(values))


def _listed(values: Any) -> str:
    names: Iterator[str] = (str(value) for value in values)
    return ", ".join(names)
