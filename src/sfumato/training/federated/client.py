"""The client's half: a clipped sum over its own sentences, and nothing else, leaves it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from sfumato.foundation.errors import ParameterError
from sfumato.foundation.randomness import RunKey
from sfumato.training.neural.batch import TextModel
from sfumato.training.neural.clipping import require_true_record, trained
from sfumato.training.neural.contribution import contribution
from sfumato.training.neural.data import TrainingData
from sfumato.training.neural.settings import TrainSettings
from sfumato.training.plan import TrainingPlan
from sfumato.training.plans import AnyPlan

ARRAYS, STEP, SUM = "arrays", "step", "sum"


@dataclass(frozen=True, repr=False)
class ClientPart:
    """What a client has: its sentences, the public plan and model, and a key of its own that never leaves it."""

    plan: AnyPlan
    model: TextModel
    data: TrainingData
    settings: TrainSettings
    key: RunKey

    def __post_init__(self) -> None:
        """Check that the sentences are within the plan's limits, and that their gradients can be told apart."""
        self.data.require_fits(self.plan, part=True)
        if isinstance(self.plan, TrainingPlan):
            require_true_record(self.model, self.data.batch, self.settings.engine)


def client_app(make: Callable[[Context], ClientPart]) -> ClientApp:
    """Return the Flower client; ``make`` is called once in a process, with the node's configuration."""
    app = ClientApp()
    parts: dict[int, ClientPart] = {}

    @app.train()
    def step(message: Message, context: Context) -> Message:
        number = int(context.node_config.get("partition-id", context.node_id))
        if number not in parts:
            parts[number] = make(context)
        return Message(answer(parts[number], message.content), reply_to=message)

    return app


def answer(part: ClientPart, content: RecordDict) -> RecordDict:
    """Return a client's clipped sum for the model and the step it was sent."""
    arrays, config = content[ARRAYS], content[STEP]
    if not isinstance(arrays, ArrayRecord) or not isinstance(config, ConfigRecord):
        raise ParameterError("a message holds the model's arrays and the number of the step")
    put(part.model, arrays)
    total = contribution(part.plan, part.model, part.data, part.settings, part.key, int(str(config["step"])))
    return RecordDict({SUM: ArrayRecord({str(place): Array(one.numpy()) for place, one in enumerate(total)})})


def arrays_of(model: TextModel) -> ArrayRecord:
    """Return the trained parameters of a model; what is frozen is public and everybody has it."""
    return ArrayRecord(
        {str(place): Array(one.detach().numpy().astype(np.float32)) for place, one in enumerate(trained(model))}
    )


def put(model: TextModel, arrays: ArrayRecord) -> None:
    """Put arrays into a model's trained parameters."""
    parameters = trained(model)
    if len(arrays) != len(parameters):
        raise ParameterError(f"the model has {len(parameters)} trained parameters, the message {len(arrays)}")
    with torch.no_grad():
        for place, parameter in enumerate(parameters):
            parameter.copy_(torch.from_numpy(arrays[str(place)].numpy().copy()).view(parameter.shape))
