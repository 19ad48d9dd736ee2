"""Who takes part and in which order: as the bounds assume it, and as it was published."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from sfumato.accounting.gaussian import delta_of
from sfumato.foundation.errors import ParameterError
from sfumato.foundation.randomness import RunKey, below
from sfumato.latent.amplification import secretly_sampled
from sfumato.latent.orders import mixed_order, published_order, secret_sample


def drawn(number: int) -> object:
    source = RunKey.from_seed(12).record(number)
    return lambda bound: int(below(source, np.array([bound], dtype=np.uint64))[0])


def test_drawing_until_all_have_come_up_sends_a_query_a_harmonic_number_of_times() -> None:
    queries, fictitious, runs = 30, 15, 300
    sent = [
        sum(place < queries for place in published_order(queries, fictitious, drawn(run))) / queries  # type: ignore[arg-type]
        for run in range(runs)
    ]
    harmonic = sum(1 / k for k in range(1, queries + 1))
    deviation = np.std(sent, ddof=1) / math.sqrt(runs)
    assert abs(np.mean(sent) - harmonic) < 5 * deviation
    assert harmonic > 3.9  # so each query is released about four times, each time with fresh noise


def test_the_sound_order_sends_each_query_once_in_any_order_alike() -> None:
    counts = Counter(tuple(mixed_order(2, 1, drawn(run))) for run in range(6000))  # type: ignore[arg-type]
    assert len(counts) == 6
    statistic = sum((count - 1000) ** 2 / 1000 for count in counts.values())
    assert statistic < 35.9  # chi-squared with 5 degrees: above it once in a million
    assert sorted(mixed_order(5, 7)) == list(range(12))


def test_every_sentence_is_sampled_alike_and_every_order_is() -> None:
    counts = Counter(tuple(secret_sample(4, 2, below=drawn(run))) for run in range(6000))  # type: ignore[arg-type]
    assert len(counts) == 12
    statistic = sum((count - 500) ** 2 / 500 for count in counts.values())
    assert statistic < 49.0  # chi-squared with 11 degrees: above it once in a million


@pytest.mark.parametrize("batch", [1, 7, 30, 60])
def test_with_labels_no_sentence_takes_part_more_often_than_is_counted_on(batch: int) -> None:
    labels = np.repeat([0, 1, 2], [40, 19, 1])
    for _ in range(5):
        chosen = secret_sample(60, batch, labels)
        assert len(set(chosen)) == len(chosen) <= batch
        for label, count in enumerate((40, 19, 1)):
            assert int((labels[chosen] == label).sum()) == count * batch // 60


def test_a_label_of_its_own_gives_away_who_was_sampled() -> None:
    """Why each label is sampled by itself: a sentence that is seen to take part has the noise alone to hide behind."""
    plan = secretly_sampled(epsilon=1.0, records=1000, batch=10, clip=1.0, dimension=4)
    mu = plan.noise.sensitivity / plan.noise.scale
    # The only sentence with label 1 is sampled once in a hundred times; then the server sees that it was.
    lost = 0.01 * delta_of(mu, plan.guarantee.epsilon)
    assert lost > 100 * plan.guarantee.delta
    labels = [1] + [0] * 999
    assert all(0 not in secret_sample(1000, 10, labels) for _ in range(30))


def test_what_cannot_be_sampled_is_refused() -> None:
    with pytest.raises(ParameterError, match="cannot be taken"):
        secret_sample(3, 4)
    with pytest.raises(ParameterError, match="give one for each"):
        secret_sample(3, 2, labels=[0, 1])
