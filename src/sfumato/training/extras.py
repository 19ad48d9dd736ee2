"""The optional packages of private training, fetched when they are needed."""

from __future__ import annotations

import importlib
from typing import Any

from sfumato.foundation.errors import MissingExtraError


def torch() -> Any:
    """Return PyTorch."""
    return required("torch", "torch", "training")


def transformers() -> Any:
    """Return Hugging Face transformers."""
    return required("transformers", "transformers", "training")


def flower(module: str = "flwr") -> Any:
    """Return a module of Flower."""
    return required(module, "flwr", "federated")


def required(module: str, package: str, extra: str) -> Any:
    """Return a module of an optional package, or say which extra installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        raise MissingExtraError(package, extra) from error
