"""Bodies that mean harm get a 4xx or a correct answer, and nobody's words come back in an error."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")
pytest.importorskip("httpx", reason="the extra 'server' is not installed")

from sfumato.text import pieces

Served = Callable[..., Any]
JSON = {"content-type": "application/json"}
MARK = "xyzzyplugh"
ZALGO = "c̶̢̛o̷̡͝l̸̨͠d̴̛̳ " * 40

UNREADABLE = {
    "empty": b"",
    "cut off": b'{"text": "' + MARK.encode(),
    "not JSON": MARK.encode(),
    "invalid UTF-8": b'{"text": "' + MARK.encode() + b'\xff\xfe"}',
    "overlong UTF-8": b'{"text": "\xc0\x80"}',
    "UTF-16": ('{"text": "' + MARK + '"}').encode("utf-16-be")[1:],
    "deep lists": b'{"text": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a list": b'["' + MARK.encode() + b'"]',
    "null": b"null",
    "a huge number": b'{"text": "a", "epsilon": ' + b"9" * 10_000 + b"}",
    "not a number": b'{"text": "a", "epsilon": NaN}',
    "infinite": b'{"text": "a", "epsilon": Infinity}',
    "half a character": b'{"text": "a\\ud800b"}',
    "half a character in a name": b'{"text": "a", "mechanism": "\\udfff"}',
    "half a character as a field": b'{"text": "a", "\\udfff": 1}',
    "an unknown field": b'{"text": "a", "' + MARK.encode() + b'": 1}',
    "both": b'{"text": "a", "texts": ["a"]}',
    "neither": b"{}",
    "a number for a text": b'{"text": 7}',
    "nested texts": b'{"texts": [["' + MARK.encode() + b'"]]}',
    "NUL in a subject": b'{"text": "a", "subject": "\\u0000"}',
    "a long name": b'{"text": "a", "mechanism": "' + MARK.encode() * 10 + b'"}',
}
WORDY = {
    "NUL": "cold\0hot \0",
    "right to left": "cold \u202ehot\u202c שלום مرحبا",
    "zalgo": ZALGO,
    "emoji": "cold 👩\u200d👩\u200d👧 hot 🏳️\u200d🌈",
    "spaces only": " \t\r\n\u3000\u2028",
    "nothing": "",
    "a byte order mark": "\ufeffcold",
    "private use": "\ue000\U0010fffd cold",
    "one long word": "a" * 100_000,
    "many words": "cold " * 20_000,
    "markup": "<script>alert(1)</script> cold &amp; {{7*7}} ${x}",
    "a URL": "http://a.example/" + "b" * 3000,
    "many ideographs": "寒い日" * 3000,
}


def _gaps(text: str) -> str:
    return "".join(pieces(text)[0::2])


@pytest.fixture
def client(served: Served, written: dict[str, Any]) -> Any:
    written["limits"] = {"requests_per_minute": 10_000_000, "burst": 1_000_000}
    return served(written, raise_server_exceptions=False)


@pytest.mark.parametrize("path", ["/v1/privatize", "/v1/explain"])
@pytest.mark.parametrize("name", UNREADABLE)
def test_bodies_that_cannot_be_read(client: Any, path: str, name: str) -> None:
    answer = client.post(path, content=UNREADABLE[name], headers=JSON)
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == answer.status_code
    assert MARK not in answer.text


@pytest.mark.parametrize("name", WORDY)
def test_texts_of_every_kind_come_out_in_shape(client: Any, name: str) -> None:
    text = WORDY[name]
    answer = client.post("/v1/privatize", json={"text": text})
    assert answer.status_code == 200, answer.text
    out = answer.json()["results"][0]["text"]
    assert _gaps(out) == _gaps(text)
    vocabulary = set(client.service.catalogue.mechanism(client.service.catalogue.choose(None, None, None)).space.words)
    if name != "many ideographs":  # words that stand without a space between them cannot be told apart again
        assert {word.lower() for word in pieces(out)[1::2]} <= vocabulary
    assert client.post("/v1/explain", json={"text": text[:5000]}).status_code == 200


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=60))
def test_any_text_keeps_its_gaps(client: Any, text: str) -> None:
    content = json.dumps({"text": text}).encode()
    answer = client.post("/v1/privatize", content=content, headers=JSON)
    if any("\ud800" <= character <= "\udfff" for character in text):
        assert answer.status_code == 422
    else:
        assert answer.status_code == 200
        assert _gaps(answer.json()["results"][0]["text"]) == _gaps(text)


def test_hostile_requests_around_the_body(client: Any) -> None:
    codes = [
        client.post(
            "/v1/privatize", content=b"text=cold", headers={"content-type": "application/x-www-form-urlencoded"}
        ),
        client.post("/v1/privatize", content=b'{"text": "a"}', headers={"content-type": "text/plain"}),
        client.get("/v1/privatize"),
        client.request("BREW", "/v1/privatize"),
        client.get(f"/{MARK}"),
        client.get(f"/page/..%2f{MARK}"),
        client.get("/page/../settings.py"),
        client.get("/v1/guarantee", params={"epsilon": "nan"}),
        client.get("/v1/guarantee", params={"mechanism": MARK}),
        client.get("/v1/budget/%00"),
        client.post("/v1/privatize", json={"text": "a"}, headers={"idempotency-key": "x" * 500}),
        client.post("/v1/privatize", json={"text": "a"}, headers={"authorization": b"Bearer \xe9\xe9"}),
    ]
    assert [answer.status_code for answer in codes if not 400 <= answer.status_code < 500] == []
    assert all(MARK not in answer.text for answer in codes)


def test_a_defect_says_nothing_of_the_text(
    client: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from sfumato.server import logs

    def broken(*arguments: Any, **more: Any) -> Any:
        raise KeyError(MARK)

    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # what is set up here ends with this test
    logs.set_up("info")
    monkeypatch.setattr(client.service.releases, "make", broken)
    answer = client.post("/v1/privatize", json={"text": MARK})
    assert answer.status_code == 500
    logged = capsys.readouterr().err
    assert "KeyError" in logged
    assert MARK not in logged + answer.text


def test_answers_carry_their_headers(client: Any) -> None:
    answer = client.post("/v1/privatize", json={"text": "cold"})
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert len(answer.headers["x-request-id"]) == 32
    page = client.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    for name in ("main.js", "api.js", "view.js", "words.js", "style.css", "icon.svg"):
        assert client.get(f"/page/{name}").status_code == 200
