"""The approximate loss over a document, against its closed forms."""

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.accounting.documents import metric_composition
from sfumato.foundation.errors import ParameterError
from sfumato.foundation.guarantee import MetricGuarantee

WORD = MetricGuarantee(mechanism="tem", epsilon=0.2, certified=0.2, metric="euclidean", radius=1.0)


@given(st.integers(1, 100_000), st.floats(1e-9, 0.1))
def test_it_is_never_above_the_sum_and_near_the_plain_conversion(words, delta):
    found = metric_composition(WORD, words, delta=delta)
    rho = words * 0.2**2 / 2
    plain = rho + 2 * math.sqrt(rho * math.log(1 / delta))  # Bun and Steinke 2016: a valid, looser conversion
    if math.isfinite(found.approximate_loss):
        assert found.approximate_loss < found.greatest_loss
        assert found.approximate_loss <= plain * (1 + 1e-9)
    else:
        assert found.greatest_loss <= plain * (1 + 1e-9)


def test_a_bounded_range_counts_a_quarter_where_the_rate_is_half():
    """Range 2 rate d with rate = epsilon / 2 gives rho = (epsilon d)^2 / 8, a quarter of (epsilon d)^2 / 2."""
    ranged = dataclasses.replace(WORD, bounded_range=0.2)
    assert metric_composition(ranged, 4000).approximate_loss == pytest.approx(
        metric_composition(WORD, 1000).approximate_loss, rel=1e-9
    )


def test_it_is_said_where_it_helps():
    assert "except with probability 1e-06" in metric_composition(WORD, 5000).statement()
    assert "except" not in metric_composition(WORD, 1).statement()
    assert metric_composition(WORD, 0).greatest_loss == 0
    assert metric_composition(WORD, 1).to_json()["approximate_loss"] is None
    with pytest.raises(ParameterError, match="delta"):
        metric_composition(WORD, 3, delta=0.0)


@given(st.integers(1, 300), st.integers(2, 9), st.floats(0.05, 5.0))
def test_releasing_again_never_costs_less_than_as_many_more_words(words, times, loss):
    """A guarantee that was composed already says no less than the words of all its releases one by one."""
    word = dataclasses.replace(WORD, epsilon=loss, certified=loss, bounded_range=loss)

    def least(found):
        return min(found.greatest_loss, found.approximate_loss)

    again = metric_composition(word.repeated(times), words)
    assert least(again) >= least(metric_composition(word, words * times)) * (1 - 1e-9)
