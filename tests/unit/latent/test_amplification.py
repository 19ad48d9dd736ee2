"""The bounds for hidden participation hold in cases that can be computed, and say what they assume."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from sfumato.accounting.gaussian import delta_of, epsilon_of
from sfumato.foundation.errors import ParameterError
from sfumato.latent.amplification import (
    sampled_epsilon,
    secretly_sampled,
    shuffled,
    shuffled_epsilon,
    upsampled,
)

SHAPE = {"clip": 1.0, "dimension": 4}


def exact_delta_of_one_in(count: int, mu: float, epsilon: float) -> float:
    """Return the exact delta of one sentence out of ``count``, where it stands against all the others."""
    grid = np.linspace(-12 - mu, 12 + mu, 400_001)
    rest = stats.norm.pdf(grid, loc=-mu / 2)
    here = stats.norm.pdf(grid, loc=mu / 2) / count + rest * (1 - 1 / count)
    return float(np.maximum(here - math.exp(epsilon) * rest, 0).sum() * (grid[1] - grid[0]))


@pytest.mark.parametrize("count", [2, 5, 50])
@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
def test_one_secret_sample_against_the_exact_curve(count: int, mu: float) -> None:
    for delta in (1e-2, 1e-5):
        claimed = sampled_epsilon(mu, 1 / count, 1, delta)
        assert exact_delta_of_one_in(count, mu, claimed) <= delta * 1.001
        # Here the theorem is tight: a little less would be false.
        if claimed > 0.01:
            assert exact_delta_of_one_in(count, mu, claimed * 0.98) > delta


def test_sampling_everybody_or_often_is_never_worse_than_no_sampling() -> None:
    assert sampled_epsilon(0.7, 1.0, 1, 1e-5) == pytest.approx(epsilon_of(0.7, 1e-5), rel=1e-9)
    for rounds in (1, 10, 200):
        assert sampled_epsilon(0.1, 0.5, rounds, 1e-5) <= epsilon_of(0.1 * math.sqrt(rounds), 1e-5)


def test_a_huge_loss_is_not_cut_off() -> None:
    # ln(1 + q (e^eps - 1)) is eps + ln q where e^eps cannot be written down.
    without = epsilon_of(45.0, 1e-5 / 0.5)
    assert without > 900
    assert sampled_epsilon(45.0, 0.5, 1, 1e-5) == pytest.approx(without + math.log(0.5), rel=1e-9)


def test_one_shuffled_batch_against_its_likelihood_ratio() -> None:
    """The others all stand at the far end; then the order tells nothing and the ratio is a mean over places."""
    mu, records, delta = 0.4, 3000, 1e-2
    claimed = shuffled_epsilon(mu, records, delta)
    assert claimed < epsilon_of(mu, delta)
    draws = np.random.default_rng(8)
    losses = []
    for _ in range(3000):
        places = draws.normal(size=records)
        places[0] += mu
        losses.append(math.log(np.exp(places * mu - mu * mu / 2).mean()))
    excess = np.maximum(1 - np.exp(claimed - np.array(losses)), 0)
    # Hoeffding: the mean of 3000 numbers in [0, 1] is above the true delta by 0.055 once in 10^8.
    assert excess.mean() <= delta + 0.055
    # That the test can fail: at epsilon 0 the same estimate is far from 0.
    assert np.maximum(1 - np.exp(-np.array(losses)), 0).mean() > 0


def test_the_shuffle_bound_is_the_published_formula() -> None:
    """Feldman, McMillan and Talwar (2021), theorem 3.8, written out once more, at one epsilon of the randomiser."""
    mu, records, delta, local, share = 0.5, 20_000, 1e-5, 2.0, 0.9
    rest = share * delta
    assert local <= math.log(records / (16 * math.log(2 / rest)))
    inner = 8 * math.sqrt(math.exp(local) * math.log(4 / rest)) / math.sqrt(records) + 8 * math.exp(local) / records
    epsilon = math.log(1 + (math.exp(local) - 1) / (math.exp(local) + 1) * inner)
    spent = rest + (math.exp(epsilon) + 1) * (1 + math.exp(-local) / 2) * records * delta_of(mu, local)
    assert shuffled_epsilon(mu, records, max(spent, delta)) <= epsilon
    assert shuffled_epsilon(mu, records, delta) < epsilon_of(mu, delta)


def test_a_small_batch_is_no_place_to_hide() -> None:
    assert shuffled_epsilon(0.5, 10, 1e-5) == epsilon_of(0.5, 1e-5)


@pytest.mark.parametrize("rounds", [1, 5])
def test_the_noise_keeps_the_promise_and_is_less_than_without(rounds: int) -> None:
    plan = secretly_sampled(epsilon=1.0, records=10_000, batch=100, rounds=rounds, **SHAPE)
    mu = plan.noise.sensitivity / plan.noise.scale
    assert sampled_epsilon(mu, 0.01, rounds, 1e-5) <= 1.0
    assert plan.guarantee.epsilon == 1.0
    assert plan.noise.epsilon() > 1.0  # without the assumption
    many = shuffled(epsilon=1.0, records=50_000, **SHAPE)
    assert shuffled_epsilon(many.noise.sensitivity / many.noise.scale, 50_000, 1e-5) <= 1.0


def test_fictitious_queries_help_like_true_ones() -> None:
    alone = upsampled(epsilon=0.5, queries=1000, fictitious=0, **SHAPE)
    hidden = upsampled(epsilon=0.5, queries=1000, fictitious=49_000, **SHAPE)
    together = shuffled(epsilon=0.5, records=50_000, **SHAPE)
    assert hidden.noise.scale == together.noise.scale < alone.noise.scale


def test_every_assumption_is_in_the_statement() -> None:
    sampled = secretly_sampled(epsilon=1.0, records=1000, batch=10, **SHAPE).guarantee.statement()
    assert "secretly" in sampled
    assert "Without this assumption one release is" in sampled
    batch = shuffled(epsilon=1.0, records=20_000, **SHAPE).guarantee.statement()
    assert "shuffler must be honest" in batch
    assert "rarest label" in batch
    assert "sent once" in upsampled(epsilon=1.0, queries=10, fictitious=5, **SHAPE).guarantee.statement()


def test_a_batch_is_not_larger_than_what_it_is_taken_from() -> None:
    with pytest.raises(ParameterError, match="cannot be taken from"):
        secretly_sampled(epsilon=1.0, records=10, batch=11, **SHAPE)
    with pytest.raises(ParameterError, match="rate"):
        sampled_epsilon(1.0, 1.5, 1, 1e-5)
