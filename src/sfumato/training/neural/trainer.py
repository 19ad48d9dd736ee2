"""The trainer: for each step a sum of what the private sentences say, noise, and a public division.

Everything that leaves a step (the model after it, what held-out sentences say of it, the state of the optimizer) is
computed from the noisy sum.  How many sentences took part, their losses and their norms stay inside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sfumato.foundation.checks import require_count
from sfumato.foundation.errors import BudgetError
from sfumato.foundation.guarantee import Guarantee
from sfumato.foundation.randomness import RunKey
from sfumato.training import randomness
from sfumato.training.neural.batch import Batch, TextModel, evaluate
from sfumato.training.neural.clipping import require_true_record, trained
from sfumato.training.neural.contribution import contribution
from sfumato.training.neural.data import TrainingData
from sfumato.training.neural.settings import TrainSettings
from sfumato.training.plan import TrainingPlan
from sfumato.training.plans import AnyPlan


@dataclass(frozen=True)
class Progress:
    """What may be said after a step; none of it is private.

    How long a step took is left out: it tells how many sentences took part, and how long they were.
    """

    step: int
    steps: int
    epsilon: float
    """Spent so far."""
    held_out: float | None
    """Perplexity or share of errors on the held-out sentences."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def add_noise(total: list[Tensor], plan: AnyPlan, key: RunKey, step: int) -> list[Tensor]:
    """Return the noisy sum over the public denominator: the only thing that an optimizer is given."""
    result = []
    for part, values in enumerate(total):
        exact = values.double()
        if plan.deviation > 0:
            drawn = randomness.gaussian(key, step, part, values.numel(), plan.deviation)
            exact = exact + torch.from_numpy(drawn).view(values.shape)
        result.append((exact / plan.denominator).to(values.dtype))
    return result


class Trainer:
    """Trains a model by a plan, one step after the other, and never more steps than the plan has.

    The key is secret: whoever has it can take the noise away.  The same key, plan and data give the same model.
    """

    def __init__(
        self,
        model: TextModel,
        data: TrainingData,
        plan: AnyPlan,
        settings: TrainSettings | None = None,
        key: RunKey | None = None,
    ) -> None:
        data.require_fits(plan)
        self.settings = settings or TrainSettings()
        if isinstance(plan, TrainingPlan):
            require_true_record(model, data.batch, self.settings.engine)
        self.model = model
        self.data = data
        self.plan = plan
        self.key = key or RunKey.generate()
        self.optimizer = self.settings.make(trained(model))
        self.step = 0
        """Steps that were done."""

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the model as it is now."""
        return self.plan.guarantee(self.step).with_randomness(self.key.secure)

    def advance(self) -> None:
        """Do one step."""
        if self.step >= self.plan.steps:
            raise BudgetError(
                f"the plan has {self.plan.steps} steps and all were done; one more would pass its guarantee: "
                "make a new plan with more steps, and start again"
            )
        total = contribution(self.plan, self.model, self.data, self.settings, self.key, self.step)
        apply(self.model, self.optimizer, add_noise(total, self.plan, self.key, self.step))
        self.step += 1

    def run(
        self,
        *,
        held_out: Batch | None = None,
        every: int = 10,
        watch: Callable[[Progress], None] | None = None,
        checkpoint: Path | None = None,
    ) -> list[Progress]:
        """Do all steps that are left; look at the held-out sentences and keep a checkpoint every so many.

        The held-out sentences have no protection: what is reported of them is the truth.
        """
        from sfumato.training.neural.checkpoint import keep

        require_count(every=every)
        seen: list[Progress] = []
        while self.step < self.plan.steps:
            if checkpoint is not None and self.step == 0:
                keep(self, checkpoint)
            self.advance()
            if self.step % every and self.step < self.plan.steps:
                continue
            figure = None if held_out is None else evaluate(self.model, held_out)
            epsilon = self.plan.epsilon(self.step)
            seen.append(Progress(self.step, self.plan.steps, epsilon, figure))
            if watch is not None:
                watch(seen[-1])
            if checkpoint is not None:
                keep(self, checkpoint)
        self.model.eval()
        return seen


def apply(model: TextModel, optimizer: torch.optim.Optimizer, gradient: list[Tensor]) -> None:
    """Let the optimizer take a step with a gradient."""
    for parameter, part in zip(trained(model), gradient, strict=True):
        parameter.grad = part
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
