"""A federated run of private training: the server, and the clients that keep their sentences.

Every client reads a file of its own, ``client-<number>.csv`` with the columns ``text`` and ``user``, from the folder in
its node's configuration; the server knows the public plan and writes ``model.safetensors`` with its guarantee into the
folder of the run's configuration.  docs/training.md shows how to start it.
"""

from __future__ import annotations

from pathlib import Path

import torch
from flwr.app import Context

from sfumato.foundation.randomness import RunKey
from sfumato.policy import numbers
from sfumato.space import Space
from sfumato.training import TrainingPlan, Vocabulary, read_records
from sfumato.training.federated.client import ClientPart, client_app
from sfumato.training.federated.limits import limit_for_client
from sfumato.training.federated.server import PrivateStrategy, server_app
from sfumato.training.neural.batch import Batch
from sfumato.training.neural.data import TrainingData
from sfumato.training.neural.files import save_model
from sfumato.training.neural.lstm import LSTMConfig, LSTMModel
from sfumato.training.neural.settings import TrainSettings

CLIENTS = 3
LENGTH = 8
SPACE = Space.load("default")
WORDS = Vocabulary.of_space(SPACE, 200)
SETTINGS = TrainSettings(optimizer="sgd", learning_rate=0.5)
# The number of slots is public and agreed upon before: clients may have fewer sentences, not more in all.
PLAN = TrainingPlan(slots=60, rate=0.5, steps=2, clip=1.0, noise=4.0, per_user=3, per_entity=2, delta=1e-5)


def model() -> LSTMModel:
    """Return the public model that everybody starts from."""
    torch.manual_seed(0)
    config = LSTMConfig(vocabulary=len(WORDS), embedding=8, hidden=8, layers=1)
    return LSTMModel(LSTMConfig(**config.without_dropout()), WORDS.vectors(SPACE, 8))


def part(context: Context) -> ClientPart:
    """Return what the client of a node has."""
    client = int(context.node_config["partition-id"])
    path = Path(str(context.node_config["folder"])) / f"client-{client}.csv"
    sentences = limit_for_client(
        read_records(path, policy=numbers()),
        client,
        clients=CLIENTS,
        per_user=PLAN.per_user,
        per_entity=PLAN.per_entity,
    )
    data = TrainingData.of(sentences, Batch.of(sentences, WORDS, LENGTH))
    return ClientPart(PLAN, model(), data, SETTINGS, RunKey.generate())


def strategy(context: Context) -> PrivateStrategy:
    """Return the server's half: it adds the noise."""
    timeout = float(str(context.run_config.get("timeout", 120.0)))
    return PrivateStrategy(model(), PLAN, SETTINGS, clients=CLIENTS, timeout=timeout)


def done(finished: PrivateStrategy, context: Context) -> None:
    """Write the model with its guarantee, and how many clients took part in each step."""
    rounds = {"used": finished.rounds.used, "left_out": finished.rounds.left_out}
    save_model(
        Path(str(context.run_config["folder"])) / "model.safetensors",
        finished.model,
        guarantee=finished.guarantee,
        plan=finished.plan,
        vocabulary=WORDS,
        extra=rounds,
    )


client = client_app(part)
server = server_app(strategy, done)
