"""The service itself: what it offers, budgets, health, figures and the page."""

from __future__ import annotations

import time
from importlib import resources

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from sfumato.ledger import Ledger, LedgerError
from sfumato.ledger.amounts import MEANINGS
from sfumato.ledger.records import shown
from sfumato.server import answers, schemas
from sfumato.server.answers import problems
from sfumato.server.catalogue import known
from sfumato.server.metrics import CONTENT_TYPE
from sfumato.server.problems import ProblemError
from sfumato.server.settings import Settings
from sfumato.server.state import Known, Shared, State, require_scope

router = APIRouter()

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_LEDGER_SEEN_SECONDS = 1.0
"""The ledger is looked at this often at most: anybody may ask whether the service is ready."""
_TYPES = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8",
          "svg": "image/svg+xml"}  # fmt: skip


@router.get("/v1/offers", response_model=schemas.OffersAnswer, responses=problems(), summary="List what may be named")
def offers(state: Shared, caller: Known) -> JSONResponse:
    """Return the mechanisms and policies this caller may name, and the limits."""
    settings = state.settings
    mechanisms = []
    for name, offered in settings.mechanisms.items():
        if not caller.may_use(name):
            continue
        choices = state.catalogue.choices(name)
        found = known(offered)
        mechanisms.append(
            {
                "name": name,
                "algorithm": offered.algorithm,
                "summary": "" if found is None else found.summary,
                "sound": state.catalogue.mechanism(choices[0]).guarantee.sound,
                "tunings": list(dict.fromkeys(choice.tuning for choice in choices if choice.tuning)),
                "epsilons": list(dict.fromkeys(choice.epsilon for choice in choices if choice.epsilon)),
                "refused": [
                    {
                        "mechanism": name, "algorithm": offered.algorithm, "tuning": one.tuning, "epsilon": one.epsilon,
                        "policy": settings.policy,
                    }
                    for one in state.catalogue.refused(name)
                ],
            }
        )  # fmt: skip
    mechanisms.sort(key=lambda one: one["name"] != settings.mechanism)
    chat = settings.chat
    data = {
        "mechanisms": mechanisms,
        "policies": sorted(filter(caller.may_choose, settings.policies), key=lambda name: name != settings.policy),
        "scopes": sorted(caller.scopes),
        "subject": caller.subject,
        "budgets": settings.ledger is not None,
        "limits": _limits(settings),
        "chat_models": list(chat.models) if chat is not None and "chat" in caller.scopes else [],
        "chat_restore": chat is not None and chat.restore != "never",
    }
    return answers.json(data)


def _limits(settings: Settings) -> dict[str, float]:
    limits = settings.limits
    return {
        "body_bytes": limits.body_bytes,
        "text_chars": limits.text_chars,
        "batch_texts": limits.batch_texts,
        "explained_words": limits.explained_words,
    }


@router.get(
    "/v1/budget/{subject:path}",
    response_model=schemas.BudgetAnswer,
    responses=problems(404, 422, 503),
    summary="Show what a subject may still spend",
)
def budget(subject: str, state: Shared, caller: Known) -> JSONResponse:
    """Return the budget of a subject that the key may speak for."""
    require_scope(caller, "budget")
    ledger = state.releases.ledger
    if ledger is None or state.settings.ledger is None:
        raise ProblemError(404, "this service keeps no budgets")
    if not caller.may_name(subject):
        raise ProblemError(403, "this key may not speak for that subject")
    found = ledger.budget(subject, state.settings.ledger.kind)
    return answers.json(
        {
            "kind": found.kind,
            "meaning": MEANINGS[found.kind],
            "limit": shown(found.limit),
            "spent": shown(found.spent),
            "left": shown(found.left),
            "charges": found.charges,
        }
    )


@router.get("/health/live", response_model=schemas.Health, summary="Is the process there?")
def live(state: Shared) -> JSONResponse:
    """Answer as long as the process can."""
    from sfumato import __version__

    return answers.json({"status": "draining" if state.draining() else "ok", "version": __version__})


@router.get("/health/ready", response_model=schemas.Health, responses=problems(503), summary="Can it take requests?")
def ready(state: Shared) -> JSONResponse:
    """Answer whether requests can be served: not while the service ends, nor without its ledger."""
    from sfumato import __version__

    if state.draining():
        raise ProblemError(503, "the service is ending")
    if state.releases.ledger is not None and not _there(state, state.releases.ledger):
        raise ProblemError(503, "the ledger is not available")
    return answers.json({"status": "ok", "version": __version__})


def _there(state: State, ledger: Ledger) -> bool:
    """Return whether the ledger answered when it was last looked at; one request at a time looks again, after a while.

    One that is gone is waited for: requests that anybody may make must not take the threads of others with that.
    """
    if time.monotonic() > state.ledger_looked + _LEDGER_SEEN_SECONDS and state.looking.acquire(blocking=False):
        try:
            next(iter(ledger.budgets()), None)
            state.ledger_there = True
        except LedgerError:
            state.ledger_there = False
        finally:
            state.ledger_looked = time.monotonic()
            state.looking.release()
    return state.ledger_there


@router.get("/metrics", responses=problems(), response_class=Response, summary="Figures for Prometheus")
def metrics(state: Shared, caller: Known) -> Response:
    """Return the figures of all processes."""
    if not state.settings.metrics.public:
        require_scope(caller, "metrics")
    return Response(state.metrics.text(), media_type=CONTENT_TYPE)


def page_files() -> dict[str, tuple[bytes, str]]:
    """Return the files of the page with their types; they are read once and are few."""
    folder = resources.files("sfumato.server") / "page"
    return {
        file.name: (file.read_bytes(), _TYPES[file.name.rpartition(".")[2]])
        for file in folder.iterdir()
        if file.name.rpartition(".")[2] in _TYPES
    }


def page_router() -> APIRouter:
    """Return the routes of the page."""
    files = page_files()
    routes = APIRouter(include_in_schema=False)

    def sent(name: str) -> Response:
        if name not in files:
            raise ProblemError(404, "there is no such file")
        content, kind = files[name]
        return Response(content, media_type=kind, headers={"content-security-policy": CONTENT_POLICY})

    @routes.get("/")
    async def index() -> Response:
        return sent("index.html")

    @routes.get("/page/{name}")
    async def file(name: str) -> Response:
        return sent(name)

    return routes
