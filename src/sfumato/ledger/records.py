"""What the ledger tells: budgets, charges and the outcome of a verification."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from sfumato.foundation.errors import ParameterError
from sfumato.ledger.amounts import DELTA_UNIT, GREATEST_UNITS, UNITS, Cost

_LONGEST_LABEL = 200


def shown(amount: Fraction) -> str:
    """Return an exact decimal without trailing zeros (units are powers of ten, so there is one).

    >>> shown(Fraction(3, 2)), shown(Fraction(20)), shown(Fraction(1, 10**9))
    ('1.5', '20', '0.000000001')
    """
    digits = 0
    while (amount * 10**digits).denominator != 1 and digits < 18:
        digits += 1
    scaled = int(amount * 10**digits)
    whole, part = divmod(scaled, 10**digits)
    return f"{whole}.{part:0{digits}d}" if digits else str(whole)


@dataclass(frozen=True)
class Budget:
    """What one subject may spend, and has spent, in one kind of guarantee."""

    number: int
    subject: str = field(repr=False)
    """As it is stored: the name itself, or its keyed pseudonym."""
    kind: str
    scope: str
    """What the amounts speak of; empty until the first charge that says so."""
    limit_units: int
    spent_units: int
    limit_delta_units: int
    spent_delta_units: int
    charges: int
    created_at: datetime
    head: str = field(repr=False)
    """The end of its chain of charges."""

    @property
    def limit(self) -> Fraction:
        """What may be spent in all."""
        return self.limit_units * UNITS[self.kind]

    @property
    def spent(self) -> Fraction:
        """What has been spent."""
        return self.spent_units * UNITS[self.kind]

    @property
    def left(self) -> Fraction:
        """What may still be spent."""
        return self.limit - self.spent

    @property
    def delta_left(self) -> Fraction:
        """The delta that may still be spent."""
        return (self.limit_delta_units - self.spent_delta_units) * DELTA_UNIT

    def to_json(self, *, with_subject: bool = False) -> dict[str, Any]:
        """Return plain data; the subject is in it only where it is asked for."""
        data: dict[str, Any] = {"budget": self.number}
        if with_subject:
            data["subject"] = self.subject
        data |= {
            "kind": self.kind,
            "scope": self.scope,
            "limit": shown(self.limit),
            "spent": shown(self.spent),
            "left": shown(self.left),
        }
        if self.kind == "approximate":
            data |= {
                "delta_limit": shown(self.limit_delta_units * DELTA_UNIT),
                "delta_spent": shown(self.spent_delta_units * DELTA_UNIT),
                "delta_left": shown(self.delta_left),
            }
        return data | {"charges": self.charges, "created_at": self.created_at.isoformat(), "head": self.head}


@dataclass(frozen=True)
class Charge:
    """One line of the history."""

    budget: int
    number: int
    kind: str
    amount_units: int
    delta_units: int
    releases: int
    key: str
    fingerprint: str
    purpose: str
    charged_at: datetime
    hash: str = field(repr=False)
    replayed: bool = False
    """It was written down by an earlier call with the same key; this call cost nothing."""

    @property
    def amount(self) -> Fraction:
        """What was charged."""
        return self.amount_units * UNITS[self.kind]

    @property
    def delta(self) -> Fraction:
        """The delta that was charged."""
        return self.delta_units * DELTA_UNIT

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "budget": self.budget,
            "number": self.number,
            "kind": self.kind,
            "amount": shown(self.amount),
            "delta": shown(self.delta),
            "releases": self.releases,
            "key": self.key,
            "fingerprint": self.fingerprint,
            "purpose": self.purpose,
            "charged_at": self.charged_at.isoformat(),
            "hash": self.hash,
        }


@dataclass(frozen=True)
class Request:
    """A charge that is asked for.

    Several ``costs`` are as many releases of one subject, in order.  They become one charge; with ``partial``, of the
    most that are affordable from the first on.
    """

    subject: str = field(repr=False)
    costs: Sequence[Cost]
    key: str | None = None
    """Idempotency key: a second request with the same key is not charged again."""
    purpose: str = ""
    """A short public label, such as a mechanism's name.  Never text that is to be protected."""
    fingerprint: str = ""
    """What the key stands for, so that its reuse for something else is noticed: a keyed digest, never text."""
    partial: bool = False

    def __post_init__(self) -> None:
        if not self.costs:
            raise ParameterError("a request names at least one cost")
        if len({(cost.kind, cost.scope) for cost in self.costs}) > 1:
            raise ParameterError("the costs of one request are of one kind and scope")
        if sum(cost.releases for cost in self.costs) > GREATEST_UNITS:
            raise ParameterError("a request pays for fewer than 2^63 releases")
        problems = [
            f"{name} must be text of at most {_LONGEST_LABEL} characters without control characters"
            for name in ("key", "purpose", "fingerprint")
            if not _is_label(getattr(self, name))
        ]
        if problems:
            raise ParameterError("; ".join(problems))

    @property
    def kind(self) -> str:
        """The kind of the costs."""
        return self.costs[0].kind

    @property
    def scope(self) -> str:
        """The scope of the costs."""
        return self.costs[0].scope


def _is_label(value: object) -> bool:
    return value is None or (
        isinstance(value, str) and len(value) <= _LONGEST_LABEL and (value.isprintable() or not value)
    )


@dataclass(frozen=True)
class Outcome:
    """What became of a request."""

    accepted: int
    """How many of its costs were charged, from the first on."""
    charge: Charge | None = None
    refusal: Exception | None = None
    """Why not all were: an :class:`OverdraftError`, an :class:`UnknownBudgetError` ..."""


@dataclass(frozen=True)
class Verification:
    """What a check of all chains and balances found."""

    budgets: int
    charges: int
    problems: tuple[str, ...]
    """What is wrong, by number of the budget and of the charge."""
    digest: str
    """One hash over the ends of all chains: written down elsewhere, it pins the ledger's state."""

    @property
    def passed(self) -> bool:
        """Whether nothing was found."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"passed": self.passed, **dataclasses.asdict(self)}


def moment(microseconds: int) -> datetime:
    """Return the time of a stored number of microseconds.

    >>> moment(0).isoformat()
    '1970-01-01T00:00:00+00:00'
    """
    seconds, rest = divmod(microseconds, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)
