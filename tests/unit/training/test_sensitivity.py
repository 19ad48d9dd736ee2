"""What one user and one entity can change, measured over random cases."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'training' is not installed")

from sfumato.foundation.errors import ParameterError  # noqa: E402
from sfumato.foundation.randomness import RunKey  # noqa: E402
from sfumato.training import (  # noqa: E402
    PlainPlan,
    PublishedPlan,
    Sentence,
    TrainingPlan,
    UserPlan,
    Vocabulary,
    limit_incidence,
)
from sfumato.training.neural.batch import Batch  # noqa: E402
from sfumato.training.neural.contribution import contribution  # noqa: E402
from sfumato.training.neural.data import TrainingData  # noqa: E402
from sfumato.training.neural.lstm import LSTMConfig, LSTMModel  # noqa: E402
from sfumato.training.neural.settings import TrainSettings  # noqa: E402
from sfumato.training.randomness import taking_part  # noqa: E402

WORDS = Vocabulary(tuple(f"w{number}" for number in range(25)))
CLIP = 0.05
NAMES = ("output", "hidden", "input", "words", "weights")


def sentences(rng: np.random.Generator, count: int = 24) -> list[Sentence]:
    result = []
    for _ in range(count):
        tokens = tuple(f"w{number}" for number in rng.integers(0, 25, int(rng.integers(1, 6))))
        mentions = frozenset(f"e{number}" for number in rng.integers(0, 6, int(rng.integers(0, 3))))
        result.append(Sentence(f"u{rng.integers(0, 7)}", tokens, mentions, int(rng.integers(0, 3))))
    return result


def model(classes: int, dropout: float) -> LSTMModel:
    torch.manual_seed(3)
    return LSTMModel(
        LSTMConfig(
            vocabulary=len(WORDS), embedding=5, hidden=6, layers=2, classes=classes,
            **{f"dropout_{name}": dropout for name in NAMES},
        )
    )  # fmt: skip


def distance(one: list[torch.Tensor], other: list[torch.Tensor]) -> float:
    return math.sqrt(sum(float((a - b).double().pow(2).sum()) for a, b in zip(one, other, strict=True)))


@pytest.mark.parametrize(("classes", "dropout", "engine"), [(0, 0.0, "auto"), (3, 0.0, "single"), (3, 0.4, "auto")])
def test_emptying_a_user_and_an_entity_changes_the_sum_by_no_more_than_the_plan_claims(
    classes: int, dropout: float, engine: str
) -> None:
    rng = np.random.default_rng(5)
    largest = 0.0
    network = model(classes, dropout)
    settings = TrainSettings(engine=engine)
    for case in range(12):
        per_user, per_entity = int(rng.integers(1, 5)), int(rng.integers(1, 5))
        made = sentences(rng)
        limited = limit_incidence(made, per_user=per_user, per_entity=per_entity)
        kept = limited.of(made)
        data = TrainingData.of(kept, Batch.of(kept, WORDS, 7))
        plan = TrainingPlan(
            slots=len(kept), rate=0.7, steps=9, clip=CLIP, noise=1.0, per_user=per_user, per_entity=per_entity,
            delta=1e-5,
        )  # fmt: skip
        data.require_fits(plan)
        user, entity = int(rng.integers(0, data.user_count)), int(rng.integers(0, max(1, data.entity_count)))
        key = RunKey.from_seed(case)
        full = contribution(plan, network, data, settings, key, 0)
        less = contribution(plan, network, data.emptied(user, entity), settings, key, 0)
        touched = {place for place in range(len(data)) if data.users[place] == user or entity in data.entities[place]}
        taking = touched & set(taking_part(key, 0, slots=len(data), rate=plan.rate).tolist())
        assert len(touched) <= plan.group
        assert distance(full, less) <= CLIP * len(taking) * (1 + 1e-5) + 1e-7
        largest = max(largest, distance(full, less) / CLIP)
    assert largest > 1, "the cases must be able to fail: some must change the sum by more than one clipped gradient"


def test_which_sentences_are_kept_does_not_depend_on_the_words_of_a_user_and_an_entity() -> None:
    rng = np.random.default_rng(6)
    for _ in range(20):
        made = sentences(rng)
        other = [
            Sentence(one.user, () if one.user == "u1" or "e2" in one.entities else one.tokens, one.entities)
            for one in made
        ]
        limits = {"per_user": 2, "per_entity": 2}
        assert limit_incidence(made, **limits) == limit_incidence(other, **limits)


def test_a_user_changes_the_sum_of_updates_by_no_more_than_the_norm() -> None:
    made = sentences(np.random.default_rng(7), 12)
    data = TrainingData.of(made, Batch.of(made, WORDS, 7))
    plan = UserPlan(users=data.user_count, rate=1.0, steps=3, clip=CLIP, noise=1.0, delta=1e-5)
    settings = TrainSettings(local_rate=5.0, local_batch=2)
    full = contribution(plan, model(0, 0.0), data, settings, RunKey.from_seed(1), 0)
    changes = [
        distance(full, contribution(plan, model(0, 0.0), data.emptied(user), settings, RunKey.from_seed(1), 0))
        for user in range(data.user_count)
    ]
    assert max(changes) <= CLIP * (1 + 1e-5)
    assert max(changes) > 0.9 * CLIP


def test_one_entity_changes_the_published_sum_by_more_than_the_published_noise_is_fitted_to() -> None:
    """The released analysis takes one entity's change for one clipping norm; every user who mentions it moves."""
    made = [Sentence(f"u{n}", (f"w{n % 25}", "w3"), frozenset({"everywhere"})) for n in range(12)]
    data = TrainingData.of(made, Batch.of(made, WORDS, 7))
    plan = PublishedPlan(
        rate=1.0, steps=1, clip=CLIP, noise=2.0, delta=1e-5, users=12, entity_rate=1.0, sensitive=12, sentences=12,
        estimator="f_E", allow_unsound=True,
    )  # fmt: skip
    settings = TrainSettings(local_rate=5.0)
    full = contribution(plan, model(0, 0.0), data, settings, RunKey.from_seed(1), 0)
    less = contribution(plan, model(0, 0.0), data.emptied(None, 0), settings, RunKey.from_seed(1), 0)
    assert distance(full, less) > 5 * CLIP


def test_data_that_a_plan_does_not_speak_of_are_refused() -> None:
    made = [Sentence("u", ("w1",), frozenset({"e"})) for _ in range(4)]
    data = TrainingData.of(made, Batch.of(made, WORDS, 7))
    plan = TrainingPlan(slots=5, rate=0.5, steps=1, clip=1.0, noise=1.0, per_user=3, per_entity=2, delta=1e-5)
    with pytest.raises(ParameterError, match=r"5 slots.*4 sentences, the plan allows 3.*allows 2"):
        data.require_fits(plan)
    with pytest.raises(ParameterError, match="9 users"):
        data.require_fits(UserPlan(users=9, rate=0.5, steps=1, clip=1.0, noise=1.0, delta=1e-5))
    data.require_fits(PlainPlan(slots=4, rate=0.5, steps=1))
