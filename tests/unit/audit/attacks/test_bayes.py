"""The optimal attack: exact on tables that can be worked out by hand, and what is there is found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato
from sfumato.audit.attacks import Rows, bayes_attack, success_of_draws
from sfumato.audit.channel import attack_mechanism, dense_table, sampled_attack
from sfumato.audit.prior import Prior, uniform_prior
from sfumato.foundation.errors import CertificationError, ParameterError
from sfumato.foundation.randomness import RunKey

SPACE = sfumato.Space.from_arrays([f"w{i}" for i in range(40)], np.random.default_rng(0).normal(size=(40, 6)))
ZIPF = Prior((1 / np.arange(1, 41)) / (1 / np.arange(1, 41)).sum(), "Zipf's law")


def brute_force(prior: np.ndarray, table: np.ndarray) -> float:
    return float(sum(max(prior[x] * table[x, y] for x in range(len(table))) for y in range(table.shape[1])))


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 7))
def test_success_is_the_sum_of_the_greatest_joint_chances(seed: int, words: int, outputs: int) -> None:
    rng = np.random.default_rng(seed)
    table, prior = rng.dirichlet(np.ones(outputs), words), rng.dirichlet(np.ones(words))
    rows = [Rows(np.array([x]), np.arange(outputs), table[[x]]) for x in range(words)]
    attack = bayes_attack(prior, rows, outputs)
    assert attack.success == pytest.approx(brute_force(prior, table))
    assert attack.blind - 1e-12 <= attack.success <= 1
    assert attack.guesses.tolist() == (prior[:, None] * table).argmax(axis=0).tolist()


@given(st.integers(0, 10_000))
def test_rows_with_outputs_of_their_own_give_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.ones(5), 4)
    order = np.array([rng.permutation(5) for _ in range(4)])
    own = Rows(np.arange(4), order, np.take_along_axis(table, order, axis=1))
    common = Rows(np.arange(4), np.arange(5), table)
    assert bayes_attack(np.ones(4), [own], 5).success == pytest.approx(bayes_attack(np.ones(4), [common], 5).success)


def test_the_identity_is_recovered_and_random_words_are_not() -> None:
    assert attack_mechanism(sfumato.compile("identity", SPACE), ZIPF).success == 1.0
    random = attack_mechanism(sfumato.compile("random", SPACE), ZIPF)
    assert random.success == pytest.approx(random.blind)
    assert random.blind == pytest.approx(ZIPF.chances.max())


@pytest.mark.parametrize("name", ["tem", "santext", "santext-plus", "custext"])
def test_success_of_every_table_agrees_with_the_dense_table(name: str) -> None:
    mechanism = sfumato.compile(name, SPACE, epsilon=2.0)
    attack = attack_mechanism(mechanism, ZIPF)
    assert attack.success == pytest.approx(brute_force(ZIPF.chances, dense_table(mechanism)))


def test_success_agrees_with_draws() -> None:
    mechanism = sfumato.compile("tem", SPACE, epsilon=2.0)
    attack = attack_mechanism(mechanism, ZIPF)
    words = np.random.default_rng(1).choice(40, 20_000, p=ZIPF.chances)
    found = attack.recovered(words, mechanism.sample(words, RunKey.from_seed(1).record(0)))
    # Five standard deviations of 20,000 coin flips.
    assert found == pytest.approx(attack.success, abs=5 * np.sqrt(0.25 / 20_000))


def test_a_sampled_attack_is_no_better_than_the_optimal_one() -> None:
    mechanism = sfumato.compile("tem", SPACE, epsilon=2.0)
    best = attack_mechanism(mechanism, ZIPF).success
    found = sampled_attack(mechanism, ZIPF, draws=400).success
    assert best - 0.08 < found < best + 0.02
    vectors = sampled_attack(sfumato.compile("laplace", SPACE, epsilon=4.0), ZIPF, draws=100)
    assert vectors.success > vectors.blind


def test_more_draws_of_a_word_reveal_more() -> None:
    table, prior = [[0.75, 0.25], [0.25, 0.75]], [0.5, 0.5]
    # Of three flips the majority decides: 0.75^3 + 3 * 0.75^2 * 0.25.
    assert success_of_draws(prior, table, 3).success == pytest.approx(0.84375)
    table = dense_table(sfumato.compile("tem", SPACE, epsilon=2.0))
    one = success_of_draws(ZIPF.chances, table, 1)
    assert one.exact
    assert one.success == pytest.approx(brute_force(ZIPF.chances, table))
    ten = success_of_draws(ZIPF.chances, table, 10)
    assert not ten.exact
    assert ten.low > one.success + 0.1


def test_simulated_draws_agree_with_the_exact_value(monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.random.default_rng(0).dirichlet(np.ones(4), 3)
    exact = success_of_draws([0.5, 0.3, 0.2], table, 4)
    monkeypatch.setattr("sfumato.audit.attacks.bayes._EXACT_OUTCOMES", 0)
    simulated = success_of_draws([0.5, 0.3, 0.2], table, 4, trials=20_000)
    assert exact.exact
    assert not simulated.exact
    # The interval is of 95 %; three times its half width is nearly six standard deviations.
    assert abs(simulated.success - exact.success) < 3 * (simulated.high - simulated.success)


def test_what_cannot_be_computed_is_refused() -> None:
    with pytest.raises(CertificationError, match="sampled_table"):
        attack_mechanism(sfumato.compile("laplace", SPACE, epsilon=1.0), ZIPF)
    with pytest.raises(ParameterError, match="the prior has 2 words"):
        attack_mechanism(sfumato.compile("tem", SPACE, epsilon=1.0), uniform_prior(["a", "b"]))
    for prior in ([0.0, 0.0], [-1.0, 2.0], [np.nan, 1.0]):
        with pytest.raises(ParameterError):
            bayes_attack(prior, [], 2)
