"""The OpenAPI description keeps its word: whatever it allows or forbids, answers are as it says, and none is a defect."""

from __future__ import annotations

import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")
pytest.importorskip("sqlalchemy", reason="the extra 'ledger' is not installed")
uvicorn = pytest.importorskip("uvicorn", reason="the extra 'server' is not installed")
schemathesis = pytest.importorskip("schemathesis", reason="the extra 'system' is not installed")
requests = pytest.importorskip("requests", reason="the extra 'system' is not installed")
httpx = pytest.importorskip("httpx", reason="the extra 'server' is not installed")

from schemathesis import GenerationMode  # noqa: E402
from schemathesis.specs.openapi.checks import positive_data_acceptance  # noqa: E402

from sfumato.ledger import Ledger  # noqa: E402
from sfumato.server.keys import new_key  # noqa: E402
from sfumato.server.protocol import punctual  # noqa: E402

SUBJECT = "ada"
EXAMPLES = int(os.environ.get("SFUMATO_SCHEMA_EXAMPLES", "10"))
"""For each operation; the variable is for a long look, which finds other cases as well."""
NAMES = ("mechanism", "policy", "tuning", "epsilon", "subject", "model", "sfumato_subject")
MADE = new_key("app")
KEY = {"Authorization": f"Bearer {MADE.key}"}
SCOPES = ["privatize", "explain", "guarantee", "budget", "metrics", "chat"]
ENTRY = {"id": "app", "hash": MADE.hash, "scopes": SCOPES, "subject": "ada"}


@pytest.fixture
def described(
    served: Callable[..., Any], written: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """A service with everything turned on."""
    from sfumato.server import chat

    def answered(request: Any) -> Any:
        message = {"role": "assistant", "content": "cold"}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        return httpx.Response(200, json={"object": "chat.completion", "model": "small", "choices": choices})

    def new_client(settings: Any) -> Any:
        return httpx.AsyncClient(transport=httpx.MockTransport(answered))

    monkeypatch.setattr(chat, "new_client", new_client)
    with Ledger.open(tmp_path / "budgets.db") as ledger:
        ledger.create(SUBJECT, kind="metric", limit=10**9)
    written["ledger"] = {"url": "budgets.db"}
    written["anonymous"] = {}
    written["keys"] = [ENTRY]
    written["chat"] = {
        "upstream": "http://model.invalid/v1", "mechanism": "everyday", "models": ["small"], "restore": "on-request",
    }  # fmt: skip
    written["limits"] = {"requests_per_minute": 10_000_000, "burst": 1_000_000}
    return served(written, raise_server_exceptions=False).app


@pytest.fixture
def address(described: Any) -> Iterator[str]:
    """A real server in a thread: what cannot be said to a client in memory can be said on a connection."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(described, log_level="critical", access_log=False, http=punctual(20.0), lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(10)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["allowed", "forbidden"])
def test_answers_are_as_described(address: str, mode: Any) -> None:
    with httpx.Client(trust_env=False) as http:
        schema = schemathesis.openapi.from_dict(http.get(f"{address}/openapi.json").json())
    statuses = Counter[int]()
    session = requests.Session()
    session.trust_env = False
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) == 10

    def check(operation: Any) -> None:
        @settings(
            max_examples=EXAMPLES,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            derandomize="SFUMATO_SCHEMA_EXAMPLES" not in os.environ,
        )
        @given(operation.as_strategy(generation_mode=mode), st.booleans())
        def ask(case: Any, usual: bool) -> None:
            if usual and mode is GenerationMode.POSITIVE:
                _leave_names_out(case)
            # What is described but not offered by the operator may be refused; the rest may not.
            left_out = [] if usual else [positive_data_acceptance]
            answer = case.call_and_validate(base_url=address, session=session, headers=KEY, excluded_checks=left_out)
            statuses[answer.status_code] += 1

        ask()

    for operation in operations:
        if mode is GenerationMode.POSITIVE or operation.body or operation.query or operation.path_parameters:
            check(operation)
    assert all(status < 500 for status in statuses), statuses
    assert sum(statuses[status] for status in EXPECTED[mode]) > 30, statuses


EXPECTED = {GenerationMode.POSITIVE: (200,), GenerationMode.NEGATIVE: (400, 401, 403, 422)}


def _leave_names_out(case: Any) -> None:
    """Take out the names of what may not be offered: with them the answer is 422, whatever else is asked."""
    if isinstance(case.body, dict):
        # A conversation and an idempotency key exclude each other, which a description of a body cannot say of a header.
        both = ["sfumato_conversation"] if "idempotency-key" in {name.lower() for name in case.headers or {}} else []
        case.body = {name: value for name, value in case.body.items() if name not in (*NAMES, *both)}
    case.query = {name: value for name, value in (case.query or {}).items() if name not in NAMES}
    if "subject" in (case.path_parameters or {}):
        case.path_parameters["subject"] = SUBJECT


def test_what_needs_no_key_is_described_so(served: Callable[..., Any], written: dict[str, Any]) -> None:
    open_, closed = served(written), served({**written, "anonymous": {}, "keys": [ENTRY]})
    for client, expected in ((open_, [{}, {"HTTPBearer": []}]), (closed, [{"HTTPBearer": []}])):
        document = client.get("/openapi.json").json()
        assert document["paths"]["/v1/privatize"]["post"]["security"] == expected
        assert "security" not in document["paths"]["/health/live"]["get"]
