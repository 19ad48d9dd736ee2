"""Answers as plain data."""

from __future__ import annotations

import math
from json import dumps
from typing import Any

from fastapi.responses import JSONResponse, Response

from sfumato.foundation.guarantee import Guarantee
from sfumato.ledger import Charge
from sfumato.ledger.records import shown
from sfumato.server.catalogue import Service
from sfumato.server.problems import MEDIA_TYPE
from sfumato.server.settings import Settings

_REASONS = {
    400: "The body is not JSON.", 401: "A valid key is needed.", 402: "The budget has not enough left.",
    403: "The key may not do this.", 404: "There is no such thing.", 408: "The body came too slowly.",
    409: "The idempotency key stands for another request.", 413: "The request is too large.",
    415: "The body is not said to be JSON.",
    422: "The request is not as the schema says, or names something that is not offered.",
    429: "Too many requests.", 502: "The chat model failed.", 503: "The service or its ledger is not available.",
    504: "The chat model was too slow.",
}  # fmt: skip


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the descriptions of error answers for the OpenAPI document."""
    schema = {"$ref": "#/components/schemas/Problem"}
    always = (401, 403, 408, 413, 421, 429)
    statuses = (*statuses, 415) if 400 in statuses else statuses  # those that read a body
    return {
        status: {"description": _REASONS.get(status, "An error."), "content": {MEDIA_TYPE: {"schema": schema}}}
        for status in sorted({*always, *statuses})
    }


def plain(value: Any) -> Any:
    """Return data that JSON can hold: what is not finite becomes null.

    >>> plain({"radius": math.inf, "epsilon": 1.0})
    {'radius': None, 'epsilon': 1.0}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value


def guarantee(promise: Guarantee) -> dict[str, Any]:
    """Return a guarantee."""
    return plain(promise.to_json())  # type: ignore[no-any-return]


def chosen(service: Service, settings: Settings) -> dict[str, Any]:
    """Return which offer a request went through."""
    choice = service.choice
    return {
        "mechanism": choice.mechanism,
        "algorithm": settings.mechanisms[choice.mechanism].algorithm,
        "tuning": choice.tuning,
        "epsilon": choice.epsilon,
        "policy": service.policy,
    }


def charged(charge: Charge | None) -> dict[str, Any] | None:
    """Return a charge, without its keys and its subject."""
    if charge is None:
        return None
    return {
        "kind": charge.kind, "amount": shown(charge.amount), "number": charge.number, "replayed": charge.replayed,
    }  # fmt: skip


def ascii_json(data: Any, headers: dict[str, str] | None = None) -> Response:
    """Return data as an answer in ASCII: also what another program spelt as half a character, which UTF-8 cannot hold.

    >>> ascii_json("\\ud800").body
    b'"\\\\ud800"'
    """
    return Response(dumps(data), headers=headers, media_type="application/json")


def json(data: Any, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return data as an answer."""
    return JSONResponse(data, headers=headers)
