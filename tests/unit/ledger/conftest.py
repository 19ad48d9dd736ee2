"""A ledger on each of the two databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="the extra 'ledger' is not installed")
pytest.importorskip("alembic", reason="the extra 'ledger' is not installed")

from sfumato.ledger import Ledger


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new ledger may be made."""
    if request.param == "sqlite":
        return str(tmp_path / "budgets.db")
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def ledger(address: str) -> Iterator[Ledger]:
    with Ledger.open(address) as opened:
        yield opened
