"""What is settled before a request is looked at: who asks, under which name, how much, and for what."""

from __future__ import annotations

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
    written["ledger"] = {"url": "budgets.db"}
    client = served(written)
    looked = []
    ledger = client.service.releases.ledger
    client.service.releases._ledger = type("Watched", (), {"budgets": lambda self: looked.append(1) or iter(())})()
    for _ in range(20):
        assert client.get("/health/ready").status_code == 200
    assert len(looked) <= 3  # twenty answers take far less than two seconds
    client.service.releases._ledger = ledger
