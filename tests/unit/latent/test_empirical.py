"""What is promised is measured: distances never exceed the sensitivity, and the best test never beats epsilon."""

from __future__ import annotations

import numpy as np
import pytest

import sfumato
from sfumato.audit.vectors import audit_vectors
from sfumato.foundation.randomness import RunKey, Source, SystemSource
from sfumato.latent.calibration import release_once, several_releases
from sfumato.latent.encoders.words import WordMeanEncoder
from sfumato.latent.plan import NoisePlan
from sfumato.latent.published import as_published
from sfumato.latent.vectors import clip, greatest_distance

PAIR = ["a warm, wonderful and moving film", "dull, cold and far too long"]
DRAWS = 30_000
WIDTH = 6
"""Coordinates of the plans that are drawn from often; the promise does not depend on it."""
CONFIDENCE = 1 - 1e-6


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    """The two sentences as vectors, away from each other as far as possible: around their middle."""
    encoder = WordMeanEncoder(sfumato.Space.load("default"))
    found = encoder.encode(PAIR).astype(np.float64)
    return (found - found.mean(axis=0))[:, :WIDTH] * 100


def epsilon_at_least(vectors: np.ndarray, plan: NoisePlan, source: Source) -> float:
    """Return a lower bound on epsilon from the best test between two sentences."""
    result = audit_vectors(plan, vectors[0], vectors[1], draws=DRAWS // 2, confidence=CONFIDENCE, source=source)
    assert result.claimed == plan.epsilon()
    assert result.refuted == (result.lower_bound > result.claimed)
    return result.lower_bound


@pytest.mark.parametrize("distribution", ["gaussian", "laplace", "discrete"])
def test_clipped_sentences_are_never_further_apart_than_declared(distribution: str) -> None:
    encoder = WordMeanEncoder(sfumato.Space.load("default"))
    space = encoder.space
    words = [space.words[place] for place in range(0, len(space.words), 37)]
    found = encoder.encode([" ".join(words[start : start + 3]) for start in range(0, len(words), 3)])
    both = np.concatenate([found, -10 * found])  # the encoder may be any function
    plan = NoisePlan(clip=0.7, scale=1.0, dimension=encoder.dimension, distribution=distribution, grid=0.25)
    clipped = clip(both, plan.clip, plan.norm)
    if distribution == "discrete":
        clipped = np.rint(clipped / plan.grid) * plan.grid
    assert 1.3 < greatest_distance(clipped, plan.norm) <= plan.sensitivity


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
@pytest.mark.parametrize("distribution", ["gaussian", "laplace", "discrete"])
def test_telling_two_sentences_apart_gives_a_bound_below_the_claim(
    vectors: np.ndarray, epsilon: float, distribution: str
) -> None:
    plan = release_once(epsilon=epsilon, clip=1.0, dimension=WIDTH, distribution=distribution, delta=1e-3)
    measured = epsilon_at_least(vectors, plan, RunKey.from_seed(31).record(0))
    assert measured <= epsilon
    if distribution != "laplace":  # along one direction Laplace noise of many coordinates tells less than it might
        assert measured > 0.35 * epsilon


def test_the_system_source_keeps_the_promise_too(vectors: np.ndarray) -> None:
    plan = release_once(epsilon=2.0, clip=1.0, dimension=WIDTH, delta=1e-3)
    assert epsilon_at_least(vectors, plan, SystemSource()) <= 2.0


def test_several_releases_together_stay_below_the_claim(vectors: np.ndarray) -> None:
    plan = several_releases(6, epsilon=2.0, clip=1.0, dimension=WIDTH, delta=1e-3)
    measured = epsilon_at_least(vectors, plan, RunKey.from_seed(32).record(0))
    assert 0.7 < measured <= 2.0


def test_the_published_accounting_is_refuted_by_the_same_test(vectors: np.ndarray) -> None:
    """The test has the power to find a false claim: ten releases, noise for C, and the central limit."""
    claim = as_published(
        epsilon=1.0, clip=1.0, dimension=WIDTH, rate=0.1, steps=100, delta=1e-3, allow_unsound=True
    ).noise
    measured = epsilon_at_least(vectors, claim, RunKey.from_seed(33).record(0))
    assert measured > 2.0
    assert measured <= claim.epsilon()


def test_noise_for_a_sensitivity_of_c_is_refuted(vectors: np.ndarray) -> None:
    sound = release_once(epsilon=3.0, clip=1.0, dimension=WIDTH, delta=1e-3)
    halved = NoisePlan(**{**sound.to_json(), "scale": sound.scale / 2})
    assert epsilon_at_least(vectors, halved, RunKey.from_seed(34).record(0)) > 3.0
