"""Inversion: vectors without noise give everything back, vectors of noise alone nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sfumato
from sfumato.audit.attacks.inversion import Inverter, bags, nearest_inversion, recovered_words, train_inverter
from sfumato.foundation.errors import ParameterError
from sfumato.foundation.randomness import RunKey

WORDS = [f"w{number}" for number in range(40)]
POINTS = np.random.default_rng(0).normal(size=(40, 6))
SPACE = sfumato.Space.from_arrays(WORDS, POINTS)


def sentences(count: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, 5)) for _ in range(count)]


def test_the_identity_is_inverted_and_noise_alone_is_not() -> None:
    truth = np.arange(40)
    assert nearest_inversion(SPACE.vectors, SPACE.vectors, truth).share == 1
    noise = np.random.default_rng(1).normal(size=(4000, 6)) * 1e6
    found = nearest_inversion(noise, POINTS, np.tile(truth, 100))
    low, high = found.interval(0.9999)
    assert low <= 1 / 40 <= high


def test_a_mechanism_with_less_noise_is_inverted_more_often() -> None:
    ids = np.repeat(np.arange(40), 20)
    found = []
    for epsilon in (0.01, 5.0, 1e4):
        mechanism = sfumato.compile("laplace", SPACE, epsilon=epsilon)
        vectors = mechanism.vectors(ids, RunKey.from_seed(3).record(0, "inversion"))  # type: ignore[attr-defined]
        found.append(nearest_inversion(vectors, SPACE.vectors, ids).share)
    assert found[0] < 0.1 < found[1] < found[2] == 1


def test_more_guesses_find_more_and_equal_points_share_one_hit() -> None:
    vectors = POINTS + np.random.default_rng(2).normal(size=POINTS.shape)
    shares = [nearest_inversion(vectors, POINTS, np.arange(40), top=top).share for top in (1, 5, 40)]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    twins = nearest_inversion([[0.0], [0.0]], [[0.0], [0.0]], np.array([0, 1]))
    assert twins.hits == 1


def test_a_trained_attacker_reads_the_words_off_vectors_without_noise() -> None:
    """With as many components as words, the mean of word vectors gives the words exactly."""
    rng = np.random.default_rng(4)
    encode = rng.normal(size=(40, 60))
    train, test = bags(sentences(400, 1), WORDS), bags(sentences(60, 2), WORDS)
    attacker = train_inverter(train @ encode, train, penalty=0.0)
    found = recovered_words(attacker.scores(test @ encode), test, attacker.base)
    assert found.words.share == 1
    assert found.blind.share < 0.3


def test_a_trained_attacker_gains_nothing_from_noise() -> None:
    rng = np.random.default_rng(5)
    train, test = bags(sentences(2000, 1), WORDS), bags(sentences(800, 2), WORDS)
    attacker = train_inverter(rng.normal(size=(2000, 20)), train)
    found = recovered_words(attacker.scores(rng.normal(size=(800, 20))), test, attacker.base)
    # Every word is equally frequent here, so the prior is the mean number of words of a sentence over 40.
    prior = test.sum() / test.shape[0] / 40
    assert found.words.share == pytest.approx(prior, abs=4 * math.sqrt(prior * (1 - prior) / found.words.of))


def test_an_attacker_does_not_listen_to_noise_where_words_are_unlike_in_frequency() -> None:
    rng = np.random.default_rng(8)
    zipf = 1 / np.arange(1, 41)
    texts = [" ".join(rng.choice(WORDS, 5, p=zipf / zipf.sum())) for _ in range(1500)]
    contents = bags(texts, WORDS)
    noise = rng.normal(size=(1500, 100))
    attacker = train_inverter(noise[:1000], contents[:1000])
    found = recovered_words(attacker.scores(noise[1000:]), contents[1000:], attacker.base)
    low, high = found.blind.interval(0.9999)
    assert low <= found.words.share <= high


def test_noise_of_the_gaussian_layer_takes_words_away() -> None:
    rng = np.random.default_rng(6)
    encode = rng.normal(size=(40, 60))
    train, test = bags(sentences(600, 1), WORDS), bags(sentences(100, 2), WORDS)
    shares = []
    for scale in (0.0, 5.0, 50.0):
        vectors, seen = (part @ encode + scale * rng.normal(size=(part.shape[0], 60)) for part in (train, test))
        attacker = train_inverter(vectors, train)
        shares.append(recovered_words(attacker.scores(seen), test, attacker.base).words.share)
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.99


def test_data_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ParameterError, match="same number of components"):
        nearest_inversion([[0.0, 1.0]], [[0.0]], np.array([0]))
    with pytest.raises(ParameterError, match="at least two"):
        train_inverter([[0.0]], bags(["w1"], WORDS))
    assert isinstance(train_inverter([[0.0], [1.0]], bags(["w1", "w2"], WORDS)), Inverter)
