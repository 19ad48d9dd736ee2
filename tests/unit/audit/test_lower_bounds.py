"""Bounds from draws: never above the truth more often than the confidence says, and above a false claim."""

from __future__ import annotations

import numpy as np
import pytest

import sfumato
from sfumato.audit.lower_bounds import audit_pairs, loss_bound, pairs_to_try, share_at_least, share_at_most
from sfumato.audit.reports import audit_mechanism
from sfumato.foundation.guarantee import MetricGuarantee, PureGuarantee
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism.table import DenseTable

LINE = sfumato.Space.from_arrays(list("abcdef"), np.arange(6.0)[:, None])


def test_intervals_hold_as_often_as_they_say() -> None:
    from scipy.stats import binom

    for p in (0.003, 0.1, 0.5, 0.9):
        counts = np.arange(201)
        chances = binom.pmf(counts, 200, p)
        above = sum(c for k, c in zip(counts, chances, strict=True) if share_at_least(int(k), 200, 0.95) > p)
        below = sum(c for k, c in zip(counts, chances, strict=True) if share_at_most(int(k), 200, 0.95) < p)
        assert above <= 0.05 + 1e-12
        assert below <= 0.05 + 1e-12


def test_bounds_are_below_the_real_loss_and_near_it() -> None:
    truth = np.log(0.75 / 0.25)
    claim = PureGuarantee(mechanism="coin", epsilon=1.2, certified=1.2)
    space = sfumato.Space.from_arrays(["no", "yes"], [[0.0], [1.0]])
    coin = DenseTable.from_probabilities(space, [[0.75, 0.25], [0.25, 0.75]], claim)
    bounds = [
        audit_pairs(coin, [(0, 1)], draws=4000, confidence=0.9, key=RunKey.from_seed(seed))[0].lower_bound
        for seed in range(20)
    ]
    # With confidence 0.9 more than 8 of 20 fail with a chance below one in ten thousand.
    assert sum(bound > truth for bound in bounds) <= 8
    assert np.mean(bounds) > 0.85 * truth


@pytest.mark.parametrize("name", ["tem", "custext", "santext-plus", "laplace", "random"])
def test_a_true_claim_is_not_refuted(name: str) -> None:
    options = {} if name == "random" else {"epsilon": 1.0}
    mechanism = sfumato.compile(name, LINE, **options)
    report = audit_mechanism(mechanism, pairs=6, draws=3000, confidence=0.999, seed=3)
    assert report.outcome == "holds", report.verdict()


def test_a_leaky_mechanism_is_flagged_from_draws_alone() -> None:
    table = np.full((6, 6), 0.1 / 5)
    np.fill_diagonal(table, 0.9)
    claim = MetricGuarantee(mechanism="leaky", epsilon=0.5, certified=0.5, metric="euclidean")
    leaky = DenseTable.from_probabilities(LINE, table, claim)
    results = audit_pairs(leaky, pairs_to_try(leaky, 6), draws=3000, key=RunKey.from_seed(0))
    assert any(result.refuted for result in results)
    report = audit_mechanism(leaky, pairs=6, draws=3000, seed=0)
    assert report.outcome == "refuted"
    assert "REFUTED" in report.verdict()[0]
    assert report.verification is not None
    assert not report.verification.passed


def test_the_identity_promises_nothing() -> None:
    report = audit_mechanism(sfumato.compile("identity", LINE))
    assert report.outcome == "nothing promised"
    assert report.attack is not None
    assert report.attack.success == 1.0


def test_nothing_found_bounds_nothing() -> None:
    assert loss_bound(0, 100, 0, 100, 0.95) == 0.0
    assert loss_bound(5, 100, 50, 100, 0.95) == 0.0
