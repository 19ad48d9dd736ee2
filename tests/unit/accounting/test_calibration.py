"""Noise for a guarantee, releases for a budget, and the searches behind them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.accounting import (
    BoundedRangeEvent,
    GaussianEvent,
    LaplaceEvent,
    MixtureOfGaussiansEvent,
    SampledGaussianEvent,
    accountant,
    gaussian_noise_for,
    noise_for,
    releases_within,
)
from sfumato.accounting.curves import Figure, epsilon_against_steps, noise_against_epsilon, spread
from sfumato.accounting.search import greatest, least, most
from sfumato.foundation.errors import ParameterError

DELTA = 1e-5


@given(epsilon=st.floats(0.05, 50), rate=st.floats(0.001, 0.5), steps=st.integers(1, 5000))
@settings(max_examples=6)
def test_noise_is_enough_and_hardly_more(epsilon, rate, steps):
    sigma = gaussian_noise_for(epsilon=epsilon, delta=DELTA, rate=rate, steps=steps, accountant="rdp")
    reached = accountant("rdp").epsilon(SampledGaussianEvent(sigma, rate) * steps, DELTA)
    assert reached <= epsilon
    less = accountant("rdp").epsilon(SampledGaussianEvent(sigma * (1 - 3e-4), rate) * steps, DELTA)
    assert less > epsilon


def test_noise_by_loss_distributions():
    pytest.importorskip("dp_accounting", reason="the extra 'accounting' is not installed")
    run = lambda noise: SampledGaussianEvent(noise, 0.01) * 1000  # noqa: E731
    sigma = noise_for(run, epsilon=1.8283, delta=DELTA, tolerance=5e-3)
    assert 1.0 <= sigma < 1.006
    group = lambda noise: MixtureOfGaussiansEvent.of_sampled_group(noise, size=8, rate=0.02) * 500  # noqa: E731
    sigma = noise_for(group, epsilon=1.788, delta=DELTA, accountant="pld", tolerance=1e-2)
    assert sigma == pytest.approx(8.0, rel=2e-2)
    assert accountant("pld").epsilon(group(sigma), DELTA) <= 1.788


def test_without_sampling_the_answer_is_exact():
    assert gaussian_noise_for(epsilon=1.0, delta=DELTA) == pytest.approx(3.73063163481594, abs=1e-9)
    many = gaussian_noise_for(epsilon=1.0, delta=DELTA, steps=100)
    assert many == pytest.approx(37.3063163481594, abs=1e-8)


def test_noise_for_laplace():
    scale = noise_for(lambda noise: LaplaceEvent(noise) * 10, epsilon=1.0, delta=1e-12, accountant="basic")
    assert scale == pytest.approx(10.0, rel=2e-4)
    assert scale >= 10.0


@pytest.mark.parametrize("name", ["basic", "optimal", "zcdp", "rdp", "gdp"])
def test_a_budget_is_used_up_but_not_passed(name):
    event = BoundedRangeEvent(0.1)
    count = releases_within(event, epsilon=3.0, delta=DELTA, accountant=name)
    assert count >= 1
    assert accountant(name).epsilon(event * count, DELTA) <= 3.0
    assert accountant(name).epsilon(event * (count + 1), DELTA) > 3.0


def test_what_is_too_dear_even_once():
    assert releases_within(GaussianEvent(0.5), epsilon=0.1, delta=DELTA) == 0


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 1e-5), (math.nan, 1e-5), (1.0, 0.0), (1.0, 2.0)])
def test_impossible_aims_are_refused(epsilon, delta):
    for search in (
        lambda: gaussian_noise_for(epsilon=epsilon, delta=delta, rate=0.1),
        lambda: releases_within(GaussianEvent(1.0), epsilon=epsilon, delta=delta),
    ):
        with pytest.raises(ParameterError):
            search()


def test_an_aim_no_noise_reaches_is_refused():
    with pytest.raises(ParameterError, match="no noise reaches"):
        noise_for(lambda noise: GaussianEvent(min(noise, 5.0)), epsilon=0.01, delta=DELTA, accountant="gdp")


@given(root=st.floats(-1e3, 1e3))
def test_searches_end_at_the_border(root):
    found = least(lambda x: x >= root, -2e3, 2e3)
    assert found == root or found == math.nextafter(root, math.inf) or (found == 0 and abs(root) < 1e-300)
    below = greatest(lambda x: x <= root, -2e3, 2e3)
    assert below == root or below == math.nextafter(root, -math.inf) or (below == 0 and abs(root) < 1e-300)


@given(border=st.integers(0, 10**6), limit=st.integers(1, 10**6), start=st.integers(-5, 10**7))
def test_the_greatest_whole_number(border, limit, start):
    asked = []

    def holds(number: int) -> bool:
        asked.append(number)
        return number <= border

    assert most(holds, limit, start) == min(border, limit)
    assert all(1 <= number <= limit for number in asked)


def test_figures_hold_every_accountant_and_survive_json():
    figure = epsilon_against_steps(GaussianEvent(5.0), [1, 10, 100], DELTA)
    lines = {line.name: line for line in figure.lines}
    assert {"basic", "advanced", "optimal", "zcdp", "rdp", "gdp", "clt", "pld"} == set(lines)
    assert lines["gdp"].y == tuple(accountant("gdp").epsilon(GaussianEvent(5.0) * n, DELTA) for n in (1, 10, 100))
    assert not lines["clt"].sound
    assert Figure.from_json(figure.to_json()) == figure


def test_noise_against_epsilon_runs_backwards():
    figure = noise_against_epsilon(lambda noise: GaussianEvent(noise) * 10, spread(1.0, 8.0, 4), DELTA)
    line = next(line for line in figure.lines if line.name == "gdp")
    assert line.y == pytest.approx((8.0, 4.0, 2.0, 1.0))
    assert list(line.x) == sorted(line.x)
