"""The optional packages of the ledger, fetched when a ledger is opened."""

from __future__ import annotations

import importlib
from typing import Any

from sfumato.foundation.errors import MissingExtraError


def sqlalchemy() -> Any:
    """Return SQLAlchemy."""
    return _required("sqlalchemy", "sqlalchemy", "ledger")


def alembic(module: str) -> Any:
    """Return a module of Alembic."""
    return _required(module, "alembic", "ledger")


def psycopg() -> Any:
    """Return the driver of PostgreSQL."""
    return _required("psycopg", "psycopg", "postgres")


def _required(module: str, package: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(package, extra) from error
