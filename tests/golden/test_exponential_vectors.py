"""Figures computed independently (mpmath, 30 digits) for TEM, its truncation and the tight mechanism."""

import math

import numpy as np
import pytest

import sfumato
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism.exponential import tem
from sfumato.mechanism.integers import rounding_loss
from sfumato.mechanism.kernel import truncation
from sfumato.space import Space

LINE = Space.from_arrays(list("abcde"), [[0.0], [1.0], [2.0], [3.0], [4.0]])
INTEGER_STEP = rounding_loss(5)


def test_tem_on_a_line():
    mechanism = tem(LINE, epsilon=1.0, gamma=2.0, tuning="published")
    expected = [0.368980682086, 0.223798096527] + 3 * [0.135740407129]
    assert mechanism.row("a").probabilities == pytest.approx(expected, rel=INTEGER_STEP)
    assert mechanism.guarantee.certified == pytest.approx(0.584394170372, abs=2 * INTEGER_STEP)
    assert sfumato.verify(mechanism).realised == pytest.approx(0.584394170372, abs=INTEGER_STEP)


def test_truncation():
    assert truncation(2.0, 0.001, 50_000) == pytest.approx(17.7265130628588, rel=1e-13)


def test_tight_on_a_line():
    mechanism = tem(LINE, epsilon=1.0, gamma=100.0, tuning="tight")
    ends, inside = 0.731058578630005, 0.46211715726001
    assert mechanism.tuned.weights == pytest.approx([ends, inside, inside, inside, ends], abs=1e-6)
    row = [w * math.exp(-abs(i - 1)) for i, w in enumerate([ends, inside, inside, inside, ends])]
    assert sum(row) == pytest.approx(1.0, abs=1e-12)
    assert mechanism.row("b").probabilities == pytest.approx(row, abs=1e-6)
    assert 1 - 1e-5 < mechanism.guarantee.certified <= 1


def test_the_bottom_element_of_the_paper_is_the_same_distribution():
    """TEM as written: words within gamma, and a bottom element with score -gamma + 2 ln|W \\ L| / epsilon."""
    rng = np.random.default_rng(8)
    vectors = rng.normal(size=(60, 3))
    space = Space.from_arrays([f"w{i}" for i in range(60)], vectors)
    epsilon, gamma = 2.0, 1.5
    mechanism = tem(space, epsilon=epsilon, gamma=gamma, tuning="published")
    for word in range(0, 60, 7):
        distances = np.linalg.norm(vectors - vectors[word], axis=1)
        inside = distances <= gamma
        outside = int((~inside).sum())
        scores = np.append(-distances[inside], -gamma + 2 * math.log(outside) / epsilon)
        chances = np.exp(epsilon / 2 * scores)
        chances /= chances.sum()
        expected = np.empty(60)
        expected[inside] = chances[:-1]
        expected[~inside] = chances[-1] / outside
        assert mechanism.row(f"w{word}").probabilities == pytest.approx(expected, rel=1e-6)


def test_figures_of_the_reference_setting_keep_their_order():
    """2,000 words, 100 d, epsilon 2: published keeps far less than calibrated, and calibrated less than tight."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(300, 100)) * 0.45
    space = Space.from_arrays([f"w{i}" for i in range(300)], vectors)
    keeps = {t: tem(space, epsilon=2.0, tuning=t).tuned.keeps for t in ("published", "calibrated", "tight")}
    assert keeps["published"] + 0.1 < keeps["calibrated"] < keeps["tight"]


def test_a_draw_costs_no_more_than_the_integers_say():
    mechanism = tem(LINE, epsilon=1.0, gamma=2.0, tuning="published")
    drawn = mechanism.sample(np.zeros(1000, dtype=int), RunKey.from_seed(0).record(0))
    assert set(drawn.tolist()) <= set(range(5))
