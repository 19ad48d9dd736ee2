"""One task, several methods: what each of them costs in perplexity or errors.

Every method starts from the same public model, trains on the same sentences (or on what limits leave of them) and is
measured on the same held-out sentences.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sfumato.foundation.errors import ParameterError
from sfumato.foundation.randomness import RunKey
from sfumato.training.incidence import limit_incidence
from sfumato.training.neural.batch import Batch, evaluate
from sfumato.training.neural.data import TrainingData
from sfumato.training.neural.lstm import LSTMConfig, LSTMModel
from sfumato.training.neural.settings import TrainSettings
from sfumato.training.neural.trainer import Trainer
from sfumato.training.plan import PublishedPlan, TrainingPlan, UserPlan
from sfumato.training.plans import AnyPlan
from sfumato.training.sentences import Sentence, masked
from sfumato.training.unprotected import PlainPlan
from sfumato.training.vocabulary import Vocabulary


@dataclass(frozen=True, repr=False)
class Task:
    """Private sentences, held-out ones, and the public model that all methods start from."""

    sentences: Sequence[Sentence]
    held_out: Sequence[Sentence]
    vocabulary: Vocabulary
    config: LSTMConfig
    length: int
    """Words of a sentence that are used."""
    vectors: npt.NDArray[np.float32] | None = None
    start: dict[str, Tensor] = field(default_factory=dict)

    def model(self) -> LSTMModel:
        """Return the public model."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = LSTMModel(self.config, self.vectors)
        if self.start:
            model.load_state_dict(self.start)
        return model

    def data(self, sentences: Sequence[Sentence]) -> TrainingData:
        """Return sentences as training data."""
        return TrainingData.of(sentences, Batch.of(sentences, self.vocabulary, self.length))

    @cached_property
    def held_out_batch(self) -> Batch:
        """The held-out sentences as a batch."""
        return Batch.of(self.held_out, self.vocabulary, self.length)

    def started_on(self, public: Sequence[Sentence], *, steps: int, rate: float, settings: TrainSettings) -> Task:
        """Return this task with a model that was trained on public sentences first."""
        data, model = self.data(public), self.model()
        trainer = Trainer(
            model, data, PlainPlan(slots=len(data), rate=rate, steps=steps), settings, RunKey.from_seed(0)
        )
        trainer.run(every=steps)
        return replace(self, start=model.state_dict())


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much each method may do."""

    steps: int = 60
    rate: float = 0.1
    delta: float = 1e-5
    per_user: int = 2
    per_entity: int = 2
    clip: float = 0.5
    user_clip: float = 0.5
    user_sentences: int = 4
    """Sentences of a user that the methods of users train on: a public cap, for speed."""
    published_noise: float = 2.0
    published_steps: int = 50
    published_rate: float = 0.05
    user_rate: float = 0.05
    settings: TrainSettings = field(default_factory=TrainSettings)
    plain_settings: TrainSettings = field(default_factory=TrainSettings)
    """Without clipping, steps of another size are best."""
    user_settings: TrainSettings = field(default_factory=TrainSettings)
    published_settings: TrainSettings = field(default_factory=TrainSettings)
    """Noise as the paper states it drowns all but the smallest steps."""


@dataclass(frozen=True, repr=False)
class Prepared:
    """A plan, and the sentences that it is for."""

    plan: AnyPlan
    sentences: Sequence[Sentence]
    settings: TrainSettings


def _uedp(task: Task, effort: Effort, epsilon: float) -> Prepared:
    limited = limit_incidence(task.sentences, per_user=effort.per_user, per_entity=effort.per_entity)
    plan = _calibrated(
        epsilon, effort.delta, len(limited.kept), effort.rate, effort.steps, effort.clip, effort.per_user,
        effort.per_entity,
    )  # fmt: skip
    return Prepared(plan, limited.of(task.sentences), effort.settings)


@lru_cache(maxsize=64)
def _calibrated(
    epsilon: float, delta: float, slots: int, rate: float, steps: int, clip: float, per_user: int, per_entity: int
) -> TrainingPlan:
    return TrainingPlan.calibrate(
        epsilon=epsilon, delta=delta, slots=slots, rate=rate, steps=steps, clip=clip, per_user=per_user,
        per_entity=per_entity,
    )  # fmt: skip


def _capped(task: Task, effort: Effort) -> list[Sentence]:
    unlimited = max(1, len(task.sentences))
    return limit_incidence(task.sentences, per_user=effort.user_sentences, per_entity=unlimited).of(task.sentences)


def _user(task: Task, effort: Effort, epsilon: float) -> Prepared:
    kept = _capped(task, effort)
    users = len({sentence.user for sentence in kept})
    plan = UserPlan.calibrate(
        epsilon=epsilon,
        delta=effort.delta,
        users=users,
        rate=effort.user_rate,
        steps=effort.steps,
        clip=effort.user_clip,
    )
    return Prepared(plan, kept, effort.user_settings)


def _published(task: Task, effort: Effort, estimator: str, released: bool) -> Prepared:
    kept = _capped(task, effort)
    plan = PublishedPlan(
        rate=effort.published_rate,
        steps=effort.published_steps,
        clip=effort.user_clip,
        noise=effort.published_noise,
        delta=effort.delta,
        users=len({sentence.user for sentence in kept}),
        entity_rate=0.5,
        sensitive=sum(bool(sentence.entities) for sentence in kept),
        sentences=len(kept),
        estimator=estimator,
        released_noise=released,
        allow_unsound=True,
    )
    return Prepared(plan, kept, effort.user_settings if released else effort.published_settings)


def _plain(task: Task, effort: Effort, hidden: bool, limit: bool = False) -> Prepared:
    sentences = list(task.sentences)
    if limit:
        sentences = limit_incidence(sentences, per_user=effort.per_user, per_entity=effort.per_entity).of(sentences)
    if hidden:
        sentences = [masked(sentence) for sentence in sentences]
    # As many sentences in a step as the private method expects, so that all methods cost about the same time.
    expected = effort.rate * len(
        limit_incidence(task.sentences, per_user=effort.per_user, per_entity=effort.per_entity).kept
    )
    rate = min(1.0, expected / len(sentences))
    plan = PlainPlan(slots=len(sentences), rate=rate, steps=effort.steps, masked=hidden)
    return Prepared(plan, sentences, effort.plain_settings)


_METHODS: dict[str, Callable[[Task, Effort, float], Prepared]] = {
    "uedp": _uedp,
    "user": _user,
    "as published, f_E": lambda task, effort, _: _published(task, effort, "f_E", False),
    "as published, f_E+": lambda task, effort, _: _published(task, effort, "f_E+", False),
    "as released, f_E": lambda task, effort, _: _published(task, effort, "f_E", True),
    "as released, f_E+": lambda task, effort, _: _published(task, effort, "f_E+", True),
    "masked": lambda task, effort, _: _plain(task, effort, True),
    "none": lambda task, effort, _: _plain(task, effort, False),
    "none, same sentences": lambda task, effort, _: _plain(task, effort, False, limit=True),
}
METHODS = tuple(_METHODS)
CALIBRATED = ("uedp", "user")
"""Methods that take an epsilon."""


def prepare(task: Task, method: str, effort: Effort, epsilon: float = 0.0) -> Prepared:
    """Return the plan of a method and the sentences that it trains on."""
    if method not in _METHODS:
        raise ParameterError(f"method must be one of {'; '.join(METHODS)}")
    if method in CALIBRATED and not epsilon > 0:
        raise ParameterError(f"the method {method!r} needs an epsilon greater than 0")
    return _METHODS[method](task, effort, epsilon)


def train(task: Task, prepared: Prepared, seed: int) -> LSTMModel:
    """Return the model that a method trains; the seed makes an experiment repeatable and its noise no secret."""
    model = task.model()
    trainer = Trainer(model, task.data(prepared.sentences), prepared.plan, prepared.settings, RunKey.from_seed(seed))
    while trainer.step < prepared.plan.steps:
        trainer.advance()
    return model.eval()


def measure(task: Task, method: str, effort: Effort, *, seed: int, epsilon: float = 0.0) -> dict[str, Any]:
    """Train by a method and return its figure on the held-out sentences, with what it promises."""
    prepared = prepare(task, method, effort, epsilon)
    begin = time.monotonic()
    model = train(task, prepared, seed)
    guarantee = prepared.plan.guarantee()
    return {
        "method": method,
        "seed": seed,
        "epsilon": epsilon if method in CALIBRATED else None,
        "claimed": guarantee.to_json().get("epsilon"),
        "sound": guarantee.sound,
        "figure": evaluate(model, task.held_out_batch),
        "plan": prepared.plan.to_json(),
        "sentences": len(prepared.sentences),
        "seconds": round(time.monotonic() - begin, 1),
    }
