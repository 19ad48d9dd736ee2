"""A plan computes its guarantee from its own numbers."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.foundation.errors import ParameterError
from sfumato.foundation.guarantee import ApproximateGuarantee, GaussianGuarantee, PureGuarantee, Unit
from sfumato.latent.plan import NoisePlan
from sfumato.latent.release import release


def plan(**changes: object) -> NoisePlan:
    return NoisePlan(**{"clip": 1.5, "scale": 6.0, "dimension": 9, **changes})  # type: ignore[arg-type]


def test_the_sensitivity_is_twice_the_clipping_norm() -> None:
    assert plan().sensitivity == 3.0
    assert plan(distribution="laplace").sensitivity == 3.0


def test_a_sentence_of_tokens_moves_all_of_them_and_a_word_only_one() -> None:
    tokens = {"position": "token", "tokens": 16}
    assert plan(**tokens).sensitivity == pytest.approx(12.0)
    assert plan(**tokens).sensitivity >= 12.0
    assert plan(**tokens, distribution="laplace").sensitivity == 48.0
    assert plan(**tokens, change="word").sensitivity == 3.0
    assert plan(**tokens, change="word").guarantee.unit is Unit.WORD
    with pytest.raises(ParameterError, match="needs position='token'"):
        plan(change="word")


def test_rounding_to_the_grid_is_part_of_the_sensitivity() -> None:
    discrete = plan(distribution="discrete", grid=0.5)
    assert discrete.sensitivity == pytest.approx(3.0 + 0.5 * 3)
    # Two vectors 2 C apart can really be pushed further apart by rounding, by up to half a step in each coordinate.
    far = np.full(9, 0.2501)
    assert np.linalg.norm(np.rint(far / 0.5) * 0.5 - np.rint(-far / 0.5) * 0.5) > np.linalg.norm(2 * far) + 1.4


def test_each_law_has_its_own_kind_of_promise() -> None:
    gaussian, laplace = plan(releases=4).guarantee, plan(distribution="laplace", releases=4).guarantee
    assert isinstance(gaussian, GaussianGuarantee)
    assert gaussian.mu == pytest.approx(2 * 3 / 6)
    assert isinstance(laplace, PureGuarantee)
    assert laplace.certified == pytest.approx(4 * 3 / 6)
    discrete = plan(distribution="discrete", grid=0.01).guarantee
    assert isinstance(discrete, ApproximateGuarantee)
    assert discrete.arithmetic == "integer"
    assert gaussian.arithmetic == laplace.arithmetic == "float64"


def test_the_promise_for_one_release_is_what_is_charged() -> None:
    assert plan(releases=9).per_release == plan().guarantee


def test_discrete_noise_is_accounted_at_the_scale_that_is_drawn() -> None:
    # 100 steps of 0.01 are drawn; a plan that says a little more must not be believed.
    more = plan(distribution="discrete", grid=0.01, scale=1.0 + 5e-9)
    assert more.drawn_scale == 1.0
    assert more.epsilon() >= plan(distribution="discrete", grid=0.01, scale=1.0).epsilon()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clip": math.nan}, "clip"),
        ({"scale": 0.0}, "scale"),
        ({"dimension": 0}, "dimension"),
        ({"distribution": "uniform"}, "distribution"),
        ({"position": "word"}, "position"),
        ({"delta": 1.0}, "delta"),
        ({"distribution": "discrete"}, "grid steps"),
        ({"distribution": "discrete", "grid": 0.7}, "grid steps"),
        ({"distribution": "discrete", "grid": 1e-6}, "grid steps"),
    ],
)
def test_what_is_out_of_its_domain_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        plan(**changes)


@given(st.floats(0.01, 100), st.floats(0.01, 100), st.integers(1, 50), st.integers(1, 5))
def test_a_plan_that_is_sent_is_the_same_plan(clip: float, scale: float, dimension: int, releases: int) -> None:
    one = NoisePlan(clip=clip, scale=scale, dimension=dimension, releases=releases)
    assert NoisePlan.from_json(one.to_json()) == one


def test_a_plan_from_elsewhere_is_checked() -> None:
    with pytest.raises(ParameterError, match="has no epsilon"):
        NoisePlan.from_json({**plan().to_json(), "epsilon": 0.1})
    with pytest.raises(ParameterError, match="scale"):
        NoisePlan.from_json({**plan().to_json(), "scale": -1.0})


@pytest.mark.parametrize("distribution", ["gaussian", "laplace", "discrete"])
@pytest.mark.parametrize("dimension", [1, 5, 200])
def test_honest_vectors_stay_below_the_greatest_norm_and_it_is_not_far_above_them(
    distribution: str, dimension: int
) -> None:
    one = NoisePlan(clip=1.0, scale=2.0, dimension=dimension, distribution=distribution, grid=0.125)
    lengths = np.linalg.norm(release(np.full((2000, dimension), 9.0), one), axis=1)
    assert lengths.max() < one.greatest_norm
    if distribution != "laplace":
        assert one.greatest_norm < lengths.mean() + 1 + 10 * one.scale
    elif dimension == 200:  # 24 times, were every coordinate allowed its greatest value at once
        assert one.greatest_norm < 6 * lengths.mean()


def test_the_statement_says_what_is_not_hidden() -> None:
    said = plan(position="token", tokens=4).guarantee.statement()
    assert "labels" in said
    assert "number of tokens" in said
    assert "floating point" in said


def test_epsilon_can_be_asked_at_another_delta() -> None:
    one = plan()
    assert one.epsilon(1e-9) > one.epsilon() == dataclasses.replace(one).epsilon(1e-5)
