"""Membership: members of an overfitted model are found, and where there is nothing to find nothing is found."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.audit.attacks.learners import train_classifier
from sfumato.audit.attacks.membership import Answers, likelihood_ratio, shadow_attack
from sfumato.audit.attacks.scores import Share, separation
from sfumato.foundation.errors import ParameterError

RECORDS, WIDTH = 60, 200


def records(seed: int, count: int = 2 * RECORDS) -> tuple[np.ndarray, np.ndarray]:
    """Random features with random labels: a model can only learn them by heart."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, WIDTH)), rng.integers(0, 2, count)


def answers(rows: np.ndarray, labels: np.ndarray, members: np.ndarray, penalty: float) -> Answers:
    model = train_classifier(rows[members], labels[members], 2, penalty=penalty)
    return Answers(model.log_probabilities(rows), labels)


def halves(seed: int) -> np.ndarray:
    flags = np.zeros(2 * RECORDS, dtype=bool)
    flags[np.random.default_rng(seed).permutation(2 * RECORDS)[:RECORDS]] = True
    return flags


def test_members_of_a_model_that_learnt_by_heart_are_found_by_shadows() -> None:
    shadows = [(answers(*records(seed), halves(seed), 1e-4), halves(seed)) for seed in (1, 2)]
    scores = shadow_attack(shadows, answers(*records(0), halves(0), 1e-4))
    assert separation(scores, halves(0)).auc > 0.85


BY_CHANCE = 4 * math.sqrt((2 * RECORDS + 1) / (12 * RECORDS**2))
"""Four standard deviations of the AUC where scores say nothing."""


def test_a_model_that_saw_none_of_the_records_betrays_nobody() -> None:
    shadows = [(answers(*records(seed), halves(seed), 1e-4), halves(seed)) for seed in (1, 2)]
    rows, labels = records(0)
    elsewhere = train_classifier(*records(9), 2, penalty=1e-4)
    scores = shadow_attack(shadows, Answers(elsewhere.log_probabilities(rows), labels))
    assert separation(scores, halves(0)).auc == pytest.approx(0.5, abs=BY_CHANCE)


def test_the_likelihood_ratio_finds_members_and_nothing_where_there_is_nothing() -> None:
    rows, labels = records(5)
    flags = np.array([one for seed in (1, 2) for one in (halves(seed), ~halves(seed))])
    told = np.array([answers(rows, labels, one, 1e-4).confidence() for one in flags])
    attacked = answers(rows, labels, halves(0), 1e-4).confidence()
    assert separation(likelihood_ratio(told, flags, attacked), halves(0)).auc > 0.95
    elsewhere = Answers(train_classifier(*records(9), 2, penalty=1e-4).log_probabilities(rows), labels).confidence()
    found = separation(likelihood_ratio(told, flags, elsewhere), halves(0)).auc
    assert found == pytest.approx(0.5, abs=BY_CHANCE)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=30))
def test_the_auc_is_the_share_of_pairs_in_order(pairs: list[tuple[int, bool]]) -> None:
    scores = [score for score, _ in pairs]
    members = [member for _, member in pairs]
    if all(members) or not any(members):
        with pytest.raises(ParameterError, match="members and others"):
            separation(scores, members)
        return
    inside = [score for score, member in pairs if member]
    outside = [score for score, member in pairs if not member]
    wins = sum((one > other) + 0.5 * (one == other) for one in inside for other in outside)
    found = separation(scores, members)
    assert found.auc == pytest.approx(wins / (len(inside) * len(outside)))
    assert found.low <= found.auc <= found.high


def test_the_low_error_corner_of_the_curve() -> None:
    """Of 200 others one may be accused by 1 %; half of the members are above all but that one."""
    others = np.arange(200.0)
    members = np.array([198.5] * 5 + [0.5] * 5)
    found = separation(np.concatenate([members, others]), np.arange(210) < 10)
    assert found.found_at_1_percent == 0.5
    assert found.accuracy == pytest.approx((0.5 + 199 / 200) / 2)


def test_intervals_of_shares_cover_as_promised() -> None:
    rng = np.random.default_rng(0)
    covered = [low <= 0.1 <= high for low, high in (Share(int(n), 200).interval() for n in rng.binomial(200, 0.1, 500))]
    assert np.mean(covered) > 0.95 - 4 * math.sqrt(0.05 * 0.95 / 500)


def test_data_that_do_not_fit_are_refused() -> None:
    some = Answers(np.log(np.full((2, 2), 0.5)), np.array([0, 1]))
    with pytest.raises(ParameterError, match="at least one shadow"):
        shadow_attack([], some)
    with pytest.raises(ParameterError, match="members and others"):
        shadow_attack([(some, np.array([True, True]))], some)
    with pytest.raises(ParameterError, match="one true class"):
        Answers(np.zeros((2, 2)), np.array([0]))
    with pytest.raises(ParameterError, match="of some shadow models"):
        likelihood_ratio([[1.0], [2.0]], [[True], [True]], [1.0])
    with pytest.raises(ParameterError, match="a column for each record"):
        likelihood_ratio([[1.0], [2.0]], [[True], [False]], [1.0, 2.0])
