"""How a model is trained, apart from what the guarantee depends on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from sfumato.foundation.checks import gather, require_count, require_non_negative, require_one_of, require_positive
from sfumato.training.neural.clipping import ENGINES

OPTIMIZERS = ("adam", "sgd")


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Public choices.

    What an optimizer does with a noisy sum is post-processing: none of these changes the guarantee.
    """

    optimizer: str = "adam"
    learning_rate: float = 5e-3
    momentum: float = 0.0
    """Of ``sgd``."""
    local_rate: float = 0.5
    """Learning rate of a user's own steps, for the methods that average users' updates."""
    local_epochs: int = 1
    local_batch: int = 8
    engine: str = "auto"
    """How per-sentence gradients are found."""
    chunk: int = 128
    """Sentences at a time: memory only."""

    def __post_init__(self) -> None:
        """Check all fields at once."""
        gather(
            lambda: require_one_of(OPTIMIZERS, optimizer=self.optimizer),
            lambda: require_one_of(ENGINES, engine=self.engine),
            lambda: require_positive(learning_rate=self.learning_rate, local_rate=self.local_rate),
            lambda: require_non_negative(momentum=self.momentum),
            lambda: require_count(local_epochs=self.local_epochs, local_batch=self.local_batch, chunk=self.chunk),
        )

    def make(self, parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
        """Return the optimizer."""
        if self.optimizer == "sgd":
            return torch.optim.SGD(parameters, lr=self.learning_rate, momentum=self.momentum)
        return torch.optim.Adam(parameters, lr=self.learning_rate)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)
