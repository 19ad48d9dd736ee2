from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.accounting.documents import document_composition, metric_composition
from sfumato.foundation.errors import ParameterError
from sfumato.foundation.guarantee import (
    GroupGuarantee,
    MetricGuarantee,
    NoGuarantee,
    PureGuarantee,
    UtilityOptimisedGuarantee,
)


def _metric(certified: float = 1.5, radius: float = 3.0) -> MetricGuarantee:
    return MetricGuarantee(mechanism="tem", epsilon=2.0, certified=certified, metric="angle", radius=radius)


@given(st.integers(1, 10_000), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_greatest_loss_is_what_repeating_the_release_of_one_word_gives(
    words: int, certified: float, radius: float
) -> None:
    guarantee = _metric(certified, radius)
    composed = metric_composition(guarantee, words)
    assert composed.greatest_loss == pytest.approx(guarantee.repeated(words).local_epsilon)
    assert composed.per_distance == certified


def test_the_certified_epsilon_counts_and_not_the_nominal_one() -> None:
    assert metric_composition(_metric(certified=1.0), 1).greatest_loss == 3.0


def test_both_statements_are_made() -> None:
    statement = metric_composition(_metric(), 7).statement()
    assert "exp(1.5 x the sum of the angle distances" in statement
    assert "(7 protected words) by at most exp(31.5)" in statement


def test_no_finite_bound_is_said_and_written_as_null() -> None:
    composed = metric_composition(_metric(radius=math.inf), 3)
    assert "no finite bound" in composed.statement()
    assert json.loads(json.dumps(composed.to_json(), allow_nan=False))["greatest_loss"] is None


def test_a_document_without_protected_words_loses_nothing_even_where_one_word_may_lose_anything() -> None:
    assert metric_composition(_metric(radius=math.inf), 0).greatest_loss == 0.0


def test_pure_guarantees_add_up_word_by_word() -> None:
    composed = document_composition(PureGuarantee(mechanism="coin", epsilon=2.0, certified=0.5), 6)
    assert composed is not None
    assert composed.greatest_loss == 3.0
    assert composed.to_json()["loss_per_word"] == 0.5


def test_a_promise_inside_groups_adds_up_for_words_of_the_same_groups_only() -> None:
    facts = {"groups": 5, "smallest_group": 3, "largest_group": 20, "words_alone": 0}
    inside = GroupGuarantee(mechanism="custext", epsilon=1.0, certified=0.5, **facts)
    composed = document_composition(inside, 6)
    assert composed is not None
    assert composed.greatest_loss == 3.0
    assert "the same groups in the same places; between others there is no bound." in composed.statement()
    mixed = GroupGuarantee(mechanism="custext", epsilon=1.0, certified=0.5, global_epsilon=4.0, **facts)
    composed = document_composition(mixed, 6)
    assert composed is not None
    assert "a word of another group adds at most 4" in composed.statement()


def test_kinds_that_do_not_add_up_by_distance_are_not_composed() -> None:
    assert document_composition(NoGuarantee(mechanism="identity"), 3) is None
    # A subclass of the metric guarantee promises less for some outputs, which the sum of distances would leave out.
    partly = UtilityOptimisedGuarantee(mechanism="u", epsilon=1.0, certified=1.0, metric="angle", keep_probability=0.5)
    assert document_composition(partly, 3) is None


def test_a_negative_number_of_words_is_refused() -> None:
    with pytest.raises(ParameterError, match="words"):
        metric_composition(_metric(), -1)


@pytest.mark.parametrize("words", [-1, 1.5, float("nan"), float("inf"), None, "3", True])
def test_words_that_are_no_whole_number_are_refused(words: object) -> None:
    with pytest.raises(ParameterError, match="words must be a whole number"):
        metric_composition(_metric(), words)  # type: ignore[arg-type]
    for guarantee in (_metric(), PureGuarantee(mechanism="coin", epsilon=1.0, certified=0.5)):
        with pytest.raises(ParameterError, match="words must be a whole number"):
            document_composition(guarantee, words)  # type: ignore[arg-type]
