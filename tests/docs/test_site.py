"""The documentation's navigation holds every page, and docstrings show no markup of another format."""

from __future__ import annotations

import doctest
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _leaves(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        else:
            for pages in entry.values():
                yield from pages


def test_navigation_holds_every_page_once() -> None:
    hooks = _script("docs_hooks")
    assert doctest.testmod(hooks).failed == 0
    config = hooks.on_config({"docs_dir": str(ROOT / "docs")})
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert sorted(_leaves(config["nav"])) == sorted(pages)
    assert config["nav"][0] == "index.md"


def test_roles_become_code() -> None:
    pytest.importorskip("griffe", reason="the extra 'docs' is not installed")
    assert doctest.testmod(_script("docs_roles")).failed == 0
