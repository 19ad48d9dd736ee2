"""Events add, repeat, and have one form."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.accounting.events import (
    ApproximateEvent,
    BoundedRangeEvent,
    ConcentratedEvent,
    GaussianEvent,
    LaplaceEvent,
    MixtureOfGaussiansEvent,
    PureEvent,
    SampledGaussianEvent,
    compose,
)
from sfumato.foundation.errors import ParameterError

RELEASES = st.sampled_from([
    GaussianEvent(1.0),
    GaussianEvent(2.0),
    SampledGaussianEvent(1.0, 0.1),
    LaplaceEvent(1.0),
    PureEvent(0.5),
    BoundedRangeEvent(0.5),
    MixtureOfGaussiansEvent(1.0, (0.0, 1.0), (0.5, 0.5)),
])  # fmt: skip
EVENTS = st.lists(st.tuples(RELEASES, st.integers(1, 5)), min_size=1, max_size=6)


@given(EVENTS, st.randoms())
def test_order_and_grouping_do_not_matter(parts, random):
    whole = compose(release * times for release, times in parts)
    singles = [release for release, times in parts for _ in range(times)]
    random.shuffle(singles)
    nested = singles[0]
    for _, following in pairwise(singles):
        nested = nested + following
    assert nested == whole == compose(singles)
    assert hash(nested) == hash(whole)
    assert whole.releases == len(singles)


@given(EVENTS, st.integers(1, 4))
def test_repeating_is_adding(parts, times):
    event = compose(release * count for release, count in parts)
    assert event * times == compose([event] * times) == times * event


@pytest.mark.parametrize(
    "make",
    [
        lambda: GaussianEvent(0.0),
        lambda: GaussianEvent(math.nan),
        lambda: SampledGaussianEvent(1.0, 0.0),
        lambda: SampledGaussianEvent(1.0, 1.5),
        lambda: LaplaceEvent(-1.0),
        lambda: PureEvent(-0.1),
        lambda: BoundedRangeEvent(math.inf),
        lambda: ApproximateEvent(1.0, 1.0),
        lambda: ConcentratedEvent(-1.0),
        lambda: MixtureOfGaussiansEvent(1.0, (1.0,), (0.5,)),
        lambda: MixtureOfGaussiansEvent(1.0, (1.0, 2.0), (1.0,)),
        lambda: MixtureOfGaussiansEvent(1.0, (-1.0,), (1.0,)),
        lambda: GaussianEvent(1.0) * 0,
        lambda: GaussianEvent(1.0) * 1.5,
        lambda: compose([]),
    ],
)
def test_impossible_events_are_refused(make):
    with pytest.raises(ParameterError):
        make()


def test_a_sampled_group_is_binomial():
    event = MixtureOfGaussiansEvent.of_sampled_group(8.0, size=3, rate=0.25)
    assert event.sensitivities == (0.0, 1.0, 2.0, 3.0)
    assert event.probabilities == pytest.approx([27 / 64, 27 / 64, 9 / 64, 1 / 64], rel=1e-15)
    assert event.greatest_shift == 3.0


def test_the_range_of_the_exponential_family():
    assert BoundedRangeEvent.of_exponential_family(rate=0.5, distance=3.0) == BoundedRangeEvent(3.0)
