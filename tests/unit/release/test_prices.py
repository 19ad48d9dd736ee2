"""What texts cost: their protected words, and the digits of their numbers."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any, cast

import pytest

import sfumato
from sfumato import policies
from sfumato.foundation.errors import BudgetError, ParameterError
from sfumato.foundation.guarantee import Guarantee
from sfumato.ledger import Cost
from sfumato.ledger.amounts import exact
from sfumato.mechanism.digits import digits
from sfumato.release import PriceList
from sfumato.sanitize import Sanitizer
from sfumato.sanitize.identifiers import IdentifierReplacer

WORDS = ["cold", "cool", "warm", "hot"]
SPACE = sfumato.Space.from_arrays(WORDS, [[0.0], [1.0], [3.0], [4.0]])
TEM = sfumato.compile("tem", SPACE, epsilon=2.0)


def test_every_protected_word_costs_the_certified_epsilon() -> None:
    prices = PriceList.of(Sanitizer(TEM))
    assert prices.kind == "metric"
    one = exact("epsilon", TEM.guarantee.certified)
    assert prices.of_texts(["cold hot, COLD!"]).amount == 3 * one
    assert prices.of_texts(["cold", None, "", "warm unknownword"]).amount == 3 * one
    assert prices.of_texts([]).amount == 0
    assert prices.of_texts(["cold"]).releases == 1


def test_kept_words_cost_nothing() -> None:
    prices = PriceList.of(Sanitizer(TEM, policy=policies.protect_words(["hot"])))
    assert prices.of_texts(["cold hot warm"]).amount == exact("epsilon", TEM.guarantee.certified)


def test_a_shared_draw_is_no_cheaper() -> None:
    shared = PriceList.of(Sanitizer(TEM, consistency="record"))
    assert shared.of_texts(["cold cold"]).amount == 2 * exact("epsilon", TEM.guarantee.certified)


def test_a_public_length_costs_the_same_for_every_text() -> None:
    prices = PriceList.of(Sanitizer(TEM, public_length=5))
    costs = {prices.of_texts([text]).amount for text in ("", "cold", "cold " * 100)}
    assert costs == {5 * exact("epsilon", TEM.guarantee.certified)}


def test_a_whole_record_as_pure_budget() -> None:
    prices = PriceList.of(Sanitizer(TEM), "pure")
    one = exact("epsilon", TEM.guarantee.certified) * exact("radius", TEM.guarantee.radius)
    assert prices.of_texts(["cold hot"]) == Cost.pure(2 * one, prices.word.scope)
    assert "one record" in prices.word.scope


def test_digits_are_paid_for_beside_words_in_pure_budget() -> None:
    sanitizer = Sanitizer(TEM, digits=digits(epsilon=0.5))
    prices = PriceList.of(sanitizer)
    assert prices.kind == "pure"
    assert prices.digit is not None
    word = prices.of_texts(["cold"]).amount
    assert prices.of_texts(["cold 123"]).amount == word + 3 * prices.digit.amount
    assert prices.digit.amount == exact("epsilon", digits(epsilon=0.5).guarantee.certified) > Fraction(49, 100)
    with pytest.raises(ParameterError, match="paid for in budget of kind"):
        PriceList.of(sanitizer, "metric")


def test_digits_that_are_cut_off_cost_nothing() -> None:
    prices = PriceList.of(Sanitizer(TEM, digits=digits(epsilon=1.0), public_length=2))
    assert prices.digit is not None
    without = prices.of_texts(["a b c"]).amount
    assert prices.of_texts(["a b c 123456"]).amount == prices.of_texts(["a b 7"]).amount == without
    assert prices.of_texts(["a 12 3"]).amount == without + 2 * prices.digit.amount


def test_digits_of_a_random_identifier_are_not_among_those_that_are_paid_for() -> None:
    sanitizer = Sanitizer(TEM, digits=digits(epsilon=1.0), identifiers=IdentifierReplacer(), public_length=4)
    prices = PriceList.of(sanitizer)
    assert prices.digit is not None
    # A random telephone number is three tokens, so one of the two numbers behind it stays.
    costs = [prices.of_texts([text]).amount for text in ("0171 2345678", "0171 2345678, 25 and 367")]
    assert costs[1] - costs[0] == 2 * prices.digit.amount


def test_what_has_no_price_is_refused_before_anything_is_charged() -> None:
    kept = sfumato.compile("santext-plus", SPACE, epsilon=2.0, protected=["cold", "hot"], p=0.5)
    with pytest.raises(BudgetError, match="no price"):
        PriceList.of(Sanitizer(kept))
    with pytest.raises(ParameterError, match="'metric' or 'pure'"):
        PriceList.of(Sanitizer(TEM), "gaussian")


def test_a_group_promise_has_no_price_for_a_record() -> None:
    grouped = sfumato.compile("custext", SPACE, epsilon=1.0, k=2)
    assert PriceList.of(Sanitizer(grouped)).kind == "group"
    with pytest.raises(BudgetError, match="no price in budget of kind 'pure'"):
        PriceList.of(Sanitizer(grouped), "pure")


def test_a_promise_without_a_greatest_distance_has_no_price_for_a_record() -> None:
    mechanism = sfumato.compile("tem", SPACE, epsilon=2.0)
    unbounded = dataclasses.replace(mechanism.guarantee, radius=float("inf"))
    sanitizer = Sanitizer(cast(Any, _Claiming(mechanism, unbounded)))
    with pytest.raises(BudgetError, match="no greatest distance"):
        PriceList.of(sanitizer, "pure")


class _Claiming:
    """A mechanism with another guarantee."""

    def __init__(self, mechanism: Any, guarantee: Guarantee) -> None:
        self._mechanism = mechanism
        self.guarantee = guarantee

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mechanism, name)
