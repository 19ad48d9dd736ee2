"""``POST /v1/chat/completions``: the user's words are replaced before a chat model sees them."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Response
from fastapi.concurrency import run_in_threadpool

from sfumato.server import answers
from sfumato.server.answers import problems
from sfumato.server.catalogue import NotOfferedError
from sfumato.server.chat import ChatAnswer, ChatRequest, Passed, Streamed, Upstream, closed, passed_on
from sfumato.server.keys import Caller
from sfumato.server.problems import ProblemError
from sfumato.server.releasing import Release
from sfumato.server.restoring import Restorer
from sfumato.server.routes_texts import (
    IdempotencyKey,
    aligned_pieces,
    count_charge,
    require_within,
)
from sfumato.server.settings import ChatSettings
from sfumato.server.state import Known, Shared, State, require_own_key, require_scope
from sfumato.text import pieces

router = APIRouter(prefix="/v1")

GUARANTEE_HEADER = "sfumato-guarantee"
_HEADER_FIELDS = ("kind", "mechanism", "unit", "epsilon", "certified", "metric", "mu", "delta", "sound", "secure")

_EVENT = {
    "type": "object",
    "description": "One event of the stream.",
    "required": ["data"],
    "properties": {"data": {"type": "string", "description": "A part of the answer, as JSON; at the end [DONE]."}},
}


@router.post(
    "/chat/completions",
    response_model=ChatAnswer,
    responses={
        200: {"content": {"text/event-stream": {"schema": _EVENT}},
              "headers": {"Sfumato-Guarantee": {"schema": {"type": "string"}, "description": "The promise, as JSON."}}},
        **problems(400, 402, 404, 409, 422, 502, 503, 504),
    },
    summary="Ask a chat model without showing it the words",
)  # fmt: skip
async def complete(
    asked: ChatRequest, state: Shared, caller: Known, idempotency_key: IdempotencyKey = None
) -> Response:
    """Replace the protected words of the messages, charge the subject, pass them on and return the answer.

    Where the conversation is named, messages that are sent again are neither drawn nor charged anew.
    The system's messages pass as they are unless the operator says otherwise.  The promise about what the model saw is in
    the header `Sfumato-Guarantee`.
    """
    require_scope(caller, "chat")
    settings = _settings(state)
    model = asked.model or settings.models[0]
    if model not in settings.models:
        raise NotOfferedError(f"no model of that name is offered; choose one of {', '.join(settings.models)}")
    if asked.sfumato_restore and settings.restore == "never":
        raise ProblemError(403, "the operator does not allow that replaced words are put back")
    if asked.sfumato_conversation is not None and idempotency_key is not None:
        raise ProblemError(422, "give a conversation or an idempotency key: a conversation is repeatable by itself")
    if asked.sfumato_conversation is not None or idempotency_key is not None:
        require_own_key(caller)
    require_within(state.settings.limits, [message.text for message in asked.messages])
    passed, release = await run_in_threadpool(_prepare, state, settings, caller, asked, model, idempotency_key)
    headers = {GUARANTEE_HEADER: _header(release)}
    upstream = Upstream(state.upstream, settings)
    try:
        opened = await upstream.open(passed.body)
        if asked.stream:
            state.metrics.upstream.labels("streamed").inc()
            return Streamed(upstream.parts(opened, passed.restorer), opened, headers)
        try:
            found = await upstream.whole(opened, passed.restorer)
        finally:
            await closed(opened)
    except ProblemError as problem:
        state.metrics.upstream.labels("failed").inc()
        raise ProblemError(problem.status_code, str(problem.detail), headers) from None
    state.metrics.upstream.labels("answered").inc()
    return answers.ascii_json(found, headers)


def _settings(state: State) -> ChatSettings:
    assert state.settings.chat is not None  # the route is there only with these settings
    return state.settings.chat


def _prepare(
    state: State, settings: ChatSettings, caller: Caller, asked: ChatRequest, model: str, key: str | None
) -> tuple[Passed, Release]:
    """Charge and draw what the upstream may see."""
    service = state.catalogue.service(settings.mechanism, None, None, settings.policy)
    chosen = [place for place, message in enumerate(asked.messages) if message.role in settings.roles]
    before = [asked.messages[place].text for place in chosen]
    subject, conversation = asked.sfumato_subject, asked.sfumato_conversation
    if conversation is None:
        release = state.releases.make(service, caller, before, subject=subject, key=key)
    else:
        named = dict(zip(chosen, before, strict=True))
        release = state.releases.make_conversation(service, caller, named, subject=subject, conversation=conversation)
    count_charge(state, release.charge)
    state.metrics.words.labels(service.choice.mechanism).inc(release.protected)
    texts = [message.text for message in asked.messages]
    for place, text in zip(chosen, release.texts, strict=True):
        texts[place] = text
    restorer = None
    if asked.sfumato_restore:
        pairs = [(pieces(old), aligned_pieces(old, new)) for old, new in zip(before, release.texts, strict=True)]
        untouched = [pieces(message.text) for message in asked.messages if message.role not in settings.roles]
        restorer = Restorer(
            [(old, new) for old, new in pairs if new is not None] + [(words, words) for words in untouched]
        )
    return Passed(passed_on(asked, texts, model), restorer), release


def _header(release: Release) -> str:
    """Return the promise in one line of ASCII."""
    data: dict[str, Any] = release.guarantee.to_json()
    short = {name: data[name] for name in _HEADER_FIELDS if name in data}
    short |= {"protected_words": release.protected, "longest_message": release.longest}
    document = release.composition or {}
    if document.get("greatest_loss") is not None:
        short["greatest_loss_of_a_message"] = document["greatest_loss"]
    return json.dumps(answers.plain(short), ensure_ascii=True, separators=(",", ":"))
