"""What the routes of one process share, and the guard in front of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, cast

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


def rates(settings: Settings) -> dict[str, float]:
    """Return how many requests a minute each caller may make."""
    usual = settings.limits.requests_per_minute
    found = {key.id: key.requests_per_minute or usual for key in settings.keys}
    return {**found, ANONYMOUS: usual, FAILURES: settings.limits.failures_per_minute}


def state_of(request: Request) -> State:
    """Return what the routes share."""
    return cast(State, request.app.state.sfumato)


Shared = Annotated[State, Depends(state_of)]
_bearer = HTTPBearer(auto_error=False, description="An API key made with `sfumato serve --new-key NAME`.")


def _limited(state: State, bucket: str) -> None:
    wait = state.buckets.take(bucket)
    if wait:
        state.metrics.limited.labels("rate").inc()
        raise ProblemError(429, "too many requests; try again later", {"retry-after": str(max(1, round(wait + 0.5)))})


async def find_caller(
    request: Request, state: Shared, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Caller:
    """Return who makes a request, within their rate."""
    if given is None:
        if "authorization" in request.headers:
            _limited(state, FAILURES)
            raise ProblemError(401, "give the key as: Authorization: Bearer KEY", {"www-authenticate": "Bearer"})
        caller = state.keyring.anonymous
    else:
        found = state.keyring.find(given.credentials)
        if found is None:
            _limited(state, FAILURES)
            raise ProblemError(401, "there is no such key", {"www-authenticate": "Bearer"})
        caller = found
    request.scope["sfumato.caller"] = caller.id
    _limited(state, caller.id)
    return caller


Known = Annotated[Caller, Depends(find_caller)]


def require_scope(caller: Caller, scope: Scope) -> None:
    """Raise where a caller may not do something."""
    if scope in caller.scopes:
        return
    if caller.id == ANONYMOUS:
        raise ProblemError(401, "a key is needed: Authorization: Bearer KEY", {"www-authenticate": "Bearer"})
    raise ProblemError(403, f"this key does not have the scope {scope}")
