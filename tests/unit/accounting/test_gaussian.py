"""The analytic Gaussian mechanism, at the ends of its range and between its functions."""

from __future__ import annotations

import math

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.accounting import gaussian
from sfumato.foundation.errors import ParameterError

_MOST_SLACK = 1e-6
MUS = st.floats(1e-6, 1e3)
DELTAS = st.floats(-300, -0.01).map(lambda exponent: 10**exponent)


def test_figures_of_the_literature():
    assert gaussian.sigma_for(1.0, 1e-5) == pytest.approx(3.73063163481594, abs=1e-9)
    assert gaussian.sigma_for(4.0, 1e-5) == pytest.approx(1.08116184952024, abs=1e-9)
    assert gaussian.epsilon_of(1.0, 1e-5) == pytest.approx(4.37717809568122, abs=1e-9)


def test_the_classical_formula_is_not_used_where_it_fails():
    # sqrt(2 ln(1.25/delta))/epsilon at epsilon 50 has a true delta of more than a half.
    epsilon, delta = 50.0, 1e-5
    classical = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    assert gaussian.delta_of(1 / classical, epsilon) > 0.5
    assert gaussian.delta_of(1 / gaussian.sigma_for(epsilon, delta), epsilon) <= delta * (1 + 1e-9)


@given(mu=MUS, delta=DELTAS)
def test_epsilon_and_delta_are_each_others_inverse(mu, delta):
    epsilon = gaussian.epsilon_of(mu, delta)
    assert gaussian.log_delta_of(mu, epsilon) <= math.log(delta)
    if epsilon > 1e-12:
        assert gaussian.log_delta_of(mu, epsilon * (1 - 1e-9)) > math.log(delta)


@given(epsilon=st.floats(1e-4, 1e5), delta=DELTAS)
def test_mu_and_sigma_keep_the_guarantee(epsilon, delta):
    mu = gaussian.mu_for(epsilon, delta)
    assert gaussian.log_delta_of(mu, epsilon) <= math.log(delta)
    assert gaussian.log_delta_of(mu * (1 + 1e-9), epsilon) > math.log(delta)
    assert 1 / gaussian.sigma_for(epsilon, delta) <= mu


def exact_log_delta(mu, epsilon):
    """Return the curve, with as many digits as its two terms have in common, and more."""
    m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
    z = epsilon / mu - mu / 2
    with mpmath.workdps(60 + int(max(z, 0.0) ** 2 / 4) + max(0, int(-3 * math.log10(mu)))):
        return mpmath.log(mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m))


@given(mu=st.floats(-12, 3).map(lambda exponent: 10**exponent), z=st.floats(-40, 30))
def test_never_below_the_exact_delta_and_above_it_by_its_slack_at_most(mu, z):
    epsilon = mu * (z + mu / 2)
    if epsilon < 0:
        return
    bound, slack = gaussian.log_delta_and_slack(mu, epsilon)
    with mpmath.workdps(330):
        excess = mpmath.mpf(bound) - exact_log_delta(mu, epsilon)
    assert 0 <= excess <= slack
    if 1e-4 <= mu <= 50 and z > -6:
        assert slack < _MOST_SLACK


@given(low=MUS, factor=st.floats(1.0001, 10), epsilon=st.floats(0, 100))
def test_monotone(low, factor, epsilon):
    """The true curve is monotone, and a bound lies above it by its slack at most."""
    here, slack = gaussian.log_delta_and_slack(low, epsilon)
    assert gaussian.log_delta_of(low * factor, epsilon) >= here - slack
    there, slack = gaussian.log_delta_and_slack(low, epsilon * factor)
    assert there - slack <= here


@given(epsilon=st.floats(1e-6, 700))
def test_a_pure_guarantee_is_a_gaussian_one(epsilon):
    """At every threshold, the Gaussian curve of the converted mu lies above the one of randomised response."""
    mu = gaussian.mu_of_pure(epsilon)
    for share in (0.0, 0.3, 0.7, 0.999):
        level = share * epsilon
        flipped = math.exp(-epsilon)
        exact = (1 - math.exp(level) * flipped) / (1 + flipped)
        assert gaussian.delta_of(mu, level) >= exact * (1 - 1e-12)


@pytest.mark.parametrize("bad", [-1.0, 0.0, math.nan, math.inf])
def test_noise_parameters_outside_their_domain_are_refused(bad):
    with pytest.raises(ParameterError, match="epsilon"):
        gaussian.sigma_for(bad, 1e-5)
    with pytest.raises(ParameterError, match="sensitivity"):
        gaussian.sigma_for(1.0, 1e-5, sensitivity=bad)


@pytest.mark.parametrize("bad", [-1e-9, 0.0, 1.0, math.nan])
def test_delta_outside_its_domain_is_refused(bad):
    with pytest.raises(ParameterError, match="delta"):
        gaussian.epsilon_of(1.0, bad)
