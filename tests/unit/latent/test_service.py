"""The server takes numbers only, refuses what no honest client sends, and answers what it was asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra 'torch' is not installed")
httpx = pytest.importorskip("httpx", reason="the extra 'server' is not installed")
pytest.importorskip("fastapi", reason="the extra 'server' is not installed")

from latent_service import PLAN, examples, running, terms  # noqa: E402
from sfumato.foundation.errors import DataError, ParameterError  # noqa: E402
from sfumato.latent.calibration import release_once, several_releases, single_release  # noqa: E402
from sfumato.latent.heads import Head  # noqa: E402
from sfumato.latent.service.app import MOST_BYTES, create_app  # noqa: E402
from sfumato.latent.service.client import LatentClient, ServerError  # noqa: E402
from sfumato.latent.service.running import serve  # noqa: E402
from sfumato.latent.service.terms import Terms  # noqa: E402
from sfumato.latent.service.trainer import Trainer  # noqa: E402


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("server"), terms()) as address:
        yield address


@pytest.fixture(scope="module")
def http(url: str) -> Iterator[Any]:
    with httpx.Client(base_url=url, trust_env=False) as client:
        yield client


def schemas_in(node: Any, document: Any) -> Iterator[Any]:
    """Every schema below a node, references followed."""
    if isinstance(node, dict):
        if "$ref" in node:
            target = document
            for part in node["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            node = target
        if "type" in node or "anyOf" in node:
            yield node
        for value in node.values():
            yield from schemas_in(value, document)
    elif isinstance(node, list):
        for value in node:
            yield from schemas_in(value, document)


def test_no_request_has_a_field_that_text_could_be_put_in(http: Any) -> None:
    document = http.get("/openapi.json").json()
    bodies = 0
    for path in document["paths"].values():
        for operation in path.values():
            parts = operation.get("parameters", []), operation.get("requestBody", {})
            bodies += bool(parts[1])
            found = list(schemas_in(parts, document))
            assert {schema.get("type") for schema in found} <= {"object", "array", "number", "integer"}
            for schema in found:
                if schema.get("type") == "object":
                    assert schema["additionalProperties"] is False
    assert bodies == 2


def test_the_four_stages(tmp_path: Path, url: str) -> None:
    vectors, labels = examples(2000)
    with LatentClient(url, epsilon=8.0) as client:
        assert client.send_vectors(vectors, labels) == 2000
        assert client.train() >= 2000
        found = client.query_vectors(examples(500, seed=1)[0])
        assert found.shape == (500, 2)
        # Noise of 2 C / mu on a distance of 2 C: Phi(mu / 2) of the queries come out right, 0.79 at epsilon 8.
        share = (found.argmax(axis=1) == examples(500, seed=1)[1]).mean()
        assert 0.7 < share < 0.88
        head = client.fetch_head(tmp_path / "head.safetensors")
        assert head.accuracy(examples(500, seed=1)[0], examples(500, seed=1)[1]) > 0.97
        assert client.status()["trained_on"] == client.status()["vectors"]


GOOD = [0.1, 0.2, 0.3, 0.4]
LONG = [PLAN.greatest_norm * 1.01, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('{"vectors": [[NaN, 0, 0, 0]], "labels": [0]}', "finite"),
        ('{"vectors": [[Infinity, 0, 0, 0]], "labels": [0]}', "finite"),
        ('{"vectors": [[1e999, 0, 0, 0]], "labels": [0]}', "finite"),
        ('{"vectors": [[1e300, 0, 0, 0]], "labels": [0]}', "vector 0 is not finite"),
        ('{"vectors": [[1, 2, 3]], "labels": [0]}', "vector 0 does not have 4 numbers"),
        ('{"vectors": [[1, 2, 3, 4, 5]], "labels": [0]}', "vector 0 does not have 4 numbers"),
        ('{"vectors": [[]], "labels": [0]}', "vector 0 does not have 4 numbers"),
        ('{"vectors": [], "labels": []}', "vectors"),
        (json.dumps({"vectors": [GOOD, LONG], "labels": [0, 1]}), "vector 1 is longer than clipping and noise explain"),
        (json.dumps({"vectors": [GOOD], "labels": [2]}), "label 0 is not between 0 and 1"),
        (json.dumps({"vectors": [GOOD], "labels": [-1]}), "labels.0"),
        (json.dumps({"vectors": [GOOD], "labels": [10**30]}), "labels.0"),
        (json.dumps({"vectors": [GOOD], "labels": [0, 1]}), "1 vectors and 2 labels"),
        (json.dumps({"vectors": [GOOD]}), "labels"),
        (json.dumps({"vectors": [["0.1", "0.2", "0.3", "0.4"]], "labels": [0]}), "vectors.0.0"),
        (json.dumps({"vectors": "secretword", "labels": [0]}), "vectors"),
        (json.dumps({"vectors": [GOOD], "labels": [0], "text": "secretword"}), "not in the schema"),
        (json.dumps({"vectors": [GOOD], "labels": [0], "secretword": 1}), "not in the schema"),
        ("secretword", "Invalid JSON"),
        ("", "Invalid JSON"),
        ("[" * 5000, "Invalid JSON"),
        ('{"vectors": [[true, 0, 0, 0]], "labels": [0]}', "vectors.0.0"),
    ],
)
def test_bad_vectors_are_refused_with_the_reason_and_without_their_content(http: Any, body: str, reason: str) -> None:
    before = http.get("/status").json()
    answer = http.put("/batches/77", content=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert reason in answer.json()["detail"]
    assert "secretword" not in answer.text
    assert http.get("/status").json() == before


@pytest.mark.parametrize("path", ["/queries", "/batches/5"])
def test_random_bodies_never_crash_the_server(http: Any, path: str) -> None:
    draws = np.random.default_rng(6)
    method = "POST" if path == "/queries" else "PUT"
    valid = json.dumps({"vectors": [GOOD], "labels": [0]}).encode()
    for _ in range(150):
        body = bytearray(valid)
        for place in draws.integers(len(body), size=draws.integers(1, 6)):
            body[place] = draws.integers(256)
        answer = http.request(method, path, content=bytes(body))
        assert answer.status_code in (200, 201, 409, 422)


def test_batches_have_numbers_and_are_taken_once(http: Any) -> None:
    body = {"vectors": [GOOD], "labels": [1]}
    assert http.put(f"/batches/{2**128 - 1}", json=body).status_code == 201
    again = http.put(f"/batches/{2**128 - 1}", json=body)
    assert (again.status_code, again.json()) == (200, {"vectors": 1, "new": False})
    assert http.put(f"/batches/{2**128 - 1}", json={**body, "labels": [0]}).status_code == 409
    for wrong in (str(2**128), "-1", "secretword", "1.5"):
        answer = http.put(f"/batches/{wrong}", json=body)
        assert answer.status_code == 422
        assert "secretword" not in answer.text


def test_large_bodies_and_unknown_addresses_are_refused(http: Any) -> None:
    assert http.put("/batches/1", content=b" " * (MOST_BYTES + 1)).status_code == 413
    for path in ("/secretword", "/encoder/0", "/encoder/%2e%2e%2fterms.json", "/docs"):
        answer = http.get(path)
        assert answer.status_code == 404
        assert "secretword" not in answer.text
    assert http.delete("/terms").status_code == 405


def test_a_query_before_training_says_what_is_missing(tmp_path: Path) -> None:
    with running(tmp_path, terms()) as url, LatentClient(url, epsilon=8.0) as client:
        for ask in (lambda: client.query_vectors([GOOD]), client.train, lambda: client.fetch_head(tmp_path / "h")):
            with pytest.raises(ServerError, match="409"):
                ask()


def test_a_token_is_asked_for_and_needed_beyond_the_loopback(tmp_path: Path) -> None:
    with running(tmp_path, terms(), token="open sesame") as url:
        with pytest.raises(ServerError, match="401"):
            LatentClient(url, epsilon=8.0)
        with pytest.raises(ServerError, match="401"):
            LatentClient(url, epsilon=8.0, token="open")
        with LatentClient(url, epsilon=8.0, token="open sesame") as client:
            assert client.status() == {"vectors": 0, "trained_on": 0}
    with pytest.raises(ParameterError, match="needs a token"):
        serve(tmp_path, host="0.0.0.0")


def test_a_restarted_server_goes_on(tmp_path: Path) -> None:
    vectors, labels = examples(300)
    with running(tmp_path, terms()) as url, LatentClient(url, epsilon=8.0) as client:
        client.send_vectors(vectors, labels)
        client.train()
        first = client.fetch_head(tmp_path / "first.safetensors")
    with running(tmp_path) as url, LatentClient(url, epsilon=8.0) as client:
        assert client.status() == {"vectors": 300, "trained_on": 300}
        again = client.fetch_head(tmp_path / "again.safetensors")
    assert (first.probabilities(vectors) == again.probabilities(vectors)).all()
    assert isinstance(first, Head)
    with pytest.raises(DataError, match="holds a task already"):
        Trainer.prepare(tmp_path, terms())


def test_an_online_head_learns_as_vectors_arrive_and_again_after_a_restart(tmp_path: Path) -> None:
    vectors, labels = examples(4000)
    wide = release_once(epsilon=60.0, clip=1.0, dimension=4)
    with (
        running(tmp_path, terms(wide, learning="online", head="mlp")) as url,
        LatentClient(url, epsilon=60.0) as client,
    ):
        client.send_vectors(vectors, labels, at_once=50)
        assert client.status() == {"vectors": 4000, "trained_on": 4000}
        found = client.query_vectors(vectors[:300]).argmax(axis=1)
        assert (found == labels[:300]).mean() > 0.85
        before = client.fetch_head(tmp_path / "before.safetensors")
    with running(tmp_path) as url, LatentClient(url, epsilon=60.0) as client:
        after = client.fetch_head(tmp_path / "after.safetensors")
    assert after.probabilities(vectors) == pytest.approx(before.probabilities(vectors), abs=1e-4)


def test_labels_go_through_randomised_response_where_the_terms_say_so(tmp_path: Path) -> None:
    plan = release_once(epsilon=60.0, clip=1.0, dimension=4)
    vectors, labels = examples(3000)
    with running(tmp_path, terms(plan, label_epsilon=1.0)) as url:
        with pytest.raises(ParameterError, match=r"labels with epsilon 1, and you allow 0\.5"):
            LatentClient(url, epsilon=60.0, label_epsilon=0.5)
        with LatentClient(url, epsilon=60.0, label_epsilon=1.0) as client:
            client.send_vectors(vectors, labels)
            client.train()
            assert [one.kind for one in client.guarantees] == ["gaussian", "pure"]
            found = client.query_vectors(vectors[:300]).argmax(axis=1)
            assert (found == labels[:300]).mean() > 0.85
    trainer = Trainer(tmp_path)
    _, sent = trainer._store.arrays()
    trainer.close()
    kept = (sent == labels).mean()
    assert abs(kept - 0.731) < 5 * (0.731 * 0.269 / 3000) ** 0.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": ("one",)}, "classes"),
        ({"classes": ("one", "one")}, "different names"),
        ({"classes": ("one", "\x1b[2Jtwo")}, "can be printed"),
        ({"encoder": ["words"]}, "named values"),
        ({"head": "forest"}, "head"),
        ({"learning": "never"}, "learning"),
        ({"label_epsilon": -1.0}, "label_epsilon"),
        ({"plan": several_releases(2, epsilon=1.0, clip=1.0, dimension=4)}, "once"),
        ({"plan": single_release(epsilon=1.0, clip=1.0, dimension=4, position="token")}, "sentence"),
        ({"plan": release_once(epsilon=1.0, clip=1.0, dimension=3), "pairs": True}, "even"),
    ],
)
def test_terms_that_make_no_sense_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        terms(**changes)
    with pytest.raises(DataError, match="not the terms"):
        Terms.from_json({"plan": {}})
    with pytest.raises(DataError, match="not complete"):
        Terms.from_json({**terms().to_json(), "surprise": 1})


def test_a_defect_of_the_server_is_not_told_in_detail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fastapi.testclient import TestClient

    Trainer.prepare(tmp_path, terms())
    trainer = Trainer(tmp_path)
    monkeypatch.setattr(trainer, "train", lambda: 1 / 0)
    with TestClient(create_app(trainer), raise_server_exceptions=False) as client:
        answer = client.post("/train")
    assert answer.status_code == 500
    assert "ZeroDivisionError" in answer.json()["detail"]
    assert "division by" not in answer.text
