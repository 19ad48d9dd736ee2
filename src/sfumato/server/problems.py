"""Errors as answers (RFC 9457), with nothing of the request in them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from sfumato.foundation.errors import BudgetError, CertificationError, ParameterError, SfumatoError
from sfumato.ledger import LedgerError, OverdraftError, ReusedKeyError, UnknownBudgetError
from sfumato.release.single import ReleasedBeforeError
from sfumato.server.catalogue import NotOfferedError
from sfumato.server.logs import unexpected
from sfumato.server.releasing import SubjectError

MEDIA_TYPE = "application/problem+json"
_STATUS: tuple[tuple[type[SfumatoError], int, str], ...] = (
    (OverdraftError, 402, "budget exhausted"),
    (UnknownBudgetError, 404, "no such budget"),
    (ReusedKeyError, 409, "idempotency key reused"),
    (ReleasedBeforeError, 409, "released before"),
    (LedgerError, 503, "ledger not available"),
    (BudgetError, 409, "budget does not allow it"),
    (NotOfferedError, 422, "not offered"),
    (SubjectError, 403, "subject not allowed"),
    (CertificationError, 422, "no certificate"),
    (ParameterError, 422, "not valid"),
)
_TITLES = {
    400: "not readable", 401: "no valid key", 403: "not allowed", 404: "not found", 405: "method not allowed",
    408: "too slow", 413: "too large", 415: "not JSON", 421: "wrong address",
    422: "not valid", 429: "too many requests", 500: "defect", 502: "upstream failed", 503: "not available",
    504: "upstream too slow",
}  # fmt: skip


class ProblemError(HTTPException):
    """An answer that is an error."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(status, detail, headers)


def body(
    status: int, detail: str, request_id: str | None, title: str = "", problems: Iterable[str] = ()
) -> dict[str, Any]:
    """Return a problem as data."""
    found: dict[str, Any] = {
        "type": "about:blank",
        "title": title or _TITLES.get(status, "error"),
        "status": status,
        "detail": detail,
        "request_id": request_id,
    }
    listed = list(problems)
    return {**found, "problems": listed} if listed else found


def answer(request: Request, status: int, detail: str, title: str = "", **more: Any) -> JSONResponse:
    """Return a problem as a response."""
    request_id = request.scope.get("sfumato.request_id")
    request.scope["sfumato.reason"] = title or _TITLES.get(status, "error")
    headers = more.pop("headers", None)
    return JSONResponse(body(status, detail, request_id, title, **more), status, headers, MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Turn every error of the application into a problem."""

    @app.exception_handler(SfumatoError)
    async def _ours(request: Request, error: SfumatoError) -> JSONResponse:
        for kind, status, title in _STATUS:
            if isinstance(error, kind):
                return answer(request, status, str(error), title)
        return answer(request, 422, str(error))

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> JSONResponse:
        if isinstance(error, ProblemError):
            return answer(request, error.status_code, str(error.detail), headers=error.headers)
        # The framework's own messages are replaced: some of them quote the request.
        detail = (
            "the body cannot be read as JSON" if error.status_code == 400 else _TITLES.get(error.status_code, "error")
        )
        return answer(request, error.status_code, detail, headers=error.headers)

    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        found = [_shown(one) for one in error.errors()]
        unreadable = any(one["type"] == "json_invalid" for one in error.errors())
        detail = "the body cannot be read as JSON" if unreadable else "the request is not as the schema says"
        return answer(request, 400 if unreadable else 422, detail, problems=list(dict.fromkeys(found))[:20])

    @app.exception_handler(Exception)
    async def _defect(request: Request, error: Exception) -> JSONResponse:
        unexpected(error, request.scope.get("sfumato.request_id"))
        return answer(request, 500, "a defect of the service; please report it with the request id")


def _shown(error: Any) -> str:
    """Return a validation error by place and reason; a name that the schema does not have is not repeated."""
    place = [str(part) for part in error["loc"]]
    if error["type"] in ("extra_forbidden", "json_invalid"):
        place = place[:-1]
    reason = "an unknown field" if error["type"] == "extra_forbidden" else str(error["msg"])
    return f"{'.'.join(place)}: {reason}"
