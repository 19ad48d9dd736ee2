"""Optional packages, fetched when a policy needs them."""

from __future__ import annotations

import importlib
from typing import Any

from sfumato.foundation.errors import MissingExtraError


def optional(module: str, package: str, extra: str) -> Any:
    """Return a module of an optional package, or say which extra installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        raise MissingExtraError(package, extra) from error
