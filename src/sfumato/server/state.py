"""What the routes of one process share, and the guard in front of them."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, cast

import anyio
from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from sfumato.server.auditing import Audit
from sfumato.server.buckets import Buckets
from sfumato.server.catalogue import Catalogue, Choice
from sfumato.server.keys import ANONYMOUS, Caller, Keyring
from sfumato.server.metrics import Metrics
from sfumato.server.problems import ProblemError
from sfumato.server.releasing import Releases
from sfumato.server.settings import Scope, Settings

FAILURES = "*failures*"
"""The bucket of requests without a valid key; no key has such a name."""
NO_KEY = "a key is needed: Authorization: Bearer KEY"


@dataclass
class State:
    """One process of the service."""

    settings: Settings
    catalogue: Catalogue
    releases: Releases
    keyring: Keyring
    buckets: Buckets
    metrics: Metrics
    upstream: Any = None
    """The client of the chat model, while the service runs."""
    draining: Callable[[], bool] = lambda: False
    audits: dict[Choice, Audit] = field(default_factory=dict)
    auditing: anyio.Lock = field(default_factory=anyio.Lock)
    ledger_looked: float = -math.inf
    """When the ledger was last looked at, by the monotonic clock."""
    ledger_there: bool = False
    """Whether it answered then."""
    looking: threading.Lock = field(default_factory=threading.Lock)
    """Held by whoever looks at the ledger."""


def rates(settings: Settings) -> dict[str, float]:
    """Return how many requests a minute each caller may make."""
    usual = settings.limits.requests_per_minute
    found = {key.id: key.requests_per_minute or usual for key in settings.keys}
    return {**found, ANONYMOUS: usual, FAILURES: settings.limits.failures_per_minute}


async def state_of(request: Request) -> State:
    """Return what the routes share."""
    return cast(State, request.app.state.sfumato)


Shared = Annotated[State, Depends(state_of)]
_bearer = HTTPBearer(auto_error=False, description="An API key made with `sfumato serve --new-key NAME`.")
_CHALLENGE = {"www-authenticate": "Bearer"}


def _limited(state: State, bucket: str) -> None:
    wait = state.buckets.take(bucket)
    if wait:
        state.metrics.limited.labels("rate").inc()
        raise ProblemError(429, "too many requests; try again later", {"retry-after": str(max(1, round(wait + 0.5)))})


def _refused(state: State, detail: str) -> ProblemError:
    _limited(state, FAILURES)
    return ProblemError(401, detail, _CHALLENGE)


def identified(state: State, path: str, given: Sequence[str]) -> Caller | None:
    """Return who makes a request, within their rate, from its path and its authorization headers.

    This happens before a byte of the body is read.  None stands for what everybody may see: the page and health.
    """
    if not path.startswith("/v1/") and (path != "/metrics" or state.settings.metrics.public):
        return None
    if not given:
        if not state.settings.anonymous.scopes:
            raise _refused(state, NO_KEY)
        caller = state.keyring.anonymous
    else:
        scheme, _, key = given[0].partition(" ")
        if len(given) > 1 or scheme.lower() != "bearer":
            raise _refused(state, "give the key as: Authorization: Bearer KEY")
        found = state.keyring.find(key.strip())
        if found is None:
            raise _refused(state, "there is no such key")
        caller = found
    _limited(state, caller.id)
    return caller


async def _known(request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> Caller:
    return cast(Caller, request.scope["sfumato.caller"])


Known = Annotated[Caller, Depends(_known)]


def require_own_key(caller: Caller) -> None:
    """Raise where noise could be asked for again by anybody who guesses what the caller said.

    All callers without an API key are one to the service.  One who has seen an output of another could try texts under the same
    idempotency key until one gives that output.
    """
    if caller.id == ANONYMOUS:
        raise ProblemError(
            422, "an idempotency key or a conversation needs an API key: without one, others could repeat the request"
        )


def require_scope(caller: Caller, scope: Scope) -> None:
    """Raise where a caller may not do something."""
    if scope in caller.scopes:
        return
    if caller.id == ANONYMOUS:
        raise ProblemError(401, NO_KEY, _CHALLENGE)
    raise ProblemError(403, f"this key does not have the scope {scope}")
