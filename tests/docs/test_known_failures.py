"""The page of known failures names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "concepts" / "known-failures.md"
REFERENCE = re.compile(r"`(tests/[\w/]+\.py)((?:::\w+)+)`")


def names_of_tests(file: Path) -> set[str]:
    """Return the names of the tests of a file, those of a class behind its name."""
    names: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            names.add(f"::{node.name}")
        elif isinstance(node, ast.ClassDef):
            names |= {f"::{node.name}::{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
    return names


def test_every_line_of_the_page_names_a_test() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    rows = [row for row in rows if not row.startswith("| what went wrong")]
    assert len(rows) > 20
    assert [row for row in rows if not REFERENCE.search(row)] == []


@pytest.mark.parametrize("reference", sorted({"".join(m) for m in REFERENCE.findall(PAGE.read_text(encoding="utf-8"))}))
def test_a_test_that_is_named_exists(reference: str) -> None:
    file, _, name = reference.partition("::")
    assert (ROOT / file).is_file()
    assert f"::{name}" in names_of_tests(ROOT / file)
