"""What surrounds every request: an id, limits on its body, headers, a line in the log and figures.

This is plain ASGI, so that answers stream through it.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping, Sequence
from typing import Any

from sfumato.server import logs
from sfumato.server.keys import Caller
from sfumato.server.metrics import OTHER, Metrics, known_method
from sfumato.server.problems import MEDIA_TYPE, ProblemError, body
from sfumato.server.settings import Limits

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Identify = Callable[[str, Sequence[str]], Caller | None]
"""Tells who calls from the path and the authorization headers, or raises a problem."""

_QUIET = frozenset(("/health/live", "/health/ready", "/metrics"))
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"x-frame-options", b"DENY"),
)
_NO_CONTENT_POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")


class Envelope:
    """Wraps the application."""

    def __init__(
        self, app: Any, limits: Limits, metrics: Metrics, identify: Identify, hosts: Collection[str] = ()
    ) -> None:
        self._app = app
        self._limits = limits
        self._metrics = metrics
        self._identify = identify
        self._hosts = frozenset(host.lower().strip("[]") for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(self._app, self._limits, self._metrics, scope, receive, send)
        await exchange.run(self._identify, self._hosts)


class _Exchange:
    def __init__(
        self,
        app: Any,
        limits: Limits,
        metrics: Metrics,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        self._app, self._limits, self._metrics = app, limits, metrics
        self._scope, self._receive, self._send = scope, receive, send
        self._request_id = scope["sfumato.request_id"] = uuid.uuid4().hex
        self._start = time.perf_counter()
        self._deadline = asyncio.get_running_loop().time() + limits.body_seconds
        self._received = 0
        self._whole = False
        self._status = 0

    async def run(self, identify: Identify, hosts: frozenset[str]) -> None:
        self._metrics.running.inc()
        try:
            try:
                self._check_head(identify, hosts)
            except ProblemError as problem:
                await self._refuse(problem.status_code, str(problem.detail), problem.headers or {})
            else:
                await self._answered()
        finally:
            self._metrics.running.dec()
            self._told()

    def _check_head(self, identify: Identify, hosts: frozenset[str]) -> None:
        """Refuse what need not be read."""
        if hosts and self._addressed() not in hosts:
            raise ProblemError(421, "this service is not addressed by that name")
        self._scope["sfumato.caller"] = identify(self._scope["path"], self._values(b"authorization"))
        if self._scope["method"] == "POST" and not self._is_json():
            raise ProblemError(415, "send the body with the content type application/json")
        announced = self._values(b"content-length")
        if announced and announced[0].isdigit() and int(announced[0][:20]) > self._limits.body_bytes:
            raise ProblemError(*self._too_large())

    def _is_json(self) -> bool:
        """Return whether the body is said to be JSON: a page from elsewhere cannot say so without asking first."""
        said = self._values(b"content-type")
        kinds = [value.partition(";")[0].strip().lower() for value in said]
        return len(kinds) == 1 and re.fullmatch(r"application/(json|[\w.-]+\+json)", kinds[0]) is not None

    def _values(self, name: bytes) -> list[str]:
        return [value.decode("latin-1") for header, value in self._scope["headers"] if header == name]

    async def _answered(self) -> None:
        try:
            await self._app(self._scope, self._next, self._out)
        except Exception as error:
            # Errors that the application turned into answers already come here again; they were logged there.
            if not self._status:
                logs.unexpected(error, self._request_id)
                await self._refuse(500, "a defect of the service; please report it with the request id")

    def _addressed(self) -> str:
        """Return the name in the header Host, without its port; an IPv6 address stands in brackets."""
        asked = (self._values(b"host") or [""])[0].lower()
        return asked[1:].partition("]")[0] if asked.startswith("[") else asked.partition(":")[0]

    def _too_large(self) -> tuple[int, str]:
        self._metrics.limited.labels("body size").inc()
        return 413, f"the body has more than {self._limits.body_bytes} bytes"

    async def _next(self) -> Message:
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            self._metrics.limited.labels("slow body").inc()
            detail = f"the body did not come within {self._limits.body_seconds:g} seconds"
            raise ProblemError(408, detail, {"connection": "close"}) from None
        if message["type"] == "http.request":
            self._received += len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
            if self._received > self._limits.body_bytes:
                raise ProblemError(*self._too_large(), {"connection": "close"})
        return message

    async def _out(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = list(message["headers"])
            there = {name.lower() for name, _ in headers}
            headers += [pair for pair in _HEADERS if pair[0] not in there]
            if b"content-security-policy" not in there:
                headers.append(_NO_CONTENT_POLICY)
            headers.append((b"x-request-id", self._request_id.encode()))
            message = {**message, "headers": headers}
        await self._send(message)

    async def _refuse(self, status: int, detail: str, more: Mapping[str, str] | None = None) -> None:
        if self._status:
            return
        told = body(status, detail, self._request_id)
        content = json.dumps(told).encode()
        self._scope["sfumato.reason"] = told["title"]
        # What is left of the body is not read: the connection ends with this answer.
        headers = [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"content-length", str(len(content)).encode()),
            (b"connection", b"close"),
            *((name.encode(), value.encode()) for name, value in (more or {}).items()),
        ]
        await self._out({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": content})

    def _told(self) -> None:
        route = getattr(self._scope.get("route"), "path", None) or OTHER
        caller: Caller | None = self._scope.get("sfumato.caller")
        seconds = time.perf_counter() - self._start
        self._metrics.answered(route, self._scope["method"], self._status or 499, seconds)
        if route in _QUIET and self._status == 200:
            return
        logs.event(
            "request",
            request_id=self._request_id,
            route=route,
            method=known_method(self._scope["method"]),
            status=self._status or 499,
            reason=self._scope.get("sfumato.reason"),
            caller=None if caller is None else caller.id,
            bytes_in=self._received,
            milliseconds=logs.milliseconds_since(self._start),
        )
