"""What the private sentences add to a step: one sum, for each kind of plan.

The sum is a descent direction with its sign reversed, so that every method can be handed to an optimizer as a gradient.
What it promises is measured in ``tests/unit/training/test_sensitivity.py``.
"""

from __future__ import annotations

import math
from functools import singledispatch

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sfumato.foundation.errors import ParameterError
from sfumato.foundation.randomness import RunKey
from sfumato.training import randomness
from sfumato.training.neural.batch import TextModel
from sfumato.training.neural.clipping import clipped_sum, trained
from sfumato.training.neural.data import TrainingData
from sfumato.training.neural.settings import TrainSettings
from sfumato.training.plan import PublishedPlan, TrainingPlan, UserPlan
from sfumato.training.plans import AnyPlan
from sfumato.training.unprotected import PlainPlan

Places = npt.NDArray[np.intp]


def contribution(
    plan: AnyPlan, model: TextModel, data: TrainingData, settings: TrainSettings, key: RunKey, step: int
) -> list[Tensor]:
    """Return the clipped sum of a step, without noise: it must not leave the place where the noise is added.

    The coins, and what dropout draws, follow from the key and the step.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(randomness.seed(key, step, "dropout"))
        model.train()
        model.prepare()
        return _contribution(plan, model, data, settings, key, step)


@singledispatch
def _contribution(
    plan: object, model: TextModel, data: TrainingData, settings: TrainSettings, key: RunKey, step: int
) -> list[Tensor]:
    raise ParameterError(f"a {type(plan).__name__} cannot be trained")


@_contribution.register
def _of_sentences(
    plan: TrainingPlan, model: TextModel, data: TrainingData, settings: TrainSettings, key: RunKey, step: int
) -> list[Tensor]:
    places = randomness.taking_part(key, step, slots=len(data), rate=plan.rate)
    return clipped_sum(model, data.batch.take(places), plan.clip, engine=settings.engine, chunk=settings.chunk)


@_contribution.register
def _without_clipping(
    plan: PlainPlan, model: TextModel, data: TrainingData, settings: TrainSettings, key: RunKey, step: int
) -> list[Tensor]:
    places = randomness.taking_part(key, step, slots=len(data), rate=plan.rate)
    parameters = trained(model)
    total = [torch.zeros_like(parameter) for parameter in parameters]
    for piece in data.batch.take(places).chunks(settings.chunk):
        gradients = torch.autograd.grad(model.losses(piece).sum(), parameters, allow_unused=True)
        for sum_, gradient in zip(total, gradients, strict=True):
            if gradient is not None:
                sum_ += gradient
    return total


@_contribution.register
def _of_users(
    plan: UserPlan, model: TextModel, data: TrainingData, settings: TrainSettings, key: RunKey, step: int
) -> list[Tensor]:
    users = randomness.taking_part(key, step, slots=data.user_count, rate=plan.rate, purpose="user coin")
    return _updates(plan.clip, model, data, settings, [data.slots_of(int(user)) for user in users])


@_contribution.register
def _as_published(
    plan: PublishedPlan, model: TextModel, data: TrainingData, settings: TrainSettings, key: RunKey, step: int
) -> list[Tensor]:
    """Users and entities are sampled; a user trains on its sentences that mention a sampled entity.

    With f_E+, it trains on its sentences without an entity as well.
    """
    users = randomness.taking_part(key, step, slots=data.user_count, rate=plan.rate, purpose="user coin")
    sampled = randomness.taking_part(key, step, slots=data.entity_count, rate=plan.entity_rate, purpose="entity coin")
    entities = frozenset(sampled.tolist())
    takes = [
        not entities.isdisjoint(one) if one else plan.estimator == "f_E+" for one in data.entities
    ]  # fmt: skip
    allowed = np.array(takes, dtype=bool)
    places = [slots[allowed[slots]] for slots in (data.slots_of(int(user)) for user in users)]
    return _updates(plan.clip, model, data, settings, places)


def _updates(
    clip: float, model: TextModel, data: TrainingData, settings: TrainSettings, users: list[Places]
) -> list[Tensor]:
    """Return the sum of the users' clipped updates, each from steps of its own; reversed in sign."""
    parameters = trained(model)
    start = [parameter.detach().clone() for parameter in parameters]
    total = [torch.zeros_like(parameter) for parameter in parameters]
    for places in users:
        _local_steps(model, data, settings, places)
        with torch.no_grad():
            update = [one - parameter for one, parameter in zip(start, parameters, strict=True)]
            norm = math.sqrt(sum(float(part.double().pow(2).sum()) for part in update))
            if math.isfinite(norm):
                # A little less than the norm allows, for what rounding adds.
                scale = min(1.0, clip * (1 - 1e-6) / max(norm, 1e-30))
                for sum_, part in zip(total, update, strict=True):
                    sum_.add_(part, alpha=scale)
            for parameter, one in zip(parameters, start, strict=True):
                parameter.copy_(one)
    return total


def _local_steps(model: TextModel, data: TrainingData, settings: TrainSettings, places: Places) -> None:
    batch = data.batch.take(places)
    batch = batch.take(batch.mask.any(dim=1).nonzero()[:, 0].tolist())
    parameters = trained(model)
    for _ in range(settings.local_epochs):
        for piece in batch.chunks(settings.local_batch):
            gradients = torch.autograd.grad(model.losses(piece).mean(), parameters, allow_unused=True)
            with torch.no_grad():
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    if gradient is not None:
                        parameter.sub_(gradient, alpha=settings.local_rate)
