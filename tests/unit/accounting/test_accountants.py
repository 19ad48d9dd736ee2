"""Single accountants: conversions, mixtures, dp-accounting's faults, and the table of all of them."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.accounting import composition, gaussian, zcdp
from sfumato.accounting.accountants import ACCOUNTANTS, accountant, compare
from sfumato.accounting.composition import advanced_epsilon, optimal_epsilon, optimal_epsilon_of_unlike
from sfumato.accounting.events import (
    ApproximateEvent,
    BoundedRangeEvent,
    ConcentratedEvent,
    GaussianEvent,
    LaplaceEvent,
    MixtureOfGaussiansEvent,
    PureEvent,
    SampledGaussianEvent,
)
from sfumato.accounting.gdp import GaussianPrivacy
from sfumato.accounting.renyi import ORDERS, curve_of
from sfumato.foundation.errors import MissingExtraError, ParameterError
from sfumato.foundation.guarantee import GaussianGuarantee, Unit

DELTA = 1e-5


def test_figures_of_the_literature():
    pytest.importorskip("dp_accounting", reason="the extra 'accounting' is not installed")
    run = SampledGaussianEvent(1.0, 0.01) * 1000
    assert accountant("pld").epsilon(run, DELTA) == pytest.approx(1.82824, abs=1e-4)
    assert accountant("rdp").epsilon(run, DELTA) == pytest.approx(2.10137, abs=1e-4)
    assert accountant("clt").epsilon(run, DELTA) == pytest.approx(1.61771, abs=1e-4)
    group = MixtureOfGaussiansEvent.of_sampled_group
    assert accountant("pld").epsilon(group(2.0, size=1, rate=0.02) * 500, DELTA) == pytest.approx(0.921, abs=5e-4)
    assert accountant("pld").epsilon(group(8.0, size=8, rate=0.02) * 500, DELTA) == pytest.approx(1.788, abs=5e-4)


def test_the_fault_of_dp_accounting_does_not_reach_us():
    """Its accountant counts a repeated randomised response once; ours takes the count into account for every kind."""
    library = pytest.importorskip("dp_accounting", reason="the extra 'accounting' is not installed")
    from dp_accounting.pld import PLDAccountant

    ours = PureEvent(math.log(3))  # keeping a bit with probability 3/4
    repeated = accountant("pld").epsilon(ours * 10, DELTA)
    assert repeated > 8
    assert repeated == pytest.approx(optimal_epsilon(math.log(3), 10, DELTA), abs=2e-3)

    def theirs(times: int) -> float:
        flipping = PLDAccountant(library.NeighboringRelation.REPLACE_ONE)
        flipping.compose(library.RandomizedResponseDpEvent(noise_parameter=0.5, num_buckets=2), times)
        return flipping.get_epsilon(DELTA)

    try:
        once = theirs(1)
    except (AttributeError, library.UnsupportedEventError):
        pytest.skip("this version of dp-accounting has no loss distribution of randomised response")
    assert accountant("pld").epsilon(ours, DELTA) == pytest.approx(once, abs=1e-3)
    assert theirs(10) == once, "dp-accounting mended its fault: say so in docs/accounting.md"


def test_a_repeated_exponential_event_counts_each_time():
    """Newer versions of dp-accounting have an exponential event, whose repetitions their Renyi accountant drops."""
    library = pytest.importorskip("dp_accounting", reason="the extra 'accounting' is not installed")
    ours = BoundedRangeEvent(0.5)
    single, repeated = (accountant("rdp").epsilon(ours * times, DELTA) for times in (1, 50))
    assert repeated > 4 * single
    assert repeated <= zcdp.epsilon_of_rho(50 * 0.5**2 / 8, DELTA) * (1 + 1e-3)
    event = getattr(library, "ExponentialMechanismDpEvent", None)
    if event is None:
        pytest.skip("this version of dp-accounting has no exponential event")
    from dp_accounting.rdp import RdpAccountant

    counted, looped = RdpAccountant(), RdpAccountant()
    counted.compose(event(epsilon=0.5), 50)
    for _ in range(50):
        looped.compose(event(epsilon=0.5), 1)
    assert repeated >= looped.get_epsilon(DELTA) * (1 - 1e-2)
    assert counted.get_epsilon(DELTA) <= looped.get_epsilon(DELTA)


def test_the_renyi_curve_agrees_with_dp_accounting():
    library = pytest.importorskip("dp_accounting", reason="the extra 'accounting' is not installed")
    from dp_accounting.rdp import RdpAccountant

    orders = [2.0, 3.0, 8.0, 32.0, 256.0]
    places = np.searchsorted(ORDERS, orders)
    theirs = RdpAccountant(orders)
    theirs.compose(library.PoissonSampledDpEvent(0.02, library.GaussianDpEvent(1.5)), 1)
    assert curve_of(SampledGaussianEvent(1.5, 0.02))[places] == pytest.approx(theirs.rdp, rel=1e-8)
    theirs = RdpAccountant(orders)
    theirs.compose(library.LaplaceDpEvent(3.0), 1)
    assert curve_of(LaplaceEvent(3.0))[places] == pytest.approx(theirs.rdp, rel=1e-8)


def test_a_mixture_of_one_shift_is_a_gaussian_and_of_two_a_sampled_one():
    alone = MixtureOfGaussiansEvent(3.0, (1.5,), (1.0,))
    assert curve_of(alone) == pytest.approx(curve_of(GaussianEvent(2.0)), rel=1e-9)
    sampled = MixtureOfGaussiansEvent(3.0, (0.0, 1.5), (0.9, 0.1))
    few = ORDERS <= 64
    assert curve_of(sampled)[few] == pytest.approx(curve_of(SampledGaussianEvent(2.0, 0.1))[few], rel=1e-7)
    for name in ("basic", "optimal", "pld"):
        try:
            assert accountant(name).epsilon(alone * 3, DELTA) == pytest.approx(
                accountant(name).epsilon(GaussianEvent(2.0) * 3, DELTA), rel=1e-9
            )
        except MissingExtraError:
            continue


@given(rho=st.floats(1e-8, 1e3), log_delta=st.floats(-600, -0.1))
@settings(max_examples=50)
def test_zcdp_conversions_are_each_others_inverse(rho, log_delta):
    delta = math.exp(log_delta)
    epsilon = zcdp.epsilon_of_rho(rho, delta)
    if epsilon > 1e-9:
        assert zcdp.delta_of_rho(rho, epsilon) <= delta * (1 + 1e-6)
        assert zcdp.rho_for(epsilon, delta) == pytest.approx(rho, rel=1e-6)


@given(epsilon=st.floats(0.001, 2), times=st.integers(1, 200), log_slack=st.floats(-40, -1))
@settings(max_examples=50)
def test_the_composition_theorems_are_ordered(epsilon, times, log_slack):
    slack = math.exp(log_slack)
    optimal = optimal_epsilon(epsilon, times, slack)
    assert optimal <= epsilon * times * (1 + 1e-9)
    assert optimal <= advanced_epsilon([(epsilon, times)], slack) * (1 + 1e-9)
    assert optimal <= optimal_epsilon_of_unlike([(epsilon, times)], slack) * (1 + 1e-9)


@pytest.mark.parametrize(("epsilon", "slack"), [(1e-3, 1e-5), (0.5, 1e-300), (1e-3, 0.5), (30.0, 1e-9)])
def test_heads_that_are_next_to_impossible_need_not_be_counted(monkeypatch, epsilon, slack):
    some = optimal_epsilon(epsilon, 100_000, slack)
    monkeypatch.setattr(composition, "_REACH", 1e4)
    assert some == pytest.approx(optimal_epsilon(epsilon, 100_000, slack), rel=1e-12)


def test_a_thousand_million_releases_are_added_up():
    found = optimal_epsilon(1e-5, 10**9, 1e-5)
    assert 1.19 < found < optimal_epsilon_of_unlike([(1e-5, 10**9)], 1e-5)


def test_a_unit_may_own_thousands_of_records():
    chances = MixtureOfGaussiansEvent.of_sampled_group(1.0, size=5000, rate=0.01).probabilities
    assert math.fsum(chances) == pytest.approx(1, rel=1e-12)
    assert math.fsum(k * chance for k, chance in enumerate(chances)) == pytest.approx(50, rel=1e-12)
    exact = math.comb(60, 7) * 0.3**7 * 0.7**53
    assert MixtureOfGaussiansEvent.of_sampled_group(1.0, size=60, rate=0.3).probabilities[7] == pytest.approx(exact)
    for rate in (1e-9, 1.0):
        chances = MixtureOfGaussiansEvent.of_sampled_group(1.0, size=40, rate=rate).probabilities
        assert math.fsum(chances) == pytest.approx(1, rel=1e-15)


def test_bounded_range_is_worth_a_quarter_of_what_purity_gives():
    assert zcdp.rho_of(BoundedRangeEvent(2.0)) == pytest.approx(zcdp.rho_of(PureEvent(2.0)) / 4, rel=1e-15)
    words = BoundedRangeEvent.of_exponential_family(rate=0.2, distance=1.0) * 200
    assert accountant("best").epsilon(words, DELTA) < accountant("best").epsilon(PureEvent(0.4) * 200, DELTA) / 1.9


def test_tiny_deltas_and_large_epsilons_have_answers():
    run = SampledGaussianEvent(1.0, 0.01) * 1000
    tiny = accountant("best").epsilon(run, 1e-300)
    assert 37 < tiny < math.inf
    assert accountant("rdp").epsilon(GaussianEvent(0.01), DELTA) == pytest.approx(
        gaussian.epsilon_of(100.0, DELTA), rel=0.02
    )
    assert accountant("gdp").epsilon(GaussianEvent(0.001), DELTA) == pytest.approx(504_264.4, rel=1e-4)


def test_the_gaussian_guarantee_is_one_mu():
    guarantee = GaussianPrivacy().gaussian_guarantee(
        GaussianEvent(2.0) * 4, unit=Unit.RECORD, neighbours="a sentence is replaced by another"
    )
    assert isinstance(guarantee, GaussianGuarantee)
    assert guarantee.mu == pytest.approx(1.0, rel=1e-12)
    assert guarantee.releases == 4


def test_the_table_marks_the_tightest_sound_bound():
    pytest.importorskip("dp_accounting", reason="the extra 'accounting' is not installed")
    comparison = compare(SampledGaussianEvent(1.0, 0.01) * 100, DELTA)
    assert [row.accountant for row in comparison.rows if row.tightest] == ["pld"]
    rows = {row.accountant: row for row in comparison.rows}
    assert rows["clt"].epsilon < rows["pld"].epsilon
    assert not rows["clt"].sound
    assert "every record" in rows["zcdp"].remark
    assert comparison.to_json()["accountants"][0]["accountant"] == "basic"


def test_without_dp_accounting_the_others_answer(monkeypatch):
    for name in [*sys.modules, "dp_accounting"]:
        if name.partition(".")[0] == "dp_accounting":
            monkeypatch.setitem(sys.modules, name, None)
    run = SampledGaussianEvent(1.1, 0.013) * 77  # not in any cache
    with pytest.raises(MissingExtraError, match=r"sfumato\[accounting\]"):
        ACCOUNTANTS["pld"].epsilon(run, DELTA)
    rows = {row.accountant: row for row in compare(run, DELTA).rows}
    assert rows["pld"].epsilon is None
    assert "sfumato[accounting]" in rows["pld"].remark
    assert rows["rdp"].tightest
    assert accountant("best").epsilon(run, DELTA) == pytest.approx(rows["rdp"].epsilon, rel=1e-14)


def test_unknown_names_and_kinds_are_refused():
    with pytest.raises(ParameterError, match="accountant must be one of"):
        accountant("moments")
    with pytest.raises(ParameterError, match="does not know ConcentratedEvent"):
        accountant("pld").epsilon(ConcentratedEvent(0.1), DELTA)
    with pytest.raises(ParameterError, match="delta"):
        accountant("rdp").epsilon(GaussianEvent(1.0), 0.0)
    with pytest.raises(ParameterError, match="epsilon"):
        accountant("rdp").delta(GaussianEvent(1.0), math.nan)


def test_a_delta_below_what_the_releases_themselves_need_has_no_bound():
    event = ApproximateEvent(0.1, 1e-6) * 100
    for name in ("basic", "advanced", "optimal"):
        assert accountant(name).epsilon(event, 1e-5) == math.inf
        assert accountant(name).epsilon(event, 1e-3) < math.inf
