"""The proxy in front of a chat model: what goes to it, and what comes back.

Only what this module knows is passed on: messages of text, and numbers.  A field that is not known could carry words past
the policy, so it is refused rather than passed or dropped unseen.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import anyio
import httpx
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from sfumato.server.events import TooLongError, event_data
from sfumato.server.problems import ProblemError
from sfumato.server.restoring import Restorer
from sfumato.server.schemas import Input, Subject
from sfumato.server.settings import ChatSettings

_CONNECT_SECONDS = 5.0
_DONE = b"data: [DONE]\n\n"


class TextPart(Input):
    """A part of a message."""

    type: Literal["text"]
    text: str


class ChatMessage(Input):
    """One message; pictures, calls of tools and names are not passed on."""

    role: Literal["user", "assistant", "system", "developer", "tool"]
    content: str | Annotated[list[TextPart], Field(min_length=1)]

    @property
    def text(self) -> str:
        """The whole text."""
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class StreamOptions(Input):
    """What a stream carries besides the answer."""

    include_usage: bool = False


class ChatRequest(Input):
    """A request for a chat completion, as far as it can be passed on without passing words unseen."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"messages": [{"role": "user", "content": "My knee has hurt since March."}], "stream": True},
            ]
        }
    )
    model: Annotated[str, Field(max_length=200)] | None = Field(None, description="One that the operator offers.")
    messages: list[ChatMessage] = Field(min_length=1)
    stream: bool = False
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2, allow_inf_nan=False)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2, allow_inf_nan=False)] | None = None
    seed: Annotated[int, Field(ge=0, le=2**53)] | None = None
    n: Literal[1] = 1
    sfumato_subject: Subject | None = Field(None, description="Whose budget is charged.")
    sfumato_conversation: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        None,
        description="Names the conversation: a message that is sent again in it gets the noise it had and is charged once.",
    )
    sfumato_restore: bool = Field(
        False, description="Put replaced words back into the answer, where the operator allows it."
    )


class ChatChoice(BaseModel):
    """One answer."""

    model_config = ConfigDict(extra="allow")
    index: int
    message: dict[str, Any]
    finish_reason: str | None


class ChatAnswer(BaseModel):
    """A chat completion."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "object": "chat.completion",
                    "model": "small",
                    "choices": [
                        {"index": 0, "message": {"role": "assistant", "content": "..."}, "finish_reason": "stop"}
                    ],
                }
            ]
        }
    )
    object: Literal["chat.completion"]
    model: str
    choices: list[ChatChoice]


class Streamed(StreamingResponse):
    """A stream that ends the upstream's answer with it, also where the caller is gone before it begins."""

    def __init__(self, parts: AsyncIterator[bytes], answer: httpx.Response, headers: dict[str, str]) -> None:
        super().__init__(parts, headers=headers, media_type="text/event-stream")
        self._answer = answer

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await closed(self._answer)


async def closed(answer: httpx.Response) -> None:
    """Close an answer, also while the request it belongs to is being given up."""
    with anyio.CancelScope(shield=True):
        await answer.aclose()


@dataclass(frozen=True)
class Passed:
    """A request as the upstream gets it."""

    body: dict[str, Any] = field(repr=False)
    restorer: Restorer | None


def new_client(settings: ChatSettings) -> httpx.AsyncClient:
    """Return a client that knows nothing of the environment: no proxy and no password file is picked up by accident."""
    headers = {"user-agent": "sfumato", "accept-encoding": "identity"}  # a stream is passed on as it comes
    if settings.key_file is not None:
        headers["authorization"] = f"Bearer {settings.key_file.read_text(encoding='utf-8').strip()}"
    timeout = httpx.Timeout(settings.timeout, connect=min(_CONNECT_SECONDS, settings.timeout))
    return httpx.AsyncClient(headers=headers, timeout=timeout, trust_env=False, follow_redirects=False)


def passed_on(asked: ChatRequest, texts: list[str], model: str) -> dict[str, Any]:
    """Return the body for the upstream; ``texts`` are the messages as it may see them."""
    left_out = {"messages", "model", "sfumato_subject", "sfumato_conversation", "sfumato_restore", "n"}
    numbers = asked.model_dump(exclude=left_out, exclude_none=True)
    messages = [{"role": message.role, "content": text} for message, text in zip(asked.messages, texts, strict=True)]
    return {"model": model, "messages": messages, **numbers}


