import json
import math
import re

import numpy as np
import pytest
from scipy import stats

import sfumato
from sfumato.foundation.errors import CertificationError
from sfumato.foundation.guarantee import guarantee_from_json
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism.gumbel import candidate_chances, least_epsilon, truncated_gumbel
from sfumato.space import Space

CONFIDENCE = 1e-6
"""Chance that a right sampler fails one chi-square test; the seeds are fixed, so a pass stays a pass."""


def space_of(count, seed=0, dimension=3):
    vectors = np.random.default_rng(seed).normal(size=(count, dimension))
    return Space.from_arrays([f"w{i}" for i in range(count)], vectors)


def as_published(space, word, scale, draws, rng):
    """The algorithm as it is written: candidates, noise within the bounds, least sum."""
    diameter = space.statistics.diameter
    distances = space.distances(np.array([word]))[0]
    order = np.argsort(distances, kind="stable")
    candidates = np.zeros(0, dtype=int)
    while len(candidates) < draws:
        more = rng.poisson(np.log(len(space)), 2 * draws)
        candidates = np.append(candidates, more[(more >= 1) & (more <= len(space))])[:draws]
    low, high = np.exp(-np.exp(np.array([diameter, -diameter]) / scale))
    noise = -scale * np.log(-np.log(rng.uniform(low, high, (draws, len(space)))))
    sums = distances[order] + noise
    sums[np.arange(len(space)) >= candidates[:, None]] = np.inf
    return order[sums.argmin(axis=1)]


@pytest.mark.parametrize("above", [1.01, 2.0, 30.0])
@pytest.mark.parametrize("word", [0, 7])
def test_the_table_is_the_law_of_the_published_algorithm(above, word):
    space = space_of(14, seed=2)
    mechanism = truncated_gumbel(space, epsilon=above * least_epsilon(space))
    drawn = as_published(space, word, mechanism.scale, 200_000, np.random.default_rng(word))
    row = mechanism.row(space.words[word])
    counts = np.bincount(drawn, minlength=14)[row.cells]
    likely = row.probabilities * 200_000 > 10
    observed = np.append(counts[likely], 200_000 - counts[likely].sum())
    expected = np.append(row.probabilities[likely], row.probabilities[~likely].sum()) * 200_000
    assert stats.chisquare(observed[expected > 0], expected[expected > 0]).pvalue > CONFIDENCE


def test_rows_sum_to_one_before_they_are_rounded():
    space = space_of(300, dimension=8)
    mechanism = truncated_gumbel(space, epsilon=3 * least_epsilon(space))
    distances = np.sort(space.distances(np.arange(20)), axis=1)[:, : len(mechanism.candidate_chances)]
    assert mechanism._probabilities(distances).sum(axis=1) == pytest.approx(np.ones(20), abs=1e-12)


def test_the_published_claim_is_false():
    """In a space where all distances are equal, the rank of a neighbour decides, and it is worth more than epsilon d."""
    space = Space.from_arrays([f"w{i}" for i in range(60)], np.eye(60))
    mechanism = truncated_gumbel(space, epsilon=1.05 * least_epsilon(space))
    promised = mechanism.guarantee.epsilon * space.statistics.diameter
    near, far = mechanism.row("w18"), mechanism.row("w0")
    assert far.probability(18) > 0  # no effect of words that are left out
    loss = np.log(float(near.probability(18))) - np.log(float(far.probability(18)))
    assert loss > promised + 1
    result = sfumato.verify(mechanism)
    assert not result.passed
    assert result.bound > mechanism.guarantee.epsilon
    assert "UNSOUND" in mechanism.guarantee.statement()
    assert not mechanism.guarantee.sound


def test_below_the_least_epsilon_the_error_names_it_and_what_to_use():
    space = space_of(20)
    least = least_epsilon(space)
    for epsilon in (0.5, least):
        with pytest.raises(CertificationError) as caught:
            truncated_gumbel(space, epsilon=epsilon)
        assert "tem" in str(caught.value)
        assert "calibrated" in str(caught.value)
    truncated_gumbel(space, epsilon=least * (1 + 1e-9))


