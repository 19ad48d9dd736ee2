"""The optional packages of private representations, fetched when they are needed."""

from __future__ import annotations

import importlib
from typing import Any

from sfumato.foundation.errors import MissingExtraError


def torch() -> Any:
    """Return PyTorch."""
    return _required("torch", "torch", "torch")


def transformers() -> Any:
    """Return transformers."""
    return _required("transformers", "transformers", "transformers")


def sentence_transformers() -> Any:
    """Return sentence-transformers, which no extra installs: it brings much that is not needed otherwise."""
    return _required("sentence_transformers", "sentence-transformers", "transformers")


def safetensors() -> Any:
    """Return the safetensors functions for PyTorch."""
    return _required("safetensors.torch", "safetensors", "torch")


def fastapi() -> Any:
    """Return FastAPI."""
    return _required("fastapi", "fastapi", "server")


def uvicorn() -> Any:
    """Return uvicorn."""
    return _required("uvicorn", "uvicorn", "server")


def httpx() -> Any:
    """Return httpx."""
    return _required("httpx", "httpx", "server")


def _required(module: str, package: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(package, extra) from error
