"""The published accounting is there, says that it is no bound, and is one indeed not."""

from __future__ import annotations

import math

import pytest

from sfumato.foundation.errors import BudgetError, ParameterError, UnsoundError
from sfumato.latent.published import as_published, claimed_epsilon, printed_mu

SETTING = {"clip": 1.0, "dimension": 8, "rate": 0.01, "steps": 1000}


def test_it_must_be_asked_for_by_name() -> None:
    with pytest.raises(UnsoundError, match="allow_unsound"):
        as_published(epsilon=1.0, **SETTING)


def test_its_guarantee_is_labelled_and_cannot_be_paid_for() -> None:
    from sfumato.ledger import Cost

    claim = as_published(epsilon=1.0, allow_unsound=True, **SETTING).guarantee
    assert not claim.sound
    assert "UNSOUND" in claim.statement()
    assert "sensitivity C where it is 2 C" in claim.statement()
    with pytest.raises(BudgetError, match="unsound"):
        Cost.of(claim)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 10.0])
def test_it_claims_what_was_asked_and_the_truth_is_worse(epsilon: float) -> None:
    plan = as_published(epsilon=epsilon, allow_unsound=True, **SETTING)
    claimed = claimed_epsilon(scale=plan.noise.scale, clip=1.0, rate=0.01, steps=1000, delta=1e-5)
    assert claimed == pytest.approx(epsilon, rel=1e-9)
    assert plan.true_epsilon > 2 * epsilon
    assert plan.noise.releases == 10


def test_the_total_is_the_central_limit_and_not_its_reciprocal() -> None:
    total = 0.01 * math.sqrt(1000 * math.expm1(0.25**2))
    assert printed_mu(scale=4.0, clip=1.0, rate=0.01, steps=1000) == pytest.approx(1 / total)
    # As printed, twice the noise would cost more privacy.
    assert printed_mu(scale=8.0, clip=1.0, rate=0.01, steps=1000) > 1.9 / total


def test_the_central_limit_is_below_an_exact_privacy_loss_distribution() -> None:
    """The figures of the design: rate 0.01, noise 1, 1000 steps have epsilon 1.828, and 1.618 is claimed."""
    claimed = claimed_epsilon(scale=1.0, clip=1.0, rate=0.01, steps=1000, delta=1e-5)
    assert claimed == pytest.approx(1.61771, abs=1e-4)
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution", reason="the extra 'accounting' is missing")
    loss = pld.from_gaussian_mechanism(1.0, sampling_prob=0.01, value_discretization_interval=1e-3)
    assert loss.self_compose(1000).get_epsilon_for_delta(1e-5) == pytest.approx(1.82824, abs=0.03)


def test_a_share_is_at_most_one() -> None:
    with pytest.raises(ParameterError, match="rate"):
        as_published(epsilon=1.0, clip=1.0, dimension=2, rate=1.5, steps=3, allow_unsound=True)
