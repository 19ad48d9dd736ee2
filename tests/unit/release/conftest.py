"""A ledger in a file: what the databases do is tested with the ledger itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="the extra 'ledger' is not installed")
pytest.importorskip("alembic", reason="the extra 'ledger' is not installed")

from sfumato.ledger import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "budgets.db") as opened:
        yield opened
