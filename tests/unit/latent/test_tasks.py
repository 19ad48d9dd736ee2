"""Tasks from end to end: sentences, and pairs of them."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra 'torch' is not installed")

from sfumato.foundation.errors import DataError
from sfumato.latent.calibration import release_once
from sfumato.latent.encoders import WordMeanEncoder
from sfumato.latent.labels import RandomisedResponse
from sfumato.latent.tasks import Examples, run_task
from sfumato.space import Space

DRAWS = np.random.default_rng(9)
GOOD, BAD, REST = ("good", "warm", "fine"), ("bad", "cold", "dull"), ("the", "film", "was")


@pytest.fixture(scope="module")
def encoder() -> WordMeanEncoder:
    centres = {**dict.fromkeys(GOOD, 3.0), **dict.fromkeys(BAD, -3.0), **dict.fromkeys(REST, 0.0)}
    words = sorted(centres)
    vectors = np.array([[centres[word], 0.1 * place] for place, word in enumerate(words)])
    return WordMeanEncoder(Space.from_arrays(words, vectors))


def sentences(count: int) -> tuple[list[str], list[int]]:
    labels = DRAWS.integers(2, size=count)
    texts = [f"the film was {DRAWS.choice(GOOD if one else BAD)}, {DRAWS.choice(REST)}" for one in labels]
    return texts, labels.tolist()


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_classification(encoder: WordMeanEncoder, kind: str) -> None:
    train, test = (Examples.of_texts(encoder, *sentences(count)) for count in (1200, 400))
    plan = release_once(epsilon=8.0, clip=0.5, dimension=2)
    result = run_task(train, test, plan, classes=2, kind=kind)
    # The noise on the telling direction is 2 C / mu with mu = 1.62 or so, so that about 4 of 5 queries come out right.
    assert 0.68 < result.accuracy < 0.9
    assert result.local_accuracy > 0.97
    assert 0.5 <= result.majority < 0.6
    assert result.epsilon <= 8.0
    assert "Telling two neighbouring inputs apart" in result.statement
    assert "NOT SECURE" not in result.statement
    assert json.loads(json.dumps(result.to_json()))["delta"] == 1e-5


def test_pairs_are_one_record(encoder: WordMeanEncoder) -> None:
    def pairs(count: int) -> Examples:
        (first, one), (second, other) = sentences(count), sentences(count)
        return Examples.of_pairs(encoder, first, second, [int(a == b) for a, b in zip(one, other, strict=True)])

    train, test = pairs(3000), pairs(600)
    plan = release_once(epsilon=60.0, clip=1.0, dimension=4)
    assert run_task(train, test, plan, classes=2, pairs=True, seed=1).accuracy > 0.85
    assert run_task(train, test, plan, classes=2, pairs=False, seed=1).accuracy < 0.65


def test_less_epsilon_means_less_accuracy_and_labels_can_lie(encoder: WordMeanEncoder) -> None:
    train, test = (Examples.of_texts(encoder, *sentences(count)) for count in (2000, 1000))
    scores = [
        run_task(train, test, release_once(epsilon=epsilon, clip=0.5, dimension=2), classes=2, seed=4).accuracy
        for epsilon in (0.5, 5.0, 50.0)
    ]
    assert scores[0] < scores[1] < scores[2]
    plan = release_once(epsilon=50.0, clip=0.5, dimension=2)
    lying = run_task(train, test, plan, classes=2, labels=RandomisedResponse.of(classes=2, epsilon=1.0), seed=4)
    assert lying.accuracy > 0.9
    assert "Labels: " in lying.statement
    assert lying.statement.count("NOT SECURE") == 2


def test_examples_have_a_label_each() -> None:
    with pytest.raises(DataError, match="2 vectors and 1 labels"):
        Examples(np.zeros((2, 3)), np.zeros(1, dtype=np.int64))
