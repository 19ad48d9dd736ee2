"""The small learners: the loss is at its least, and learning does not depend on what was left out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.audit.attacks.learners import features, macro_f1, train_classifier
from sfumato.foundation.errors import ParameterError


def test_the_gradient_vanishes_where_training_ends() -> None:
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(200, 6)), rng.integers(0, 3, 200)
    model = train_classifier(rows, labels, 3, penalty=0.01)
    errors = np.exp(model.log_probabilities(rows)) - np.eye(3)[labels]
    assert np.abs(rows.T @ errors / 200 + 0.01 * model.weights).max() < 1e-4
    assert np.abs(errors.sum(axis=0) / 200).max() < 1e-4


def test_what_can_be_told_apart_is_and_probabilities_sum_to_one() -> None:
    texts, labels = ["good film", "bad film"] * 10, np.array([0, 1] * 10)
    model = train_classifier(features(texts), labels, 2)
    assert model.accuracy(features(texts), labels) == 1
    assert np.exp(model.log_probabilities(features(["unheard words"]))).sum() == pytest.approx(1)


def test_features_do_not_see_letter_case_and_pairs_see_order() -> None:
    assert (features(["A B"]) != features(["a b"])).nnz == 0
    assert (features(["a b"]) != features(["b a"])).nnz > 0
    assert (features(["a b"], pairs=False) != features(["b a"], pairs=False)).nnz == 0
    assert features(["", "a"]).shape == (2, 2**16)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=40))
def test_f1_is_that_of_the_counts(pairs: list[tuple[int, int]]) -> None:
    predicted, labels = np.array([one for one, _ in pairs]), np.array([other for _, other in pairs])
    expected = []
    for one in range(3):
        hits = sum(p == q == one for p, q in pairs)
        wrong = sum((p == one) != (q == one) for p, q in pairs)
        if hits or wrong:
            expected.append(2 * hits / (2 * hits + wrong))
    assert macro_f1(predicted, labels, 3) == pytest.approx(np.mean(expected))


def test_labels_must_fit_the_rows() -> None:
    with pytest.raises(ParameterError, match="one label for each"):
        train_classifier(np.zeros((2, 2)), np.array([0]), 2)
