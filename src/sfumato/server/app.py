"""The application: everything of one process put together."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
from fastapi import FastAPI

from sfumato import __version__
from sfumato.ledger import Ledger
from sfumato.server import chat, problems, routes_chat, routes_service, routes_texts
from sfumato.server.buckets import Buckets, new_file
from sfumato.server.catalogue import Catalogue, compiled
from sfumato.server.configuration import read
from sfumato.server.envelope import Envelope
from sfumato.server.keys import Keyring
from sfumato.server.metrics import Metrics
from sfumato.server.noise import NoiseKey
from sfumato.server.releasing import Releases
from sfumato.server.schemas import Problem
from sfumato.server.settings import Settings
from sfumato.server.state import State, identified, rates

_ABOUT = (
    "Sfumato replaces the protected words of a text by random ones that are likelier to be near in meaning, and bounds "
    "what an observer of the output can learn. Mechanisms and policies are named; what they are is the operator's."
)


def noise_secret(settings: Settings) -> bytes:
    """Return the secret of the service; one that lasts as long as this run, where no file is named."""
    if settings.noise.key_file is None:
        return secrets.token_bytes(32)
    return settings.noise.key_file.read_bytes().strip()


def open_ledger(settings: Settings) -> Ledger | None:
    """Open the ledger, where there is one."""
    if settings.ledger is None:
        return None
    file = settings.ledger.subject_key_file
    key = None if file is None else file.read_bytes().strip()
    return Ledger.open(settings.ledger.url, subject_key=key, timeout=settings.ledger.timeout)


def create_state(
    settings: Settings, catalogue: Catalogue, *, secret: bytes | None = None, rate_file: int | None = None
) -> State:
    """Return what the routes share; ``secret`` and ``rate_file`` come from the supervisor where there is one."""
    limits = rates(settings)
    return State(
        settings,
        catalogue,
        Releases(open_ledger(settings), NoiseKey(secret or noise_secret(settings))),
        Keyring(settings.keys, settings.anonymous),
        Buckets(
            limits, burst=settings.limits.burst, descriptor=new_file(len(limits)) if rate_file is None else rate_file
        ),
        Metrics(),
    )


def application(config: str | Path) -> Envelope:
    """Return the service as one ASGI application, for a server of your own or for tests.

    ``sfumato serve`` does more: it runs several processes, keeps them running and bounds what connections may do.
    """
    settings = read(Path(config))
    return create_app(create_state(settings, Catalogue(settings, compiled(settings))))


def create_app(state: State, draining: Callable[[], bool] = lambda: False) -> Envelope:
    """Return the ASGI application."""
    settings = state.settings
    state.draining = draining

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = settings.limits.threads
        state.upstream = chat.new_client(settings.chat) if settings.chat is not None else None
        try:
            yield
        finally:
            if state.upstream is not None:
                await state.upstream.aclose()
            if state.releases.ledger is not None:
                state.releases.ledger.close()

    app = FastAPI(title="Sfumato", version=__version__, description=_ABOUT, docs_url=None, redoc_url=None,
                  lifespan=lifespan, redirect_slashes=False)  # fmt: skip
    app.state.sfumato = state
    app.include_router(routes_texts.router)
    app.include_router(routes_service.router)
    if settings.chat is not None:
        app.include_router(routes_chat.router)
    if settings.page.enabled:
        app.include_router(routes_service.page_router())
    problems.install(app)
    _describe(app, open_to_all=bool(settings.anonymous.scopes))
    return Envelope(app, settings.limits, state.metrics, partial(identified, state), settings.server.hosts)


def _describe(app: FastAPI, *, open_to_all: bool) -> None:
    """Add the schema of problems, which every route refers to, to the OpenAPI document, and say where a key is optional."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = generate()
            components = document.setdefault("components", {}).setdefault("schemas", {})
            components["Problem"] = Problem.model_json_schema()
            for unused in ("HTTPValidationError", "ValidationError"):
                components.pop(unused, None)
            for operations in document["paths"].values() if open_to_all else ():
                for operation in operations.values():
                    if "security" in operation:
                        operation["security"].insert(0, {})
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
