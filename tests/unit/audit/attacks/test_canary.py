"""Exposure: exact over all strings, and 1.44 bits on average where there is nothing to find."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.audit.attacks.canary import all_strings, exposure, insert, mean_without_leak
from sfumato.foundation.errors import ParameterError


def random_model(seed: int, level: int = 4) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    prefixes = [f"{n:0{k}d}" if k else "" for k in range(level) for n in range(10**k)]
    return {prefix: np.log(rng.dirichlet(np.ones(10))) for prefix in prefixes}


def test_the_trie_gives_every_string_the_product_of_its_digits() -> None:
    model = random_model(0, 3)
    asked: list[str] = []

    def next_digits(prefixes: list[str]) -> np.ndarray:
        asked.extend(prefixes)
        return np.array([model[prefix] for prefix in prefixes])

    table = all_strings(next_digits, 3)
    assert len(asked) == 111  # and not 1,000 strings of three digits
    for number in (0, 7, 42, 999):
        secret = f"{number:03d}"
        expected = sum(model[secret[:k]][int(secret[k])] for k in range(3))
        assert table[number] == pytest.approx(expected)
    assert np.exp(table).sum() == pytest.approx(1)


def test_a_model_that_memorised_the_secret_has_full_exposure() -> None:
    secret = "145572"
    peaked = np.full((1, 10), math.log(0.01))

    def next_digits(prefixes: list[str]) -> np.ndarray:
        rows = np.repeat(peaked, len(prefixes), axis=0)
        for place, prefix in enumerate(prefixes):
            rows[place, int(secret[len(prefix)])] = math.log(0.91)
        return rows

    found = exposure(all_strings(next_digits, 6), secret)
    assert (found.candidates, found.rank, found.worst_rank) == (10**6, 1, 1)
    assert found.exposure == pytest.approx(math.log2(10**6))


def test_a_secret_that_was_never_inserted_has_144_bits_on_average() -> None:
    """Ranks are uniform, exposure nearly exponential with both mean and deviation 1 / ln 2."""
    draws, digits = 4_000, 4
    model = random_model(1)
    table = all_strings(lambda prefixes: [model[prefix] for prefix in prefixes], digits)
    secrets = np.random.default_rng(2).integers(0, 10**digits, draws)
    found = [exposure(table, f"{secret:0{digits}d}").exposure for secret in secrets.tolist()]
    tolerance = 4 / math.log(2) / math.sqrt(draws)  # four standard errors: wrong once in 16,000
    assert np.mean(found) == pytest.approx(mean_without_leak(10**digits), abs=tolerance)
    assert mean_without_leak(10**6) == pytest.approx(1 / math.log(2), abs=2e-5)


def test_ties_are_told_by_the_worst_rank() -> None:
    found = exposure(np.zeros(1000), "123")
    assert (found.rank, found.worst_rank) == (1, 1000)
    assert found.exposure == pytest.approx(math.log2(1000))
    assert found.least_exposure == 0


@given(st.lists(st.integers(-5, 5), min_size=100, max_size=100), st.integers(0, 99))
def test_ranks_agree_with_sorting(values: list[int], secret: int) -> None:
    found = exposure(values, f"{secret:02d}")
    ordered = sorted(values, reverse=True)
    assert found.rank == ordered.index(values[secret]) + 1
    assert found.worst_rank == 100 - ordered[::-1].index(values[secret])


def test_the_mean_is_that_of_all_ranks() -> None:
    ranks = np.arange(1, 1001)
    assert mean_without_leak(1000) == pytest.approx(np.mean(np.log2(1000) - np.log2(ranks)))


@pytest.mark.parametrize(("table", "secret"), [(np.zeros(10), "12"), (np.zeros(10), "x"), (np.zeros(10), "²")])
def test_secrets_that_do_not_fit_are_refused(table: np.ndarray, secret: str) -> None:
    with pytest.raises(ParameterError, match="10\\*\\*n"):
        exposure(table, secret)


def test_models_must_answer_for_ten_digits_and_eight_are_too_many() -> None:
    with pytest.raises(ParameterError, match="ten logarithms"):
        all_strings(lambda prefixes: np.zeros((len(prefixes), 9)), 2)
    with pytest.raises(ParameterError, match="at most 7"):
        all_strings(lambda prefixes: np.zeros((len(prefixes), 10)), 8)


def test_copies_are_inserted_at_places_that_follow_from_the_seed() -> None:
    texts = [str(number) for number in range(50)]
    found = insert(texts, "canary", 10, seed=3)
    assert found == insert(texts, "canary", 10, seed=3) != insert(texts, "canary", 10, seed=4)
    assert found.count("canary") == 10
    assert [text for text in found if text != "canary"] == texts
