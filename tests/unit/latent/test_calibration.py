"""The noise is the least that keeps the promise: against closed forms and exact privacy loss distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.accounting.gaussian import epsilon_of
from sfumato.foundation.errors import ParameterError
from sfumato.latent.calibration import release_once, several_releases, single_release

SHAPE = {"clip": 0.5, "dimension": 16, "delta": 1e-5}  # clipping at 1/2 has sensitivity 1


@pytest.mark.parametrize(("epsilon", "sigma"), [(1.0, 3.73063163481594), (4.0, 1.08116184952024)])
def test_the_analytic_gaussian_at_sensitivity_one(epsilon: float, sigma: float) -> None:
    assert single_release(epsilon=epsilon, **SHAPE).scale == pytest.approx(sigma, rel=1e-11)


def test_gaussian_privacy_at_mu_one() -> None:
    assert epsilon_of(1.0, 1e-5) == pytest.approx(4.37717809568122, rel=1e-12)


def test_the_noise_is_for_twice_the_clipping_norm() -> None:
    plan = single_release(epsilon=1.0, clip=1.0, dimension=3)
    assert plan.scale == pytest.approx(2 * 3.73063163481594, rel=1e-11)


@pytest.mark.parametrize("distribution", ["gaussian", "laplace", "discrete"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 40.0])
@pytest.mark.parametrize("releases", [1, 12])
def test_a_plan_keeps_its_promise_and_wastes_little(distribution: str, epsilon: float, releases: int) -> None:
    plan = several_releases(releases, epsilon=epsilon, distribution=distribution, **SHAPE)
    assert plan.epsilon() <= epsilon
    assert plan.epsilon() > epsilon * (0.999 if distribution != "discrete" else 0.97)


def test_releasing_once_is_one_release_however_long_the_training() -> None:
    once = release_once(epsilon=2.0, **SHAPE)
    assert once == single_release(epsilon=2.0, **SHAPE)
    ten = several_releases(10, epsilon=2.0, **SHAPE)
    assert ten.scale / once.scale == pytest.approx(math.sqrt(10), rel=1e-11)


@pytest.mark.parametrize("releases", [1, 7, 100])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_against_an_exact_privacy_loss_distribution(epsilon: float, releases: int) -> None:
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution", reason="the extra 'accounting' is missing")
    plan = several_releases(releases, epsilon=epsilon, **SHAPE)
    loss = pld.from_gaussian_mechanism(plan.scale / plan.sensitivity, value_discretization_interval=1e-4)
    exact = loss.self_compose(releases).get_epsilon_for_delta(plan.delta)
    # The distribution is rounded up to its grid; the closed form is exact.
    assert exact == pytest.approx(epsilon, rel=2e-3)


def test_laplace_against_an_exact_privacy_loss_distribution() -> None:
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution", reason="the extra 'accounting' is missing")
    plan = single_release(epsilon=1.5, distribution="laplace", **SHAPE)
    loss = pld.from_laplace_mechanism(plan.scale / plan.sensitivity, value_discretization_interval=1e-4)
    assert loss.get_epsilon_for_delta(1e-12) == pytest.approx(1.5, rel=1e-3)


def test_tokens_need_the_root_of_their_number_more_noise_and_single_words_do_not() -> None:
    one = single_release(epsilon=1.0, **SHAPE)
    tokens = single_release(epsilon=1.0, position="token", tokens=25, **SHAPE)
    word = single_release(epsilon=1.0, position="token", tokens=25, change="word", **SHAPE)
    assert tokens.scale / one.scale == pytest.approx(5.0)
    assert word.scale == one.scale


@pytest.mark.parametrize("dimension", [1, 384, 4096])
def test_the_discrete_gaussian_costs_little_more_whatever_the_dimension(dimension: int) -> None:
    plain = single_release(epsilon=2.0, clip=1.0, dimension=dimension)
    discrete = single_release(epsilon=2.0, clip=1.0, dimension=dimension, distribution="discrete")
    assert discrete.epsilon() <= 2.0
    assert plain.scale < discrete.scale < 1.25 * plain.scale
    assert discrete.scale / discrete.grid == pytest.approx(round(discrete.scale / discrete.grid))


def test_a_grid_that_cannot_be_fine_enough_is_refused() -> None:
    with pytest.raises(ParameterError, match="finer grid"):
        several_releases(10**6, epsilon=0.01, clip=1.0, dimension=10**6, distribution="discrete")


@pytest.mark.parametrize("bad", [{"epsilon": 0.0}, {"epsilon": float("nan")}, {"clip": -1.0}, {"delta": 0.0}])
def test_parameters_outside_their_domain_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ParameterError, match=next(iter(bad))):
        single_release(**{"epsilon": 1.0, "clip": 1.0, "dimension": 2, **bad})


def test_more_epsilon_never_means_more_noise() -> None:
    for distribution in ("gaussian", "laplace", "discrete"):
        scales = [
            single_release(epsilon=epsilon, distribution=distribution, **SHAPE).scale
            for epsilon in np.geomspace(0.01, 100, 25)
        ]
        assert (np.diff(scales) < 0).all()
