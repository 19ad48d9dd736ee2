import dataclasses
import json

import pytest

from sfumato.foundation.errors import CompositionError, ParameterError
from sfumato.foundation.guarantee import (
    ApproximateGuarantee,
    GaussianGuarantee,
    GroupGuarantee,
    Guarantee,
    MetricGuarantee,
    NoGuarantee,
    PureGuarantee,
    Unit,
    UtilityOptimisedGuarantee,
    guarantee_from_json,
)

METRIC = MetricGuarantee(
    mechanism="tem", epsilon=2.0, certified=1.9, metric="euclidean", space="default", radius=3.0, neighbour_distance=1.0
)
EXAMPLES: list[Guarantee] = [
    METRIC,
    PureGuarantee(mechanism="digits", epsilon=1.0, certified=1.0),
    GroupGuarantee(
        mechanism="custext", epsilon=1.0, certified=0.9, groups=5, smallest_group=1, largest_group=20, words_alone=1
    ),
    UtilityOptimisedGuarantee(mechanism="santext+", epsilon=1, certified=1, metric="euclidean", keep_probability=0.7),
    ApproximateGuarantee(mechanism="laplace", epsilon=1.0, delta=1e-6),
    GaussianGuarantee(mechanism="gauss", mu=1.0, arithmetic="float64"),
    NoGuarantee(mechanism="identity"),
]


@pytest.mark.parametrize("guarantee", EXAMPLES, ids=lambda g: g.kind)
def test_json_and_back(guarantee):
    guarantee = guarantee.with_public("case").with_notes("a note").with_randomness(False)
    assert guarantee_from_json(json.loads(json.dumps(guarantee.to_json()))) == guarantee


@pytest.mark.parametrize("one", EXAMPLES, ids=lambda g: g.kind)
@pytest.mark.parametrize("other", EXAMPLES, ids=lambda g: g.kind)
def test_unlike_kinds_refuse_to_add(one, other):
    if one.kind == other.kind:
        assert (one + other).releases == 2
    else:
        with pytest.raises(CompositionError):
            one + other


@pytest.mark.parametrize("guarantee", EXAMPLES, ids=lambda g: g.kind)
@pytest.mark.parametrize("times", [1, 2, 7])
def test_composing_n_times_equals_adding_n_times(guarantee, times):
    added = guarantee
    for _ in range(times - 1):
        added = added + guarantee
    repeated = guarantee.repeated(times)
    for field in dataclasses.fields(guarantee):
        one, other = getattr(added, field.name), getattr(repeated, field.name)
        assert one == (pytest.approx(other, rel=1e-12) if isinstance(other, float) else other), field.name


@pytest.mark.parametrize(
    "change", [{"metric": "angle"}, {"space": "other"}, {"space_digest": "ab"}, {"unit": Unit.USER}]
)
def test_unlike_metrics_spaces_and_units_refuse_to_add(change):
    with pytest.raises(CompositionError, match=next(iter(change))):
        METRIC + dataclasses.replace(METRIC, **change)


def test_releases_with_unlike_radii_are_charged_up_to_the_greater():
    """Both lose up to certified x distance; beyond the lesser radius the other one still loses more."""
    far = dataclasses.replace(METRIC, radius=30.0)
    for both in (METRIC + far, far + METRIC):
        assert both.radius == 30.0
        assert both.local_epsilon >= METRIC.local_epsilon + far.local_epsilon


def test_the_bounded_range_of_several_releases_is_the_sum():
    """ln P(y, z | x) - ln P(y, z | x') varies over pairs of outputs by as much as its two terms do together."""
    known = dataclasses.replace(METRIC, bounded_range=2.0)
    assert (known + known).bounded_range == known.repeated(2).bounded_range == 4.0
    assert (known + METRIC).bounded_range is None
    assert METRIC.repeated(2).bounded_range is None


def test_groups_of_two_groupings_do_not_add():
    one = dataclasses.replace(EXAMPLES[2], grouping="ab")
    assert (one + one).certified == 1.8
    with pytest.raises(CompositionError, match="grouping"):
        one + dataclasses.replace(one, grouping="cd")


def test_one_unsound_or_insecure_part_makes_the_whole_so():
    bad = dataclasses.replace(METRIC, sound=False, unsound_because="for a reason", secure=False)
    both = METRIC + bad
    assert not both.sound
    assert not both.secure
    assert "UNSOUND" in both.statement()
    assert "NOT SECURE" in both.statement()


def test_statement_says_what_is_public_and_what_the_numbers_mean():
    statement = METRIC.with_public("the number of words").statement()
    for part in ("exp(1.9 x d)", "euclidean", "at most exp(5.7)", "public: the number of words", "exp(1.9)"):
        assert part in statement
    assert "floating point" in EXAMPLES[5].statement()
    assert "floating point" not in statement


def test_zero_times_and_unknown_kinds_are_refused():
    with pytest.raises(ParameterError):
        METRIC.repeated(0)
    with pytest.raises(ParameterError):
        guarantee_from_json({"kind": "magic"})


@pytest.mark.parametrize("times", [float("nan"), float("inf"), 0, -1, 1.5, None, "1", True, 10**400, [2]])
@pytest.mark.parametrize("guarantee", EXAMPLES, ids=lambda g: g.kind)
def test_times_that_are_no_count_are_refused(guarantee, times):
    with pytest.raises(ParameterError, match="times must be a whole number"):
        guarantee.repeated(times)


def test_a_count_of_releases_is_a_whole_number_whatever_it_came_as():
    assert type(METRIC.repeated(2.0).releases) is int
