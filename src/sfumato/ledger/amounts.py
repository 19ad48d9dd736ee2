"""Amounts of budget: exact numbers, whole units, and kinds that never mix.

A cost is an exact fraction.  What is written down is a whole number of units, rounded up for what is spent and down
for what may be spent, so that no sequence of charges can add up to more than the limit.

>>> (Cost.pure("0.1") + Cost.pure("0.2")).amount == Cost.pure("0.3").amount
True
>>> Cost.pure("1/3").units
(333333334, 0)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from sfumato.foundation.checks import require_count, require_one_of
from sfumato.foundation.errors import BudgetError, ParameterError
from sfumato.foundation.guarantee import (
    ApproximateGuarantee,
    GaussianGuarantee,
    GroupGuarantee,
    Guarantee,
    MetricGuarantee,
    PureGuarantee,
)
from sfumato.ledger.errors import UnlikeCostError

Amount = Fraction | Decimal | int | float | str

UNITS: dict[str, Fraction] = {
    "pure": Fraction(1, 10**9),
    "metric": Fraction(1, 10**9),
    "group": Fraction(1, 10**9),
    "approximate": Fraction(1, 10**9),
    "concentrated": Fraction(1, 10**12),
    "gaussian": Fraction(1, 10**12),
}
"""What one unit of each kind is worth: of epsilon, of rho, or of the square of mu."""
DELTA_UNIT = Fraction(1, 10**18)
GREATEST_UNITS = 2**63 - 1
_MOST_DIGITS = 1000

MEANINGS = {
    "pure": "epsilon",
    "metric": "epsilon for each unit of distance",
    "group": "epsilon inside a group",
    "approximate": "epsilon",
    "concentrated": "rho",
    "gaussian": "mu squared",
}


def exact(name: str, amount: Amount) -> Fraction:
    """Return the exact value of an amount, which is 0 or more.

    Text is read as it is written ("0.1", "1e-5", "1/3").  A float stands for the shortest decimal that reads back as
    it, so that 0.1 is one tenth and ten times 0.1 is 1.

    >>> exact("limit", 0.1), exact("limit", "1e-5")
    (Fraction(1, 10), Fraction(1, 100000))
    """
    try:
        if isinstance(amount, bool):
            raise TypeError
        if isinstance(amount, float) or (isinstance(amount, str) and "/" not in amount):
            amount = Decimal(repr(float(amount)) if isinstance(amount, float) else amount)
        if isinstance(amount, Decimal) and amount.is_finite() and abs(amount.adjusted()) > _MOST_DIGITS:
            raise ValueError  # written out, it would fill the memory
        value = Fraction(amount)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError, InvalidOperation):
        raise ParameterError(f"{name} must be a finite number, 0 or greater, such as 0.5, 1e-5 or 1/3") from None
    if value < 0:
        raise ParameterError(f"{name} must be 0 or greater; there are no refunds")
    return value


def require_scope(scope: str) -> None:
    """Raise where a scope is not text that every database can hold."""
    try:
        if "\0" in scope:
            raise ValueError
        scope.encode()
    except (TypeError, ValueError, AttributeError):
        raise ParameterError("scope must be text that can be written in UTF-8, without NUL characters") from None


def units_spent(kind: str, amount: Fraction) -> int:
    """Return an amount in whole units, rounded up."""
    return _in_range(math.ceil(amount / UNITS[kind]))


def units_allowed(kind: str, amount: Fraction) -> int:
    """Return a limit in whole units, rounded down."""
    return _in_range(math.floor(amount / UNITS[kind]))


def _in_range(units: int) -> int:
    if units > GREATEST_UNITS:
        raise ParameterError("an amount is too large to be written down; it says nothing about privacy at that size")
    return units


@dataclass(frozen=True)
class Cost:
    """What a release costs.

    ``scope`` says what the amount speaks of (whose change is hidden, in which metric ...).  Costs of unlike scope do
    not add, and a budget takes costs of one scope only; empty means that nothing is said.
    """

    kind: str
    amount: Fraction
    delta: Fraction = Fraction(0)
    scope: str = ""
    releases: int = 1

    def __post_init__(self) -> None:
        require_one_of(UNITS, kind=self.kind)
        require_count(releases=self.releases)
        object.__setattr__(self, "amount", exact("amount", self.amount))
        object.__setattr__(self, "delta", exact("delta", self.delta))
        require_scope(self.scope)
        if self.delta and self.kind != "approximate":
            raise ParameterError(f"a cost of kind {self.kind!r} has no delta")

    @classmethod
    def pure(cls, epsilon: Amount, scope: str = "") -> Cost:
        """Return the cost of an epsilon-private release."""
        return cls("pure", exact("epsilon", epsilon), scope=scope)

    @classmethod
    def metric(cls, epsilon: Amount, scope: str = "") -> Cost:
        """Return the cost of a release that is private per unit of distance."""
        return cls("metric", exact("epsilon", epsilon), scope=scope)

    @classmethod
    def approximate(cls, epsilon: Amount, delta: Amount, scope: str = "") -> Cost:
        """Return the cost of an (epsilon, delta)-private release."""
        return cls("approximate", exact("epsilon", epsilon), exact("delta", delta), scope=scope)

    @classmethod
    def concentrated(cls, rho: Amount, scope: str = "") -> Cost:
        """Return the cost of a rho-zCDP release."""
        return cls("concentrated", exact("rho", rho), scope=scope)

    @classmethod
    def gaussian(cls, mu: Amount, scope: str = "") -> Cost:
        """Return the cost of a mu-Gaussian private release, kept as mu squared: squares add up, mu does not.

        >>> (Cost.gaussian(3) + Cost.gaussian(4)).amount == 25
        True
        """
        return cls("gaussian", exact("mu", mu) ** 2, scope=scope)

    @classmethod
    def of(cls, guarantee: Guarantee) -> Cost:
        """Return what a release with this guarantee costs; unsound and seeded ones cannot be paid for.

        >>> Cost.of(PureGuarantee(mechanism="coin", epsilon=1.0, certified=0.75).repeated(2)).amount
        Fraction(3, 2)
        """
        if not guarantee.sound:
            raise BudgetError("a budget cannot be spent on an unsound guarantee: nobody knows what it costs")
        if not guarantee.secure:
            raise BudgetError("a budget cannot be spent on noise that follows from a seed; leave the seed out")
        said = {name: getattr(guarantee, name) for name in type(guarantee).same}
        scope = "; ".join(f"{name}: {value}" for name, value in said.items() if value != "")
        for accepted, read in _READERS.items():
            if type(guarantee) is accepted:
                amount, delta = read(guarantee)
                return cls(guarantee.kind, amount, delta, scope, guarantee.releases)
        raise BudgetError(f"a guarantee of kind {guarantee.kind!r} has no price: it does not add up over releases")

    @property
    def units(self) -> tuple[int, int]:
        """The amount and the delta in whole units, rounded up."""
        return units_spent(self.kind, self.amount), _in_range(math.ceil(self.delta / DELTA_UNIT))

    def __add__(self, other: Cost) -> Cost:
        """Return the cost of both releases."""
        if not isinstance(other, Cost):
            return NotImplemented
        if (self.kind, self.scope) != (other.kind, other.scope):
            raise UnlikeCostError("costs of unlike kind or scope do not add; charge them to budgets of their own")
        return Cost(
            self.kind, self.amount + other.amount, self.delta + other.delta, self.scope, self.releases + other.releases
        )

    def __mul__(self, times: int) -> Cost:
        """Return the cost of this release made several times."""
        require_count(times=times)
        return Cost(self.kind, self.amount * times, self.delta * times, self.scope, self.releases * times)

    __rmul__ = __mul__


_READERS: dict[type[Guarantee], Callable[[Any], tuple[Fraction, Fraction]]] = {
    PureGuarantee: lambda g: (exact("epsilon", g.certified), Fraction(0)),
    MetricGuarantee: lambda g: (exact("epsilon", g.certified), Fraction(0)),
    GroupGuarantee: lambda g: (exact("epsilon", g.certified), Fraction(0)),
    ApproximateGuarantee: lambda g: (exact("epsilon", g.epsilon), exact("delta", g.delta)),
    GaussianGuarantee: lambda g: (exact("mu", g.mu) ** 2, Fraction(0)),
}


def running_units(costs: Iterable[Cost]) -> list[tuple[int, int]]:
    """Return the units of the first cost, of the first two, and so on; rounded once, not once for each cost.

    >>> running_units([Cost.pure("1/3"), Cost.pure("2/3")])
    [(333333334, 0), (1000000000, 0)]
    """
    result: list[tuple[int, int]] = []
    total: Cost | None = None
    for cost in costs:
        total = cost if total is None else total + cost
        result.append(total.units)
    return result
