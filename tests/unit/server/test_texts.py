"""Texts through the service: what comes out, what is refused, and what is charged."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")
pytest.importorskip("prometheus_client", reason="the extra 'server' is not installed")

from sfumato.ledger import Ledger
from sfumato.server.keys import new_key

Served = Callable[..., Any]


def test_a_text_and_a_batch(served: Served, written: dict[str, Any]) -> None:
    client = served(written)
    one = client.post("/v1/privatize", json={"text": "Cold, then HOT!", "epsilon": 200, "pieces": True})
    assert one.status_code == 200
    found = one.json()
    words = found["results"][0]["pieces"][1::2]
    assert (words[0], words[2]) == ("Cold", "HOT")  # at epsilon 200 a word stays, with probability above 1 - 1e-80
    assert found["protected"] == 3
    assert found["charge"] is None
    assert found["guarantee"]["certified"] <= 200
    assert "odds between any two protected words" in found["guarantee"]["statement"]
    batch = client.post("/v1/privatize", json={"texts": ["cold", "", "hot sun"], "epsilon": 200}).json()
    assert [len(one["text"].split()) for one in batch["results"]] == [1, 0, 2]
    assert batch["document"]["words"] == 2


def test_only_what_is_offered_can_be_chosen(served: Served, written: dict[str, Any]) -> None:
    client = served(written)
    for asked in ({"mechanism": "tem"}, {"epsilon": 7}, {"tuning": "published"}, {"policy": "none"}):
        answer = client.post("/v1/privatize", json={"text": "cold", **asked})
        assert (answer.status_code, answer.json()["title"]) == (422, "not offered")


def test_limits(served: Served, written: dict[str, Any]) -> None:
    written["limits"] = {"body_bytes": 1024, "text_chars": 100, "batch_texts": 2, "burst": 6, "requests_per_minute": 1}
    client = served(written)
    assert client.post("/v1/privatize", json={"text": "x" * 101}).status_code == 413
    assert client.post("/v1/privatize", json={"texts": ["a"] * 3}).status_code == 413
    assert client.post("/v1/privatize", json={"text": "x" * 2000}).status_code == 413
    chunked = client.post(
        "/v1/privatize", content=(b"x" * 600 for _ in range(3)), headers={"content-type": "application/json"}
    )
    assert chunked.status_code == 413
    codes = [client.post("/v1/privatize", json={"text": "cold"}).status_code for _ in range(4)]
    assert codes.count(200) >= 2
    last = client.post("/v1/privatize", json={"text": "cold"})
    assert last.status_code == 429
    assert int(last.headers["retry-after"]) >= 1


def test_keys_and_scopes(served: Served, written: dict[str, Any]) -> None:
    reader, writer = new_key("reader"), new_key("writer")
    written["anonymous"] = {}
    written["keys"] = [
        {"id": "reader", "hash": reader.hash, "scopes": ["guarantee"]},
        {"id": "writer", "hash": writer.hash, "scopes": ["privatize"], "mechanisms": ["everyday"]},
    ]
    client = served(written)

    def ask(key: str | None) -> int:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        return int(client.post("/v1/privatize", json={"text": "cold"}, headers=headers).status_code)

    assert [ask(None), ask("nonsense"), ask(reader.key), ask(writer.key)] == [401, 401, 403, 200]
    assert client.get("/v1/guarantee", headers={"authorization": f"Bearer {reader.key}"}).status_code == 200
    assert client.get("/metrics").status_code == 401
    assert client.get("/v1/guarantee", headers={"authorization": "Basic eA=="}).status_code == 401


def test_a_repeated_key_gives_the_same_answer(
    served: Served, written: dict[str, Any], with_a_key: dict[str, str]
) -> None:
    client = served(written)
    client.headers.update(with_a_key)
    text = " ".join(["cold hot rain sun wind"] * 10)

    def ask(key: str | None, text: str = text) -> str:
        headers = {} if key is None else {"idempotency-key": key}
        answer = client.post("/v1/privatize", json={"text": text}, headers=headers)
        assert answer.status_code == 200
        return str(answer.json()["results"][0]["text"])

    assert ask("one") == ask("one")
    assert ask("one") != ask("two")  # 50 draws at epsilon .5 agree with probability below 1e-20
    assert ask(None) != ask(None)
    assert ask("one", text + " storm").split()[:50] != ask("one").split()


@pytest.fixture
def with_ledger(written: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    pytest.importorskip("sqlalchemy", reason="the extra 'ledger' is not installed")
    with Ledger.open(tmp_path / "budgets.db") as ledger:
        ledger.create_each(["ada", "bob"], kind="metric", limit=5)
    written["ledger"] = {"url": "budgets.db"}
    written["anonymous"]["subject"] = "ada"
    return written


def test_a_release_is_charged_and_a_budget_runs_out(served: Served, with_ledger: dict[str, Any]) -> None:
    client = served(with_ledger)
    first = client.post("/v1/privatize", json={"text": "cold hot sun"}).json()
    certified = first["guarantee"]["certified"]
    assert float(first["charge"]["amount"]) == pytest.approx(3 * certified, rel=1e-8)
    assert client.get("/v1/budget/ada").json()["charges"] == 1
    refused = client.post("/v1/privatize", json={"text": "cold " * 9})
    assert (refused.status_code, refused.json()["title"]) == (402, "budget exhausted")
    assert client.get("/v1/budget/ada").json()["spent"] == first["charge"]["amount"]
    assert client.post("/v1/privatize", json={"text": "..."}).json()["charge"] is None
    assert client.get("/v1/budget/bob").status_code == 403
    assert client.post("/v1/privatize", json={"text": "cold", "subject": "bob"}).status_code == 403


def test_a_retry_is_charged_once_and_a_reused_key_refused(
    served: Served, with_ledger: dict[str, Any], with_a_key: dict[str, str]
) -> None:
    client = served(with_ledger)
    client.headers.update(with_a_key)
    headers = {"idempotency-key": "order 7"}
    body = {"text": "cold hot sun wind rain"}
    first = client.post("/v1/privatize", json=body, headers=headers).json()
    again = client.post("/v1/privatize", json=body, headers=headers).json()
    assert again["results"] == first["results"]
    assert (first["charge"]["replayed"], again["charge"]["replayed"]) == (False, True)
    assert client.get("/v1/budget/ada").json()["charges"] == 1
    for other in ({"text": "cold hot sun wind snow"}, {**body, "epsilon": 200}):
        refused = client.post("/v1/privatize", json=other, headers=headers)
        assert refused.status_code == 409


def test_a_key_may_speak_for_the_subjects_it_names(served: Served, with_ledger: dict[str, Any]) -> None:
    some, every, none = new_key("some"), new_key("every"), new_key("none")
    scopes = ["privatize", "budget"]
    with_ledger["keys"] = [
        {"id": "some", "hash": some.hash, "scopes": scopes, "subjects": ["bob"]},
        {"id": "every", "hash": every.hash, "scopes": scopes, "subjects": ["*"]},
        {"id": "none", "hash": none.hash, "scopes": scopes},
    ]
    client = served(with_ledger)

    def ask(key: str, subject: str | None) -> int:
        body = {"text": "cold", "subject": subject}
        return int(client.post("/v1/privatize", json=body, headers={"authorization": f"Bearer {key}"}).status_code)

    assert [ask(some.key, "bob"), ask(some.key, "ada"), ask(some.key, None)] == [200, 403, 403]
    assert [ask(every.key, "ada"), ask(every.key, "nobody"), ask(none.key, "ada")] == [200, 404, 403]


def test_a_ledger_that_is_gone_stops_releases(served: Served, with_ledger: dict[str, Any], tmp_path: Path) -> None:
    client = served(with_ledger, raise_server_exceptions=False)
    assert client.get("/health/ready").status_code == 200
    client.service.releases.ledger.close()
    client.service.ledger_looked = -math.inf  # else it was looked at within the last second
    (tmp_path / "budgets.db").write_bytes(b"not a database" * 100)
    for rest in tmp_path.glob("budgets.db-*"):
        rest.unlink()
    assert client.get("/health/ready").status_code == 503
    answer = client.post("/v1/privatize", json={"text": "cold"})
    assert answer.status_code == 503
    assert "results" not in answer.json()


def test_explain_shows_the_rows_and_draws_nothing(served: Served, written: dict[str, Any]) -> None:
    client = served(written)
    answer = client.post("/v1/explain", json={"text": "Cold zebra 7", "top": 3}).json()
    assert [one["fate"] for one in answer["tokens"]] == ["drawn", "unknown", "unknown"]
    assert answer["pieces"] == ["", "Cold", " ", "zebra", " ", "7", ""]
    word = answer["words"][0]
    mechanism = client.service.catalogue.mechanism(client.service.catalogue.choose(None, None, None))
    assert word["unchanged"] == pytest.approx(float(mechanism.row("cold").probability(0)))
    total = sum(one["probability"] for one in word["candidates"]) + word["others"]
    assert total == pytest.approx(1)
    assert answer == client.post("/v1/explain", json={"text": "Cold zebra 7", "top": 3}).json()
    assert "sfumato_words_total{" not in client.get("/metrics").text


def test_audit_agrees_with_the_attack_on_the_whole_table(served: Served, written: dict[str, Any]) -> None:
    client = served(written)
    found = client.get("/v1/audit").json()
    mechanism = client.service.catalogue.mechanism(client.service.catalogue.choose(None, None, None))
    table = [mechanism.row(word).probabilities for word in mechanism.space.words]
    best = sum(max(column) for column in zip(*table, strict=True)) / len(table)
    assert found["attack_success"] == pytest.approx(best)
    assert found["attack_blind"] == pytest.approx(1 / len(table))
    assert found["verified"] is True


def test_offers_say_what_has_no_certificate(served: Served, written: dict[str, Any]) -> None:
    written["mechanisms"]["everyday"] |= {"tunings": ["best", "tight"], "epsilons": [0.01]}
    client = served(written)
    offered = client.get("/v1/offers").json()["mechanisms"][0]
    assert [(one["tuning"], one["epsilon"]) for one in offered["refused"]] == [("tight", 0.01)]
    answer = client.post("/v1/privatize", json={"text": "cold", "tuning": "tight", "epsilon": 0.01})
    assert (answer.status_code, answer.json()["title"]) == (422, "no certificate")


def test_mechanisms_without_a_table_digits_and_identifiers(served: Served, written: dict[str, Any]) -> None:
    written["mechanisms"]["noise"] = {
        "algorithm": "laplace", "space": "tiny", "epsilon": 2, "digit_epsilon": 1, "identifiers": "fixed",
    }  # fmt: skip
    client = served(written)
    body = {"text": "cold 1990 ada@work.org", "mechanism": "noise"}
    found = client.post("/v1/explain", json=body).json()
    assert [one["fate"] for one in found["tokens"]] == ["drawn", "number", "identifier"]
    assert found["exact"] is False
    out = client.post("/v1/privatize", json=body).json()["results"][0]["text"]
    assert "ada@work.org" not in out


def test_estimates_are_made_for_few_words(
    served: Served, written: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from sfumato.server import explaining

    monkeypatch.setattr(explaining, "_ESTIMATED_WORDS", 2)
    written["mechanisms"]["noise"] = {"algorithm": "laplace", "space": "tiny", "epsilon": 2}
    client = served(written)
    text = "cold hot cold sun hot rain"
    fates = {
        name: [
            one["fate"] for one in client.post("/v1/explain", json={"text": text, "mechanism": name}).json()["tokens"]
        ]
        for name in ("everyday", "noise")
    }
    assert fates["everyday"] == ["drawn"] * 6
    assert fates["noise"] == ["drawn", "drawn", "drawn", "unlooked", "drawn", "unlooked"]