@pytest.mark.parametrize("seed", range(40))
def test_the_epsilon_that_the_error_names_is_enough(seed):
    space = space_of(3, seed, dimension=1)
    least = least_epsilon(space)
    with pytest.raises(CertificationError) as caught:
        truncated_gumbel(space, epsilon=least)
    told = float(re.search(r"epsilon must be (\S+) or more", str(caught.value))[1])
    assert least < told <= least * (1 + 2e-5)
    assert truncated_gumbel(space, epsilon=told).scale > 0


@pytest.mark.parametrize("steps", [1, 2, 1000])
@pytest.mark.parametrize("seed", range(5))
def test_just_above_the_least_epsilon_the_noise_is_nearly_uniform(seed, steps):
    """The scale is without bound there, and truncated Gumbel noise of such a scale is uniform between its bounds."""
    space = space_of(6, seed)
    least = least_epsilon(space)
    mechanism = truncated_gumbel(space, epsilon=least + steps * np.spacing(least))
    diameter = space.statistics.diameter
    assert mechanism.scale > 1e6 * diameter
    rng = np.random.default_rng(seed)
    order = np.argsort(space.distances(np.array([2]))[0], kind="stable")
    candidates = np.minimum(rng.choice(np.arange(1, 7), 200_000, p=candidate_chances(6)), 6)
    sums = space.distances(np.array([2]))[0][order] + rng.uniform(-diameter, diameter, (200_000, 6))
    sums[np.arange(6) >= candidates[:, None]] = np.inf
    counts = np.bincount(order[sums.argmin(axis=1)], minlength=6)
    row = mechanism.row("w2")
    assert row.probabilities.sum() == pytest.approx(1.0)
    assert stats.chisquare(counts[row.cells], row.probabilities * 200_000).pvalue > CONFIDENCE


def test_a_space_with_a_single_point_is_refused():
    with pytest.raises(CertificationError, match="the same vector") as caught:
        truncated_gumbel(Space.from_arrays(["a", "b"], [[1.0], [1.0]]), epsilon=10.0)
    assert "inf" not in str(caught.value)


def test_its_guarantee_says_that_nothing_is_certified():
    space = space_of(20)
    guarantee = truncated_gumbel(space, epsilon=2 * least_epsilon(space)).guarantee
    for each in (guarantee, guarantee.repeated(3), guarantee + guarantee):
        statement = each.statement()
        assert statement.startswith("Nothing is certified.")
        assert f"exp({each.epsilon:.6g} x d)" in statement
        assert "UNSOUND" in statement
        assert "inf" not in statement
        assert math.isinf(each.certified)
        assert each.neighbour_loss is None
        written = json.dumps(each.to_json(), allow_nan=False)
        assert json.loads(written)["certified"] is None
        assert guarantee_from_json(json.loads(written)) == each
    assert guarantee.repeated(3).epsilon == pytest.approx(3 * guarantee.epsilon)


def test_candidate_chances_are_a_truncated_poisson_distribution():
    chances = candidate_chances(40_000)
    assert chances.sum() == pytest.approx(1.0, abs=1e-14)
    assert 40 < len(chances) < 100
    mean = np.log(40_000)
    assert chances[9] == pytest.approx(stats.poisson.pmf(10, mean) / (1 - np.exp(-mean)), rel=1e-9)


def test_draws_follow_the_rows_and_stay_within_the_candidates():
    space = space_of(50)
    mechanism = truncated_gumbel(space, epsilon=1.5 * least_epsilon(space))
    row = mechanism.row("w3")
    drawn = mechanism.sample(np.full(100_000, 3), RunKey.from_seed(0).record(0))
    assert set(drawn.tolist()) <= set(row.cells.tolist())
    likely = row.probabilities * 100_000 > 10
    counts = np.bincount(drawn, minlength=50)[row.cells]
    observed = np.append(counts[likely], counts[~likely].sum())
    expected = np.append(row.probabilities[likely], row.probabilities[~likely].sum()) * 100_000
    assert stats.chisquare(observed, expected).pvalue > CONFIDENCE
