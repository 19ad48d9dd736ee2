"""Amounts are exact, kinds never mix, and what is rounded is rounded against the spender."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.foundation.errors import BudgetError, ParameterError
from sfumato.foundation.guarantee import (
    ApproximateGuarantee,
    GaussianGuarantee,
    GroupGuarantee,
    Guarantee,
    MetricGuarantee,
    NoGuarantee,
    PureGuarantee,
    UtilityOptimisedGuarantee,
)
from sfumato.ledger import Cost, Request, UnlikeCostError
from sfumato.ledger.amounts import (
    DELTA_UNIT,
    GREATEST_UNITS,
    UNITS,
    exact,
    running_units,
    units_allowed,
    units_spent,
)

AMOUNTS = st.fractions(0, 1000, max_denominator=10**15)
EACH_KIND = pytest.mark.parametrize("kind", UNITS)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("0.1", Fraction(1, 10)),
        (0.1, Fraction(1, 10)),
        (Decimal("0.1"), Fraction(1, 10)),
        ("1/3", Fraction(1, 3)),
        ("1e-5", Fraction(1, 100_000)),
        (1e-5, Fraction(1, 100_000)),
        (5e-324, Fraction(5, 10**324)),
        (7, Fraction(7)),
        (" 2 ", Fraction(2)),
    ],
)
def test_amounts_are_read_as_they_are_written(written, value):
    assert exact("limit", written) == value


@pytest.mark.parametrize(
    "nonsense",
    ["", "a", "1/0", "nan", "inf", "-inf", math.nan, math.inf, -0.1, "-1", "-1/2", True, None, [], "1e999999999",
     "1e-999999999", Decimal("1e5000")],
)  # fmt: skip
def test_amounts_that_are_none_are_refused_at_once(nonsense):
    with pytest.raises(ParameterError, match="limit must be"):
        exact("limit", nonsense)


@given(amounts=st.lists(AMOUNTS, min_size=1, max_size=30))
@EACH_KIND
def test_no_rounding_lets_charges_pass_the_limit(kind, amounts):
    """However charges are grouped, their units are at least what they cost, and a limit's at most what it allows."""
    total = sum(amounts)
    assert sum(units_spent(kind, amount) for amount in amounts) * UNITS[kind] >= total
    assert units_allowed(kind, total) * UNITS[kind] <= total < (units_allowed(kind, total) + 1) * UNITS[kind]
    running = running_units([Cost(kind, amount) for amount in amounts])
    assert [units for units, _ in running] == [
        units_spent(kind, sum(amounts[: count + 1], Fraction(0))) for count in range(len(amounts))
    ]
    assert all(after >= before for before, after in itertools.pairwise(running))


@given(amount=AMOUNTS, times=st.integers(1, 1000))
@EACH_KIND
def test_n_times_is_n_additions(kind, amount, times):
    cost = Cost(kind, amount, scope="s")
    assert cost * times == times * cost
    assert (cost * times).amount == amount * times
    assert (cost + cost * times).releases == times + 1
    assert cost + cost == cost * 2


def test_amounts_too_large_to_write_down_are_refused():
    with pytest.raises(ParameterError, match="too large"):
        _ = Cost.pure(GREATEST_UNITS).units
    with pytest.raises(ParameterError, match="fewer than"):
        Request("ada", [Cost.pure(1) * GREATEST_UNITS, Cost.pure(1)])


@pytest.mark.parametrize("nonsense", [math.nan, -1, math.inf])
def test_a_cost_that_is_no_amount_is_refused(nonsense):
    with pytest.raises(ParameterError, match="amount must be"):
        Cost("pure", nonsense)
    with pytest.raises(ParameterError, match="delta must be"):
        Cost("approximate", Fraction(1), nonsense)


def test_a_cost_is_of_one_kind_and_says_what_it_speaks_of():
    with pytest.raises(ParameterError, match="kind must be one of"):
        Cost("renyi", Fraction(1))
    with pytest.raises(ParameterError, match="has no delta"):
        Cost("pure", Fraction(1), Fraction(1, 10))
    for scope in ("nul \0", "half a pair \ud800", 3):
        with pytest.raises(ParameterError, match="scope must be text"):
            Cost.pure(1, scope=scope)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="releases"):
        Cost("pure", Fraction(1), releases=0)
    with pytest.raises(ParameterError, match="times"):
        Cost.pure(1) * 0
    with pytest.raises(UnlikeCostError):
        Cost.pure(1, scope="a") + Cost.pure(1, scope="b")
    with pytest.raises(TypeError):
        Cost.pure(1) + 1


@pytest.mark.parametrize("name", ["key", "purpose", "fingerprint"])
@pytest.mark.parametrize("label", ["two\nlines", "nul\0", "x" * 201, "\ud800"])
def test_labels_are_short_and_printable(name, label):
    with pytest.raises(ParameterError, match=name):
        Request("ada", [Cost.pure(1)], **{name: label})


def test_a_request_names_a_cost():
    with pytest.raises(ParameterError, match="at least one"):
        Request("ada", [])


@pytest.mark.parametrize(
    ("guarantee", "kind", "amount", "delta"),
    [
        (PureGuarantee(mechanism="m", epsilon=2.0, certified=1.5), "pure", Fraction(3, 2), 0),
        (MetricGuarantee(mechanism="m", epsilon=2.0, certified=1.5, metric="cosine"), "metric", Fraction(3, 2), 0),
        (ApproximateGuarantee(mechanism="m", epsilon=0.5, delta=1e-6), "approximate", Fraction(1, 2), Fraction(1, 10**6)),
        (GaussianGuarantee(mechanism="m", mu=0.5), "gaussian", Fraction(1, 4), 0),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_guarantees_have_prices(guarantee: Guarantee, kind, amount, delta):
    cost = Cost.of(guarantee)
    assert (cost.kind, cost.amount, cost.delta) == (kind, amount, delta)
    assert "unit: " in cost.scope


def test_prices_of_unlike_promises_do_not_add():
    one = Cost.of(MetricGuarantee(mechanism="m", epsilon=2.0, certified=1.5, metric="cosine"))
    other = Cost.of(MetricGuarantee(mechanism="m", epsilon=2.0, certified=1.5, metric="euclidean"))
    with pytest.raises(UnlikeCostError):
        one + other


def test_what_cannot_be_paid_for_has_no_price():
    fine = PureGuarantee(mechanism="m", epsilon=2.0, certified=1.5)
    for guarantee, reason in (
        (NoGuarantee(mechanism="m"), "no price"),
        (
            UtilityOptimisedGuarantee(mechanism="m", epsilon=1.0, certified=1.0, metric="cosine", keep_probability=0.5),
            "no price",
        ),
        (fine.with_randomness(False), "seed"),
        (PureGuarantee(mechanism="m", epsilon=2.0, certified=1.5, sound=False, unsound_because="x"), "unsound"),
    ):
        with pytest.raises(BudgetError, match=reason):
            Cost.of(guarantee)


def test_squares_of_mu_add_up():
    assert (Cost.gaussian("0.3") + Cost.gaussian("0.4")).amount == Cost.gaussian("0.5").amount
    assert Cost.gaussian(1).units == (10**12, 0)
    assert Cost.approximate(1, DELTA_UNIT).units == (10**9, 1)
    assert Cost.approximate(1, DELTA_UNIT / 3).units == (10**9, 1)


def test_the_price_of_a_group_promise():
    group = GroupGuarantee(
        mechanism="m", epsilon=2.0, certified=1.25, groups=1, smallest_group=9, largest_group=9, words_alone=0
    )
    assert Cost.of(group).amount == Fraction(5, 4)
