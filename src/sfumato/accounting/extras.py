"""The optional package dp-accounting, fetched when an accountant needs it."""

from __future__ import annotations

import importlib
from typing import Any

from sfumato.foundation.errors import MissingExtraError


def dp_accounting(module: str = "dp_accounting") -> Any:
    """Return a module of dp-accounting."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError("dp-accounting", "accounting") from error
