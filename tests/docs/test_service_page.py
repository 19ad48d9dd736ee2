"""The tables of the service's page are current."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("pydantic", reason="the extra 'server' is not installed")

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "update_service_page.py"


def test_the_tables_of_the_service_are_current() -> None:
    spec = importlib.util.spec_from_file_location("update_service_page", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    page = script.PAGE.read_text(encoding="utf-8")
    assert script.updated(page) == page, "run: python scripts/update_service_page.py"
