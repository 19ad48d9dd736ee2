"""The server's half: adds up what the clients send, adds the noise, and divides by a public number."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import Strategy
from torch import Tensor

from sfumato.foundation.checks import gather, require_count, require_positive
from sfumato.foundation.errors import BudgetError
from sfumato.foundation.guarantee import Guarantee
from sfumato.foundation.randomness import RunKey
from sfumato.training.federated.client import ARRAYS, STEP, SUM, arrays_of
from sfumato.training.neural.batch import TextModel
from sfumato.training.neural.clipping import trained
from sfumato.training.neural.settings import TrainSettings
from sfumato.training.neural.trainer import add_noise, apply
from sfumato.training.plan import PublishedPlan, TrainingPlan, UserPlan
from sfumato.training.plans import AnyPlan


@dataclass
class Rounds:
    """What became of the clients' replies; counts only."""

    used: list[int] = field(default_factory=list)
    """Replies that were added up, by round."""
    left_out: list[int] = field(default_factory=list)
    """Replies that were missing, not finite, too large, or of another shape."""


class PrivateStrategy(Strategy):
    """A Flower strategy whose rounds are the steps of a plan.

    What comes back after a round is the model after the step; its guarantee is that of the plan, whatever clients do.
    """

    def __init__(
        self,
        model: TextModel,
        plan: AnyPlan,
        settings: TrainSettings | None = None,
        key: RunKey | None = None,
        *,
        clients: int,
        patience: float = 60.0,
        timeout: float = 600.0,
    ) -> None:
        gather(lambda: require_count(clients=clients), lambda: require_positive(patience=patience, timeout=timeout))
        self.model = model
        self.plan = plan
        self.settings = settings or TrainSettings()
        self.key = key or RunKey.generate()
        self.clients = clients
        self.patience = patience
        """Seconds to wait for all clients before the first step."""
        self.timeout = timeout
        """Seconds to wait for the replies of a step; a client that has not replied by then counts as zero."""
        self.rounds = Rounds()
        self.step = 0
        self.optimizer = self.settings.make(trained(model))

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the model as it is now."""
        return self.plan.guarantee(self.step).with_randomness(self.key.secure)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send the model and the number of the step to every client that is there."""
        if self.step >= self.plan.steps:
            raise BudgetError(f"the plan has {self.plan.steps} steps and all were done; ask for fewer rounds")
        nodes = self._nodes(grid, wait=self.step == 0)
        content = RecordDict({ARRAYS: arrays_of(self.model), STEP: ConfigRecord({"step": self.step})})
        return [Message(content=content, message_type=MessageType.TRAIN, dst_node_id=node) for node in nodes]

    def _nodes(self, grid: Grid, wait: bool) -> list[int]:
        """Return the clients that are there; before the first step, all are waited for."""
        end = time.monotonic() + self.patience
        nodes = sorted(grid.get_node_ids())
        while wait and len(nodes) < self.clients and time.monotonic() < end:
            time.sleep(0.1)
            nodes = sorted(grid.get_node_ids())
        return nodes

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Add up the replies, add the noise, and take the step; without a reply the step is noise alone."""
        total = [torch.zeros_like(parameter) for parameter in trained(self.model)]
        used = 0
        for reply in replies:
            parts = self._checked(reply, total)
            if parts is not None:
                used += 1
                for sum_, part in zip(total, parts, strict=True):
                    sum_ += part
        self.rounds.used.append(used)
        self.rounds.left_out.append(max(0, self.clients - used))
        apply(self.model, self.optimizer, add_noise(total, self.plan, self.key, self.step))
        self.step += 1
        return arrays_of(self.model), None

    def _checked(self, reply: Message, total: list[Tensor]) -> list[Tensor] | None:
        """Return a client's sum, or None where it cannot be one."""
        if reply.has_error():
            return None
        record = reply.content.get(SUM)
        if not isinstance(record, ArrayRecord) or set(record) != {str(place) for place in range(len(total))}:
            return None
        arrays = [record[str(place)].numpy() for place in range(len(total))]
        if any(array.shape != tuple(one.shape) for array, one in zip(arrays, total, strict=True)):
            return None
        squares = sum(float(np.square(array, dtype=np.float64).sum()) for array in arrays)
        if not math.isfinite(squares) or math.sqrt(squares) > self._largest() * (1 + 1e-4):
            return None
        return [torch.from_numpy(array.astype(np.float32)) for array in arrays]

    def _largest(self) -> float:
        """Return the norm that no honest client's sum passes."""
        if isinstance(self.plan, TrainingPlan):
            return self.plan.clip * self.plan.slots
        if isinstance(self.plan, (UserPlan, PublishedPlan)):
            return self.plan.clip * self.plan.users
        return math.inf

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask the clients nothing: what they would say of their sentences has no protection."""
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Return nothing; the server may measure on sentences of its own."""
        return None

    def summary(self) -> None:
        """Say nothing: the plan says it all."""


def run_rounds(grid: Grid, strategy: PrivateStrategy) -> None:
    """Do all steps of the plan."""
    strategy.start(
        grid=grid,
        initial_arrays=arrays_of(strategy.model),
        num_rounds=strategy.plan.steps,
        timeout=strategy.timeout,
    )
    strategy.model.eval()


def server_app(
    make: Callable[[Context], PrivateStrategy],
    done: Callable[[PrivateStrategy, Context], None],
) -> ServerApp:
    """Return the Flower server; ``done`` is called with the strategy after the last step, to save the model."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        strategy = make(context)
        run_rounds(grid, strategy)
        done(strategy, context)

    return app
