"""The laws that every accountant keeps."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.accounting.accountants import ACCOUNTANTS
from sfumato.accounting.composition import optimal_epsilon
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
from sfumato.accounting.gaussian import epsilon_of
from sfumato.accounting.gdp import limit_mu, total_mu
from sfumato.accounting.renyi import total_curve
from sfumato.accounting.zcdp import total_rho
from sfumato.foundation.guarantee import Unit

pytest.importorskip("dp_accounting", reason="the extra 'accounting' is not installed")

EACH = pytest.mark.parametrize("accountant", ACCOUNTANTS.values(), ids=ACCOUNTANTS.keys())
SOUND = pytest.mark.parametrize(
    "accountant", [one for one in ACCOUNTANTS.values() if one.sound], ids=lambda accountant: accountant.name
)
DELTA = 1e-5

KINDS = {
    "gaussian": GaussianEvent(2.0),
    "sampled": SampledGaussianEvent(1.0, 0.05),
    "mixture": MixtureOfGaussiansEvent(2.0, (0.0, 1.0, 2.0), (0.9, 0.08, 0.02)),
    "laplace": LaplaceEvent(5.0),
    "pure": PureEvent(0.2),
    "range": BoundedRangeEvent(0.3),
    "approximate": ApproximateEvent(0.1, 1e-8),
    "concentrated": ConcentratedEvent(0.01),
}
EACH_KIND = pytest.mark.parametrize("kind", KINDS)


def known(accountant, event):
    if not accountant.supports(event):
        pytest.skip(f"{accountant.name} does not know this kind of release")
    return event


@EACH
@EACH_KIND
def test_n_fold_is_n_times_one(accountant, kind):
    event = known(accountant, KINDS[kind])
    folded, listed = event * 6, compose([event] * 6)
    assert accountant.epsilon(folded, DELTA) == accountant.epsilon(listed, DELTA)
    assert accountant.epsilon((event * 2) * 3, DELTA) == accountant.epsilon(folded, DELTA)


def nearly(event):
    """Return an event that is almost the same but not equal, so that it is added and not counted."""
    shifted = {
        GaussianEvent: lambda e: GaussianEvent(e.sigma * (1 - 1e-9)),
        SampledGaussianEvent: lambda e: SampledGaussianEvent(e.sigma * (1 - 1e-9), e.rate),
        MixtureOfGaussiansEvent: lambda e: MixtureOfGaussiansEvent(
            e.sigma * (1 - 1e-9), e.sensitivities, e.probabilities
        ),
        LaplaceEvent: lambda e: LaplaceEvent(e.scale * (1 - 1e-9)),
        PureEvent: lambda e: PureEvent(e.epsilon * (1 + 1e-9)),
        BoundedRangeEvent: lambda e: BoundedRangeEvent(e.eta * (1 + 1e-9)),
        ApproximateEvent: lambda e: ApproximateEvent(e.epsilon * (1 + 1e-9), e.delta),
        ConcentratedEvent: lambda e: ConcentratedEvent(e.rho * (1 + 1e-9)),
    }
    return shifted[type(event)](event)


@EACH
@EACH_KIND
def test_counting_equal_releases_agrees_with_adding_unlike_ones(accountant, kind):
    """An accountant that took a repeated release for a single one would fail here, whatever it multiplies inside."""
    event = known(accountant, KINDS[kind])
    counted = accountant.epsilon(event * 6, DELTA)
    added = accountant.epsilon(event * 3 + nearly(event) * 3, DELTA)
    # The theorem for unlike epsilons is looser than the one for equal ones, and grids round up.
    loosest = 1.6 if accountant.name == "optimal" else 1 + 2e-3
    assert counted * (1 - 1e-6) <= added <= counted * loosest + 1e-3
    assert accountant.epsilon(event * 6, DELTA) > accountant.epsilon(event, DELTA)


@given(
    release=st.sampled_from([kind for name, kind in KINDS.items() if name != "approximate"]),
    times=st.integers(1, 10**6),
)
@settings(max_examples=30)
def test_what_adds_up_is_n_times_one(release, times):
    assert total_rho(release * times) == pytest.approx(times * total_rho(release), rel=1e-12)
    assert total_curve(release * times) == pytest.approx(times * total_curve(release), rel=1e-12)
    if not isinstance(release, ConcentratedEvent):
        assert total_mu(release * times) ** 2 == pytest.approx(times * total_mu(release) ** 2, rel=1e-12)
    if isinstance(release, (GaussianEvent, SampledGaussianEvent)):
        assert limit_mu(release * times) ** 2 == pytest.approx(times * limit_mu(release) ** 2, rel=1e-12)


CLOSED = [name for name in ACCOUNTANTS if name not in ("pld", "best")]


@pytest.mark.parametrize("name", CLOSED)
@given(
    sigma=st.floats(0.5, 20),
    rate=st.floats(0.001, 1),
    steps=st.integers(1, 500),
    more=st.floats(1.01, 3),
    log_delta=st.floats(-40, -2),
)
@settings(max_examples=5)
def test_more_steps_less_noise_and_more_sampling_cost_more(name, sigma, rate, steps, more, log_delta):
    accountant = ACCOUNTANTS[name]
    delta = math.exp(log_delta)
    base = accountant.epsilon(SampledGaussianEvent(sigma, rate) * steps, delta)
    for costlier in (
        SampledGaussianEvent(sigma, rate) * math.ceil(steps * more),
        SampledGaussianEvent(sigma / more, rate) * steps,
        SampledGaussianEvent(sigma, min(rate * more, 1.0)) * steps,
    ):
        assert accountant.epsilon(costlier, delta) >= base * (1 - 1e-9)


@pytest.mark.parametrize("name", ["pld", "best"])
def test_the_same_for_loss_distributions(name):
    accountant = ACCOUNTANTS[name]
    costs = [accountant.epsilon(SampledGaussianEvent(1.2, 0.02) * steps, DELTA) for steps in (1, 10, 300, 3000)]
    assert costs == sorted(costs)
    costs = [accountant.epsilon(SampledGaussianEvent(sigma, 0.02) * 300, DELTA) for sigma in (4.0, 1.5, 0.8)]
    assert costs == sorted(costs)
    costs = [accountant.epsilon(SampledGaussianEvent(1.2, rate) * 300, DELTA) for rate in (0.002, 0.02, 0.2, 1.0)]
    assert costs == sorted(costs)


@pytest.mark.parametrize("name", CLOSED)
@given(
    kind=st.sampled_from(["laplace", "pure", "range", "gaussian"]),
    times=st.integers(1, 1000),
    log_delta=st.floats(-40, -2),
)
@settings(max_examples=10)
def test_smaller_deltas_cost_more_and_delta_inverts_epsilon(name, kind, times, log_delta):
    accountant = ACCOUNTANTS[name]
    event = KINDS[kind] * times
    if not accountant.supports(event):
        return
    delta = math.exp(log_delta)
    epsilon = accountant.epsilon(event, delta)
    assert accountant.epsilon(event, delta / 3) >= epsilon * (1 - 1e-9)
    if epsilon > 0:
        assert accountant.delta(event, epsilon) <= delta * (1 + 1e-6)


GRID = [
    *(SampledGaussianEvent(sigma, rate) * steps for sigma, rate, steps in (
        (1.0, 0.01, 1), (1.0, 0.01, 1000), (0.7, 0.05, 100), (4.0, 0.2, 300), (2.0, 0.5, 20),
    )),
    *(MixtureOfGaussiansEvent.of_sampled_group(4.0, size=3, rate=0.05) * steps for steps in (1, 200)),
    LaplaceEvent(5.0) * 50,
    PureEvent(0.1) * 100,
    PureEvent(2.0),
    ApproximateEvent(0.05, 1e-9) * 100,
    GaussianEvent(3.0) * 5 + SampledGaussianEvent(1.0, 0.05) * 100 + PureEvent(0.3),
]  # fmt: skip


@SOUND
@pytest.mark.parametrize("event", GRID, ids=lambda event: "+".join(type(part).__name__ for part, _ in event.parts))
@pytest.mark.parametrize("delta", [1e-3, 1e-8])
def test_sound_accountants_are_never_below_the_loss_distribution(accountant, event, delta):
    """For these releases the loss distribution is exact up to its grid, which is finer than the margin."""
    exact = ACCOUNTANTS["pld"].epsilon(known(accountant, event), delta)
    found = accountant.epsilon(event, delta)
    assert found == exact == math.inf or found >= exact - max(1e-3, 1e-3 * exact)


@SOUND
@given(sigma=st.floats(0.1, 100), steps=st.integers(1, 10**5), log_delta=st.floats(-600, -1))
@settings(max_examples=10)
def test_sound_accountants_are_never_below_the_exact_gaussian(accountant, sigma, steps, log_delta):
    delta = math.exp(log_delta)
    exact = epsilon_of(math.sqrt(steps) / sigma, delta)
    found = accountant.epsilon(GaussianEvent(sigma) * steps, delta)
    assert found >= exact * (1 - 1e-9)
    if accountant.name in ("gdp", "pld", "best"):
        assert found == pytest.approx(exact, rel=1e-9)


@SOUND
@pytest.mark.parametrize(("eta", "times"), [(0.1, 100), (1.0, 20), (3.0, 1), (0.02, 5000)])
def test_sound_accountants_are_never_below_a_real_release_of_bounded_range(accountant, eta, times):
    """A bit flipped with probability 1/(1 + e^(eta/2)) has log-ratios in [-eta/2, eta/2]: a range of eta."""
    event = known(accountant, BoundedRangeEvent(eta) * times)
    assert accountant.epsilon(event, DELTA) >= optimal_epsilon(eta / 2, times, DELTA) * (1 - 1e-9)


@SOUND
@pytest.mark.parametrize(("epsilon", "times"), [(0.1, 100), (1.0, 20), (3.0, 1), (0.02, 5000)])
def test_sound_accountants_are_never_below_randomised_response(accountant, epsilon, times):
    event = known(accountant, PureEvent(epsilon) * times)
    exact = optimal_epsilon(epsilon, times, DELTA)
    found = accountant.epsilon(event, DELTA)
    assert found >= exact * (1 - 1e-9)
    if accountant.name in ("optimal", "best"):
        assert found == pytest.approx(exact, rel=1e-6)


def test_the_central_limit_is_below_the_truth_and_says_that_it_is_no_bound():
    run = SampledGaussianEvent(1.0, 0.01) * 1000
    limit, exact = ACCOUNTANTS["clt"], ACCOUNTANTS["pld"]
    assert limit.epsilon(run, DELTA) == pytest.approx(1.61771, abs=1e-5)
    assert exact.epsilon(run, DELTA) == pytest.approx(1.82824, abs=1e-4)
    assert not limit.sound
    guarantee = limit.guarantee(run, DELTA, unit=Unit.RECORD, neighbours="one record is added or removed")
    assert not guarantee.sound
    assert "UNSOUND" in guarantee.statement()
    assert "not a bound" in guarantee.statement()


@EACH
def test_closed_forms(accountant):
    """One pure release costs its epsilon at most; basic composition of pure releases costs exactly their sum."""
    event = known(accountant, PureEvent(0.5))
    if accountant.name in ("basic", "optimal", "best", "pld"):
        assert accountant.epsilon(event, 1e-12) == pytest.approx(0.5, abs=1e-3)
    if accountant.name == "basic":
        assert accountant.epsilon(event * 7, 1e-9) == pytest.approx(3.5, rel=1e-12)


@EACH
def test_the_guarantee_says_what_was_added_up(accountant):
    guarantee = accountant.guarantee(GaussianEvent(4.0) * 3, DELTA, unit=Unit.USER, neighbours="one user more or fewer")
    assert (guarantee.releases, guarantee.unit, guarantee.delta) == (3, Unit.USER, DELTA)
    assert guarantee.epsilon == accountant.epsilon(GaussianEvent(4.0) * 3, DELTA)
    assert accountant.title in guarantee.statement()
