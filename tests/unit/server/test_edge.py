"""What is settled before a request is looked at: who asks, under which name, how much, and for what."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")
pytest.importorskip("httpx", reason="the extra 'server' is not installed")

from sfumato.server.configuration import ConfigurationError, checked
from sfumato.server.keys import new_key

Served = Callable[..., Any]


def test_a_stranger_is_refused_before_the_body_is_read(served: Served, written: dict[str, Any]) -> None:
    import anyio

    from sfumato.server.app import create_app

    client = served(written)
    received: list[int] = []

    async def ask() -> int:
        async def receive() -> dict[str, Any]:
            received.append(1)
            return {"type": "http.request", "body": b"x", "more_body": True}

        codes: list[int] = []

        async def send(message: Any) -> None:
            codes.append(message.get("status", 0))

        scope = {
            "type": "http", "method": "POST", "path": "/v1/privatize", "raw_path": b"/v1/privatize", "query_string": b"",
            "headers": [(b"authorization", b"Bearer sfu_nobody_" + b"x" * 43)], "http_version": "1.1", "scheme": "http",
        }  # fmt: skip
        await create_app(client.service)(scope, receive, send)
        return codes[0]

    assert anyio.run(ask) == 401
    assert received == []


def test_two_keys_in_one_request_are_refused(served: Served, written: dict[str, Any]) -> None:
    good = new_key("good")
    written["keys"] = [{"id": "good", "hash": good.hash, "scopes": ["guarantee"]}]
    client = served(written)

    def ask(*keys: str) -> int:
        headers = [("authorization", f"Bearer {key}") for key in keys]
        return int(client.get("/v1/guarantee", headers=headers).status_code)

    assert [ask(good.key), ask(good.key, good.key), ask("x", good.key)] == [200, 401, 401]


def test_where_nothing_is_open_nothing_is_told(served: Served, written: dict[str, Any]) -> None:
    one = new_key("one")
    written["anonymous"] = {}
    written["keys"] = [{"id": "one", "hash": one.hash, "scopes": ["guarantee"]}]
    client = served(written)
    for path in ("/v1/offers", "/v1/guarantee", "/v1/anything", "/metrics"):
        answer = client.get(path)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert "everyday" not in answer.text
    assert client.get("/").status_code == 200
    assert client.get("/health/live").status_code == 200


def test_wrong_keys_are_limited_together_and_hurt_no_right_one(served: Served, written: dict[str, Any]) -> None:
    one = new_key("one")
    written["keys"] = [{"id": "one", "hash": one.hash, "scopes": ["guarantee"]}]
    written["limits"] = {"burst": 5, "failures_per_minute": 1}
    client = served(written)
    wrong = [
        client.get("/v1/guarantee", headers={"authorization": f"Bearer sfu_one_{'x' * 40}{n:03}"}).status_code
        for n in range(9)
    ]
    assert wrong == [401] * 5 + [429] * 4
    assert client.get("/v1/guarantee", headers={"authorization": f"Bearer {one.key}"}).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [("safe.example", 200), ("SAFE.example:8000", 200), ("[::1]:8000", 200), ("evil.example", 421), ("", 421),
     ("safe.example.evil", 421), ("evil@safe.example", 421), ("[::2]", 421)],
)  # fmt: skip
def test_a_service_answers_to_its_names_only(served: Served, written: dict[str, Any], host: str, status: int) -> None:
    written["server"] = {"hosts": ["safe.example", "[::1]"]}
    assert served(written).get("/health/live", headers={"host": host}).status_code == status


def test_a_key_cannot_choose_what_it_was_not_given(served: Served, written: dict[str, Any]) -> None:
    one = new_key("one")
    written["mechanisms"]["weak"] = {"algorithm": "tem", "space": "tiny", "epsilon": 500}
    written["policies"] = {"everything": {}, "strict": {}, "numbers": {"protect": ["numbers"]}}
    written["keys"] = [
        {"id": "one", "hash": one.hash, "scopes": ["privatize", "explain", "guarantee"], "mechanisms": ["everyday"],
         "policies": ["strict"]},
    ]  # fmt: skip
    client = served(written)
    client.headers["authorization"] = f"Bearer {one.key}"
    offered = client.get("/v1/offers").json()
    assert ([one["name"] for one in offered["mechanisms"]], offered["policies"]) == (["everyday"], ["strict"])
    usual = client.post("/v1/privatize", json={"text": "cold"})
    assert usual.json()["chosen"]["policy"] == "strict"
    for asked in ({"mechanism": "weak"}, {"policy": "numbers"}, {"policy": "everything"}, {"mechanism": "tem"}):
        for path, body in (("/v1/privatize", {"text": "cold"}), ("/v1/explain", {"text": "cold"})):
            assert client.post(path, json={**body, **asked}).status_code == 422
        assert client.get("/v1/guarantee", params=asked).status_code == 422
    # Names twice in a body or a query, other spellings and other places choose nothing either.
    twice = b'{"text": "cold", "policy": "strict", "policy": "numbers"}'
    json_type = {"content-type": "application/json"}
    assert client.post("/v1/privatize", content=twice, headers=json_type).status_code == 422
    assert client.get("/v1/guarantee?policy=strict&policy=numbers").status_code == 422
    for more in ("?mechanism=weak", "?epsilon=500", "?policy=numbers"):
        chosen = client.post(f"/v1/privatize{more}", json={"text": "cold"}).json()["chosen"]
        assert (chosen["mechanism"], chosen["policy"], chosen["epsilon"]) == ("everyday", "strict", 0.5)
    for name in ("WEAK", "weak ", "wеak", "we\u00adak"):
        assert client.post("/v1/privatize", json={"text": "cold", "mechanism": name}).status_code == 422


def test_the_scope_chat_needs_what_the_chat_uses(written: dict[str, Any], tmp_path: Path) -> None:
    written["chat"] = {"upstream": "http://model.invalid/v1", "mechanism": "everyday", "models": ["small"]}
    written["policies"] = {"everything": {}, "numbers": {"protect": ["numbers"]}}
    written["mechanisms"]["other"] = {"algorithm": "tem", "space": "tiny", "epsilon": 1}
    written["keys"] = [
        {"id": "a", "hash": new_key("a").hash, "scopes": ["chat"], "mechanisms": ["other"], "policies": ["numbers"]},
        {"id": "b", "hash": new_key("b").hash, "scopes": ["privatize"], "policies": ["nothing"]},
    ]
    with pytest.raises(ConfigurationError) as found:
        checked(written, tmp_path)
    places = sorted(problem.partition(":")[0] for problem in found.value.problems)
    assert places == ["keys.0.mechanisms", "keys.0.policies", "keys.1.policies"]


def test_audits_are_made_once_and_one_at_a_time(
    served: Served, written: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from sfumato.server import routes_texts

    real, running, most, made = routes_texts.audit, [0], [0], [0]

    def counted(*arguments: Any) -> Any:
        running[0] += 1
        made[0] += 1
        most[0] = max(most[0], running[0])
        try:
            return real(*arguments)
        finally:
            running[0] -= 1

    monkeypatch.setattr(routes_texts, "audit", counted)
    client = served(written)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: client.get("/v1/audit", params={"epsilon": (0.5, 200)[n % 2]}), range(8)))
    assert {answer.status_code for answer in answers} == {200}
    assert (most[0], made[0]) == (1, 2)


def test_readiness_does_not_hammer_the_ledger(served: Served, written: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy", reason="the extra 'ledger' is not installed")
    from sfumato.ledger import LedgerError

    written["ledger"] = {"url": "budgets.db"}
    client = served(written)
    looked = []
    ledger = client.service.releases.ledger
    client.service.releases._ledger = type("Watched", (), {"budgets": lambda self: looked.append(1) or iter(())})()
    for _ in range(20):
        assert client.get("/health/ready").status_code == 200
    assert len(looked) <= 3  # twenty answers take far less than two seconds
    # Nor does one that is gone hold up more than the request that looks.
    client.service.ledger_looked = -math.inf
    waiting, gone = threading.Event(), threading.Event()

    def budgets(self: Any) -> Any:
        waiting.set()
        gone.wait(10)
        raise LedgerError("gone")

    client.service.releases._ledger = type("Gone", (), {"budgets": budgets})()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.get, "/health/ready")
        assert waiting.wait(10)
        assert client.get("/health/ready").status_code == 200  # as it was when it was last looked at
        gone.set()
        assert first.result().status_code == 503
    assert client.get("/health/ready").status_code == 503
    client.service.releases._ledger = ledger


def test_without_a_key_of_ones_own_nothing_can_be_asked_for_again(
    served: Served, written: dict[str, Any], with_a_key: dict[str, str]
) -> None:
    """All who have no key are one caller: one could try texts until one gives the output that another got."""
    written["chat"] = {"upstream": "http://model.invalid/v1", "mechanism": "everyday", "models": ["small"]}
    client = served(written)
    repeatable = {"idempotency-key": "order 7"}
    body = {"text": "cold hot sun wind rain"}
    assert client.post("/v1/privatize", json=body, headers=repeatable).status_code == 422
    assert client.post("/v1/privatize", json=body, headers={**repeatable, **with_a_key}).status_code == 200
    chat = {"messages": [{"role": "user", "content": "cold"}]}
    for asked, headers in ((chat, repeatable), ({**chat, "sfumato_conversation": "c"}, {})):
        answer = client.post("/v1/chat/completions", json=asked, headers=headers)
        assert (answer.status_code, "needs an API key" in answer.json()["detail"]) == (422, True)


def test_no_key_has_the_name_of_those_without(written: dict[str, Any], tmp_path: Path) -> None:
    written["keys"] = [{"id": "anonymous", "hash": new_key("anonymous").hash, "scopes": ["privatize"]}]
    with pytest.raises(ConfigurationError, match=r"keys\.0\.id: this name stands for callers without a key"):
        checked(written, tmp_path)


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonp", "x/json"]
)
def test_a_body_that_a_page_from_elsewhere_can_send_unasked_is_refused(
    served: Served, written: dict[str, Any], kind: str | None
) -> None:
    client = served(written)
    headers = {} if kind is None else {"content-type": kind}
    assert client.post("/v1/privatize", content=b'{"text": "cold"}', headers=headers).status_code == 415
    for good in ("application/json", "Application/JSON; charset=utf-8", "application/merge-patch+json"):
        answer = client.post("/v1/privatize", content=b'{"text": "cold"}', headers={"content-type": good})
        assert answer.status_code == 200