class Upstream:
    """Speaks to the chat model."""

    def __init__(self, client: httpx.AsyncClient, settings: ChatSettings) -> None:
        self._client = client
        self._address = settings.upstream.rstrip("/") + "/chat/completions"
        self._most = settings.answer_bytes

    async def open(self, body: dict[str, Any]) -> httpx.Response:
        """Send a request and return the answer as soon as it begins; the caller closes it."""
        request = self._client.build_request("POST", self._address, json=body)
        try:
            answer = await self._client.send(request, stream=True)
        except httpx.TimeoutException:
            raise ProblemError(504, "the chat model did not answer in time") from None
        except httpx.HTTPError:
            raise ProblemError(502, "the chat model cannot be reached") from None
        if answer.status_code != 200:
            await answer.aclose()
            # What it says is not passed on: it may quote the messages.
            raise ProblemError(502, f"the chat model answered with status {answer.status_code}")
        return answer

    async def whole(self, answer: httpx.Response, restorer: Restorer | None) -> dict[str, Any]:
        """Return a complete answer."""
        received = bytearray()
        try:
            async for part in answer.aiter_bytes():
                received += part
                if len(received) > self._most:
                    raise ProblemError(502, "the answer of the chat model is too long")
            found = _answer(json.loads(bytes(received)))
        except httpx.HTTPError:
            raise ProblemError(502, "the answer of the chat model broke off") from None
        except (ValueError, RecursionError):
            raise ProblemError(502, "the answer of the chat model is not a chat completion") from None
        for choice in found["choices"]:
            content = choice["message"].get("content")
            if restorer is not None and isinstance(content, str):
                choice["message"]["content"] = restorer.whole(content)
        return found

    async def parts(self, answer: httpx.Response, restorer: Restorer | None) -> AsyncIterator[bytes]:
        """Yield a stream of server-sent events, with replaced words put back where that was asked for."""
        last: dict[str, Any] = {}
        try:
            async for written in event_data(answer.aiter_bytes(), most=self._most):
                if written == "[DONE]":
                    break
                event = _checked(json.loads(written))
                last = event if event.get("choices") else last
                yield _event(event if restorer is None else _restored(event, restorer))
            rest = restorer.finish() if restorer is not None else ""
            if rest and last:
                choice = {"index": 0, "delta": {"content": rest}, "finish_reason": None}
                yield _event({**last, "choices": [choice]})
            yield _DONE
        except TooLongError:
            yield _event({"error": {"message": "the answer of the chat model is too long", "code": 502}})
        except (httpx.HTTPError, ValueError, RecursionError):
            yield _event({"error": {"message": "the answer of the chat model broke off", "code": 502}})


def _checked(event: Any) -> dict[str, Any]:
    """Return an event that has the shape that is read of it."""
    if not isinstance(event, dict):
        raise ValueError("not an event of a chat completion")
    choices = event.get("choices")
    if choices is not None and not (
        isinstance(choices, list)
        and all(isinstance(one, dict) and isinstance(one.get("delta", {}), (dict, type(None))) for one in choices)
    ):
        raise ValueError("not an event of a chat completion")
    return event


def _restored(event: dict[str, Any], restorer: Restorer) -> dict[str, Any]:
    for choice in event.get("choices") or ():
        delta = choice.get("delta") or {}
        if isinstance(delta.get("content"), str):
            delta["content"] = restorer.feed(delta["content"])
        if choice.get("finish_reason") is not None:
            delta["content"] = (delta.get("content") or "") + restorer.finish()
            choice["delta"] = delta
    return event


def _answer(found: Any) -> dict[str, Any]:
    """Return a completion that has what is read of it."""
    choices = found.get("choices") if isinstance(found, dict) else None
    if not isinstance(choices, list) or not all(
        isinstance(one, dict) and isinstance(one.get("message"), dict) for one in choices
    ):
        raise ValueError("not a completion")
    json.dumps(found, allow_nan=False)  # or raise: what is not finite is not JSON, and could not be passed on
    kept = {name: found[name] for name in ("id", "created", "usage") if name in found}
    listed = [
        {"index": place, "message": one["message"], "finish_reason": one.get("finish_reason")}
        for place, one in enumerate(choices)
    ]
    return {**kept, "object": "chat.completion", "model": str(found.get("model", "")), "choices": listed}


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data, allow_nan=False).encode() + b"\n\n"
