"""The federated halves: the same sum as on one machine, whatever clients send."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import pytest

torch = pytest.importorskip("torch", reason="the extra 'training' is not installed")
pytest.importorskip("flwr", reason="the extra 'federated' is not installed")

import numpy as np  # noqa: E402
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict  # noqa: E402

from sfumato.foundation.errors import BudgetError, ParameterError  # noqa: E402
from sfumato.foundation.randomness import RunKey  # noqa: E402
from sfumato.training import Sentence, TrainingPlan, UserPlan, Vocabulary  # noqa: E402
from sfumato.training.federated.client import ARRAYS, STEP, SUM, ClientPart, answer, arrays_of  # noqa: E402
from sfumato.training.federated.limits import limit_for_client, share_of_entity  # noqa: E402
from sfumato.training.federated.server import PrivateStrategy  # noqa: E402
from sfumato.training.neural.batch import Batch  # noqa: E402
from sfumato.training.neural.clipping import clipped_sum, trained  # noqa: E402
from sfumato.training.neural.data import TrainingData  # noqa: E402
from sfumato.training.neural.lstm import LSTMConfig, LSTMModel  # noqa: E402
from sfumato.training.neural.settings import TrainSettings  # noqa: E402
from sfumato.training.neural.trainer import add_noise, apply  # noqa: E402
from sfumato.training.plans import AnyPlan  # noqa: E402

WORDS = Vocabulary(tuple(f"w{number}" for number in range(12)))
CLIENTS = 3
SETTINGS = TrainSettings(optimizer="sgd", learning_rate=0.5)
PLAN = TrainingPlan(slots=60, rate=1.0, steps=3, clip=0.05, noise=2.0, per_user=4, per_entity=3, delta=1e-5)


def model() -> LSTMModel:
    torch.manual_seed(0)
    config = LSTMConfig(vocabulary=len(WORDS), embedding=6, hidden=6, layers=1)
    return LSTMModel(LSTMConfig(**config.without_dropout()))


def sentences(client: int) -> list[Sentence]:
    return [
        Sentence(f"u{client}-{n % 5}", tuple(f"w{(n + k) % 12}" for k in range(4)), frozenset({f"e{n % 4}"}))
        for n in range(20)
    ]


def kept(client: int) -> list[Sentence]:
    limits = {"clients": CLIENTS, "per_user": PLAN.per_user, "per_entity": PLAN.per_entity}
    return limit_for_client(sentences(client), client, **limits)


def part(client: int, plan: AnyPlan = PLAN) -> ClientPart:
    data = TrainingData.of(kept(client), Batch.of(kept(client), WORDS, 5))
    return ClientPart(plan, model(), data, SETTINGS, RunKey.from_seed(50 + client))


def strategy(plan: AnyPlan = PLAN) -> PrivateStrategy:
    return PrivateStrategy(model(), plan, SETTINGS, RunKey.from_seed(9), clients=CLIENTS)


@dataclass
class Reply:
    """What the server looks at of a message; real ones need a running Flower (tests/system/test_federated.py)."""

    content: RecordDict
    error: bool = False

    def has_error(self) -> bool:
        return self.error


def reply(content: RecordDict) -> Reply:
    return Reply(content)


def asked(server: PrivateStrategy) -> RecordDict:
    return RecordDict({ARRAYS: arrays_of(server.model), STEP: ConfigRecord({"step": server.step})})


def weights(one: LSTMModel) -> torch.Tensor:
    return torch.cat([parameter.detach().reshape(-1) for parameter in trained(one)])


def test_limits_hold_over_all_clients_together() -> None:
    count = Counter(name for client in range(CLIENTS) for one in kept(client) for name in one.entities)
    assert max(count.values()) <= PLAN.per_entity
    users = Counter(one.user for client in range(CLIENTS) for one in kept(client))
    assert max(users.values()) <= PLAN.per_user
    for name in ("a", "b", "c"):
        assert sum(share_of_entity(name, client, clients=7, per_entity=5) for client in range(7)) == 5
    with pytest.raises(ParameterError, match="below clients"):
        limit_for_client([], 3, clients=3, per_user=1, per_entity=1)


def test_a_round_is_the_step_of_one_machine() -> None:
    server = strategy()
    replies = [reply(answer(part(client), asked(server))) for client in range(CLIENTS)]
    server.aggregate_train(1, replies)
    alone = model()
    optimizer = SETTINGS.make(trained(alone))
    every = [one for client in range(CLIENTS) for one in kept(client)]
    total = clipped_sum(alone, Batch.of(every, WORDS, 5), PLAN.clip)
    apply(alone, optimizer, add_noise(total, PLAN, RunKey.from_seed(9), 0))
    assert torch.allclose(weights(server.model), weights(alone), atol=1e-5)
    assert server.rounds.used == [3]


def test_what_leaves_a_client_is_within_its_share_of_the_sum() -> None:
    for client in range(CLIENTS):
        record = answer(part(client), asked(strategy()))[SUM]
        norm = math.sqrt(sum(float((one.numpy() ** 2).sum()) for one in record.values()))
        assert 0 < norm <= PLAN.clip * len(kept(client)) * (1 + 1e-5)


def bad_replies() -> dict[str, Reply]:
    good = answer(part(1), asked(strategy()))[SUM]

    def changed(change: float) -> Reply:
        arrays = {name: Array(np.full_like(one.numpy(), change)) for name, one in good.items()}
        return reply(RecordDict({SUM: ArrayRecord(arrays)}))

    fewer = ArrayRecord({name: one for name, one in good.items() if name != "0"})
    other = ArrayRecord({name: Array(np.zeros(3, dtype=np.float32)) for name in good})
    return {
        "not a number": changed(math.nan),
        "infinite": changed(math.inf),
        "too large": changed(1e6),
        "dropped out": Reply(RecordDict(), error=True),
        "fewer parts": reply(RecordDict({SUM: fewer})),
        "other shapes": reply(RecordDict({SUM: other})),
        "something else": reply(RecordDict({})),
    }


BAD = ("not a number", "infinite", "too large", "dropped out", "fewer parts", "other shapes", "something else")


@pytest.mark.parametrize("name", BAD)
def test_a_client_that_fails_counts_as_zero_and_changes_no_promise(name: str) -> None:
    server, without = strategy(), strategy()
    others = [answer(part(client), asked(server)) for client in (0, 2)]
    server.aggregate_train(1, [reply(others[0]), bad_replies()[name], reply(others[1])])
    without.aggregate_train(1, [reply(one) for one in others])
    assert torch.equal(weights(server.model), weights(without.model))
    assert torch.isfinite(weights(server.model)).all()
    assert server.rounds.left_out == [1]
    assert server.guarantee == PLAN.guarantee(1).with_randomness(False)


def test_a_step_without_any_client_is_noise_and_still_counted() -> None:
    server = strategy()
    server.aggregate_train(1, [])
    assert server.step == 1
    assert not torch.equal(weights(server.model), weights(model()))


def test_no_more_rounds_than_the_plan_has_steps() -> None:
    server = strategy()
    server.step = PLAN.steps
    with pytest.raises(BudgetError, match="3 steps"):
        server.configure_train(4, ArrayRecord(), ConfigRecord(), None)


def test_users_alone_work_the_same_way() -> None:
    plan = UserPlan(users=15, rate=1.0, steps=2, clip=0.1, noise=1.0, delta=1e-5)
    server = strategy(plan)
    replies = [reply(answer(part(client, plan), asked(server))) for client in range(CLIENTS)]
    server.aggregate_train(1, replies)
    assert server.rounds.used == [3]


def test_a_client_with_more_than_the_plan_allows_does_not_start() -> None:
    data = TrainingData.of(sentences(0), Batch.of(sentences(0), WORDS, 5))
    with pytest.raises(ParameterError, match="an entity is in 5 sentences, the plan allows 3"):
        ClientPart(PLAN, model(), data, SETTINGS, RunKey.from_seed(1))
