"""Runs: repeatable, interruptible, never longer than the plan, and a model file that carries its guarantee."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'training' is not installed")

from sfumato.foundation.errors import BudgetError, DataError  # noqa: E402
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
from sfumato.training.neural import checkpoint, files  # noqa: E402
from sfumato.training.neural.batch import Batch, evaluate  # noqa: E402
from sfumato.training.neural.data import TrainingData  # noqa: E402
from sfumato.training.neural.lstm import LSTMConfig, LSTMModel  # noqa: E402
from sfumato.training.neural.settings import TrainSettings  # noqa: E402
from sfumato.training.neural.trainer import Trainer, add_noise  # noqa: E402
from sfumato.training.plans import AnyPlan  # noqa: E402
from sfumato.training.randomness import gaussian, taking_part  # noqa: E402

WORDS = Vocabulary(tuple(f"w{number}" for number in range(12)))


def made_up(count: int = 40) -> list[Sentence]:
    """Sentences with a pattern that can be learned: a word is followed by the next one."""
    return [
        Sentence(f"u{n % 10}", tuple(f"w{(n + k) % 12}" for k in range(5)), frozenset({f"e{n}"}), n % 2)
        for n in range(count)
    ]


def data() -> TrainingData:
    made = made_up()
    kept = limit_incidence(made, per_user=4, per_entity=1).of(made)
    return TrainingData.of(kept, Batch.of(kept, WORDS, 6))


def model(classes: int = 0, dropout_hidden: float = 0.2) -> LSTMModel:
    torch.manual_seed(0)
    return LSTMModel(
        LSTMConfig(
            vocabulary=len(WORDS), embedding=8, hidden=8, layers=1, classes=classes, dropout_output=0.2,
            dropout_hidden=dropout_hidden, dropout_input=0.2, dropout_words=0.1, dropout_weights=0.2,
        )
    )  # fmt: skip


def plan(**changes: float) -> TrainingPlan:
    values = {
        "slots": 40,
        "rate": 0.5,
        "steps": 6,
        "clip": 1.0,
        "noise": 0.7,
        "per_user": 4,
        "per_entity": 1,
        "delta": 1e-5,
    }
    return TrainingPlan(**{**values, **changes})  # type: ignore[arg-type]


PLANS: dict[str, AnyPlan] = {
    "uedp": plan(),
    "user": UserPlan(users=10, rate=0.5, steps=3, clip=0.5, noise=1.0, delta=1e-5),
    "published": PublishedPlan(
        users=10, rate=0.5, steps=3, clip=0.5, noise=1.0, delta=1e-5, entity_rate=0.5, sensitive=40, sentences=40,
        allow_unsound=True,
    ),
    "none": PlainPlan(slots=40, rate=0.5, steps=3),
}  # fmt: skip


def weights(trainer: Trainer) -> torch.Tensor:
    return torch.cat([parameter.detach().reshape(-1) for parameter in trainer.model.parameters()])


@pytest.mark.parametrize("name", PLANS)
def test_the_same_key_gives_the_same_model_and_another_key_another(name: str) -> None:
    ends = []
    for seed in (1, 1, 2):
        trainer = Trainer(model(), data(), PLANS[name], key=RunKey.from_seed(seed))
        trainer.run(every=10)
        ends.append(weights(trainer))
    assert torch.equal(ends[0], ends[1])
    assert not torch.allclose(ends[0], ends[2])


def test_without_noise_the_pattern_is_learned() -> None:
    trainer = Trainer(
        model(), data(), PlainPlan(slots=40, rate=1.0, steps=80), TrainSettings(learning_rate=0.03), RunKey.from_seed(1)
    )
    before = evaluate(trainer.model, data().batch)
    seen = trainer.run(held_out=data().batch, every=80)
    assert seen[-1].held_out is not None
    assert seen[-1].held_out < 3 < 10 < before


def test_the_noise_on_the_sum_has_the_deviation_of_the_plan_and_the_denominator_is_public() -> None:
    one = plan(noise=3.0, clip=0.5)
    zeros = [torch.zeros(200, 100), torch.zeros(7)]
    noisy = add_noise(zeros, one, RunKey.from_seed(4), 2)
    values = noisy[0].numpy() * one.denominator
    assert one.denominator == 20.0
    # The standard deviation of 20,000 draws is within 5 standard errors but for a chance of 6e-7.
    assert abs(values.std() / 1.5 - 1) < 5 / np.sqrt(2 * values.size)
    assert not np.allclose(noisy[0][0, :7].numpy(), noisy[1].numpy()), "each part has noise of its own"
    assert not torch.equal(noisy[0], add_noise(zeros, one, RunKey.from_seed(4), 3)[0]), "and each step"
    assert torch.equal(add_noise(zeros, PlainPlan(slots=4, rate=0.5, steps=1), RunKey.from_seed(4), 2)[0], zeros[0])


def test_noise_is_normal_and_coins_have_their_rate() -> None:
    from scipy import stats

    drawn = gaussian(RunKey.from_seed(9), 0, 0, 20_000, 1.0)
    assert stats.kstest(drawn, "norm").pvalue > 1e-6
    taken = [len(taking_part(RunKey.from_seed(9), step, slots=1000, rate=0.03)) for step in range(40)]
    assert abs(sum(taken) - 1200) < 5 * np.sqrt(40_000 * 0.03 * 0.97)
    assert len(set(taken)) > 10, "the number that takes part is itself random"
    assert len(taking_part(RunKey.from_seed(9), 0, slots=10, rate=1.0)) == 10


def test_no_step_beyond_the_plan() -> None:
    trainer = Trainer(model(), data(), plan(steps=2), key=RunKey.from_seed(1))
    trainer.run()
    with pytest.raises(BudgetError, match="2 steps"):
        trainer.advance()


def test_a_run_that_is_cut_to_a_budget_stays_within_it() -> None:
    short = plan(steps=50).within(plan(steps=3).epsilon() + 1e-6)
    trainer = Trainer(model(), data(), short, key=RunKey.from_seed(1))
    seen = trainer.run(every=1)
    assert len(seen) == short.steps < 50
    assert [one.epsilon for one in seen] == sorted(one.epsilon for one in seen)
    assert seen[-1].epsilon <= plan(steps=3).epsilon() + 1e-6


@pytest.mark.parametrize("name", ["uedp", "user"])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_run_that_goes_on_from_a_checkpoint_is_the_same_release(name: str, optimizer: str, tmp_path: Path) -> None:
    settings = TrainSettings(optimizer=optimizer, momentum=0.5)
    whole = Trainer(model(), data(), PLANS[name], settings, RunKey.from_seed(1))
    whole.run()
    first = Trainer(model(), data(), PLANS[name], settings, RunKey.from_seed(1))
    checkpoint.keep(first, tmp_path)
    first.advance()
    checkpoint.keep(first, tmp_path)
    first.advance()  # lost: the machine stops here
    key = checkpoint.known_key(tmp_path)
    assert key is not None
    second = Trainer(model(), data(), PLANS[name], settings, key)
    checkpoint.restore(second, tmp_path)
    assert second.step == 1
    second.run()
    assert torch.allclose(weights(whole), weights(second), atol=1e-6)
    assert second.guarantee == whole.guarantee


def test_a_checkpoint_does_not_lend_its_noise_to_anything_else(tmp_path: Path) -> None:
    first = Trainer(model(), data(), plan(), key=RunKey.from_seed(1))
    first.advance()
    checkpoint.keep(first, tmp_path)
    others = {
        "plan": Trainer(model(), data(), plan(clip=2.0), key=RunKey.from_seed(1)),
        "settings": Trainer(model(), data(), plan(), TrainSettings(learning_rate=1.0), RunKey.from_seed(1)),
        "model": Trainer(model(dropout_hidden=0.5), data(), plan(), key=RunKey.from_seed(1)),
        "key": Trainer(model(), data(), plan(), key=RunKey.from_seed(2)),
        "sentences": Trainer(model(), data().emptied(3), plan(), key=RunKey.from_seed(1)),
    }
    for other in others.values():
        with pytest.raises(DataError, match="second time"):
            checkpoint.restore(other, tmp_path)


def test_the_key_is_for_its_owner_only_and_is_forgotten(tmp_path: Path) -> None:
    trainer = Trainer(model(), data(), plan(), key=RunKey.generate())
    checkpoint.keep(trainer, tmp_path)
    file = tmp_path / "secret.key"
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert checkpoint.known_key(tmp_path) == trainer.key
    assert trainer.key.secret not in (tmp_path / "checkpoint.safetensors").read_bytes()
    checkpoint.forget_key(tmp_path)
    assert checkpoint.known_key(tmp_path) is None


def test_the_model_file_carries_the_guarantee(tmp_path: Path) -> None:
    trainer = Trainer(model(), data(), plan(), key=RunKey.generate())
    trainer.run()
    path = tmp_path / "model.safetensors"
    files.save_model(path, trainer.model, guarantee=trainer.guarantee, plan=trainer.plan, vocabulary=WORDS)
    found = files.load_model(path)
    assert found.guarantee == trainer.guarantee == plan().guarantee()
    assert found.plan == plan()
    assert found.vocabulary == WORDS
    assert evaluate(found.model, data().batch) == pytest.approx(evaluate(trainer.model, data().batch))
    with pytest.raises(DataError, match="not a model file"):
        files.read_note(__file__)


def test_a_seeded_run_says_that_it_is_not_secure_and_a_published_one_that_it_is_unsound() -> None:
    assert not Trainer(model(), data(), plan(), key=RunKey.from_seed(1)).guarantee.secure
    assert Trainer(model(), data(), plan()).guarantee.secure
    trainer = Trainer(model(), data(), PLANS["published"])
    trainer.run()
    assert not trainer.guarantee.sound


def test_progress_says_nothing_of_the_private_sentences() -> None:
    """Neither how many took part, nor their loss, nor how long it took."""
    seen = Trainer(model(), data(), plan(), key=RunKey.from_seed(1)).run(every=2)
    assert set(json.loads(json.dumps(seen[0].to_json()))) == {"step", "steps", "epsilon", "held_out"}


def test_a_classifier_learns_its_classes() -> None:
    trainer = Trainer(
        model(classes=2), data(), PlainPlan(slots=40, rate=1.0, steps=60), TrainSettings(learning_rate=0.03),
        RunKey.from_seed(1),
    )  # fmt: skip
    trainer.run()
    assert evaluate(trainer.model, data().batch) < 0.1
