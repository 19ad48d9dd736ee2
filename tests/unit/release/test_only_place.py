"""Nothing else in the package charges a budget: what is released is paid for here."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[3] / "src" / "sfumato"
CHARGING = {"charge", "charge_each", "charge_all"}
MANUAL = {"cli/budget.py"}
"""The command that charges for releases that other programs make."""


def test_budget_is_charged_by_release_only() -> None:
    callers = set()
    for file in PACKAGE.rglob("*.py"):
        name = file.relative_to(PACKAGE).as_posix()
        if name.startswith(("ledger/", "release/")):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHARGING:
                callers.add(name)
    assert callers == MANUAL
