"""The optional packages of the service, looked for before anything is begun."""

from __future__ import annotations

import importlib.util

from sfumato.foundation.errors import MissingExtraError

_NEEDED = {
    "pydantic": "pydantic",
    "fastapi": "fastapi",
    "uvicorn": "uvicorn",
    "httptools": "httptools",
    "httpx": "httpx",
    "prometheus_client": "prometheus-client",
}


def require_server_extra() -> None:
    """Raise where a package of the extra ``server`` is missing."""
    for module, package in _NEEDED.items():
        if importlib.util.find_spec(module) is None:
            raise MissingExtraError(package, "server")
