"""Labels by randomised response: the epsilon is that of the integers that are drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.foundation.errors import DataError, ParameterError
from sfumato.foundation.randomness import RunKey
from sfumato.latent.labels import RandomisedResponse, checked_labels


@pytest.mark.parametrize("classes", [2, 3, 20])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 5.0, 100.0])
def test_the_certified_epsilon_is_below_the_promise_and_near_it(classes: int, epsilon: float) -> None:
    response = RandomisedResponse.of(classes=classes, epsilon=epsilon)
    certified = response.guarantee.certified
    assert certified <= epsilon
    if epsilon < 30:
        assert certified == pytest.approx(epsilon, rel=1e-6)
    assert response.transition().sum(axis=1) == pytest.approx([1.0] * classes)


def test_the_least_epsilons_are_kept_as_well() -> None:
    for epsilon in (1e-15, 1e-13, 1e-11):
        assert 0 <= RandomisedResponse.of(classes=3, epsilon=epsilon).guarantee.certified <= epsilon


def test_labels_are_sent_with_the_stated_probabilities() -> None:
    response = RandomisedResponse.of(classes=3, epsilon=1.0)
    count = 30_000
    sent = response.sample(np.ones(count, dtype=np.int64), RunKey.from_seed(6).record(0))
    observed = np.bincount(sent, minlength=3)
    expected = response.transition()[1] * count
    assert ((observed - expected) ** 2 / expected).sum() < 27.7  # chi-squared with 2 degrees: once in a million
    assert expected[1] / expected[0] == pytest.approx(math.e, rel=1e-9)


@pytest.mark.parametrize("bad", [[0, 3], [-1], [0.5], ["a"], [[0]], [True]])
def test_labels_are_whole_numbers_below_the_number_of_classes(bad: list[object]) -> None:
    with pytest.raises(DataError, match="label") as caught:
        checked_labels(bad, 3)  # type: ignore[arg-type]
    assert "a" not in str(caught.value).split("'")[1:2]


def test_one_class_is_nothing_to_hide() -> None:
    with pytest.raises(ParameterError, match="at least 2 classes"):
        RandomisedResponse.of(classes=1, epsilon=1.0)
