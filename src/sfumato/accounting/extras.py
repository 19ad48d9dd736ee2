"""The optional package dp-accounting, fetched when an accountant needs it."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sfumato.foundation.errors import MissingExtraError


def dp_accounting(module: str = "dp_accounting") -> Any:
    """Return a module of dp-accounting."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError("dp-accounting", "accounting") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Silence its warnings about orders it leaves out: what it leaves out is replaced by a larger bound here."""
    logger = logging.getLogger("absl")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before
