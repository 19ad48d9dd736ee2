"""Closed forms against figures computed with mpmath (tests/golden/accounting_reference.py), to 1e-9."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from sfumato.accounting import gaussian, zcdp
from sfumato.accounting.composition import optimal_epsilon
from sfumato.accounting.events import SampledGaussianEvent
from sfumato.accounting.gdp import CentralLimit
from sfumato.accounting.mixture import Mixture
from sfumato.accounting.renyi import ORDERS, curve_of

FIGURES = json.loads((Path(__file__).parents[2] / "golden" / "accounting.json").read_text(encoding="utf-8"))
RELATIVE = 1e-9
ROUNDING_DOWN = 1e-14
"""What the decimal figures of the file may lose against the exact ones."""


def cases(name: str):
    return [pytest.param(*case["arguments"], case["value"], id="-".join(case["arguments"])) for case in FIGURES[name]]


def assert_tight_upper_bound(found: float, exact: str, relative: float = RELATIVE) -> None:
    assert found == pytest.approx(float(exact), rel=relative)
    assert found >= float(exact) * (1 - ROUNDING_DOWN)


@pytest.mark.parametrize(("mu", "epsilon", "delta"), cases("gaussian_delta"))
def test_gaussian_delta(mu, epsilon, delta):
    # Where delta is 1e-202, what rounding up adds to its logarithm is a little more.
    relative = 4e-9 if float(delta) < 1e-200 and float(mu) < 0.01 else RELATIVE
    assert_tight_upper_bound(gaussian.delta_of(float(mu), float(epsilon)), delta, relative)


@pytest.mark.parametrize(("mu", "delta", "epsilon"), cases("gaussian_epsilon"))
def test_gaussian_epsilon(mu, delta, epsilon):
    assert_tight_upper_bound(gaussian.epsilon_of(float(mu), float(delta)), epsilon)


@pytest.mark.parametrize(("epsilon", "delta", "sigma"), cases("gaussian_sigma"))
def test_gaussian_sigma(epsilon, delta, sigma):
    assert_tight_upper_bound(gaussian.sigma_for(float(epsilon), float(delta)), sigma)


@pytest.mark.parametrize(("rho", "delta", "epsilon"), cases("zcdp_epsilon"))
def test_zcdp_epsilon(rho, delta, epsilon):
    assert_tight_upper_bound(zcdp.epsilon_of_rho(float(rho), float(delta)), epsilon)


@pytest.mark.parametrize(("epsilon", "times", "delta", "total"), cases("randomised_response_epsilon"))
def test_optimal_composition(epsilon, times, delta, total):
    assert_tight_upper_bound(optimal_epsilon(float(epsilon), int(times), float(delta)), total)


@pytest.mark.parametrize(("sigma", "rate", "epsilon", "delta"), cases("sampled_delta"))
def test_one_sampled_release(sigma, rate, epsilon, delta):
    share = float(rate)
    mixture = Mixture.of(float(sigma), [0.0, 1.0], [1 - share, share])
    assert_tight_upper_bound(math.exp(mixture.log_delta(float(epsilon))), delta)


@pytest.mark.parametrize(("sigma", "rate", "order", "divergence"), cases("sampled_divergence"))
def test_renyi_divergence_of_a_sampled_release(sigma, rate, order, divergence):
    curve = curve_of(SampledGaussianEvent(float(sigma), float(rate)))
    found = float(curve[np.searchsorted(ORDERS, float(order))])
    # The divergence of many releases is what is reported; an absolute 1e-12 is nothing against ln(1/delta).
    assert found == pytest.approx(float(divergence), rel=RELATIVE, abs=1e-12)
    assert found >= float(divergence) * (1 - ROUNDING_DOWN)


@pytest.mark.parametrize(("sigma", "rate", "steps", "delta", "epsilon"), cases("limit_epsilon"))
def test_central_limit(sigma, rate, steps, delta, epsilon):
    event = SampledGaussianEvent(float(sigma), float(rate)) * int(steps)
    assert CentralLimit().epsilon(event, float(delta)) == pytest.approx(float(epsilon), rel=RELATIVE)
