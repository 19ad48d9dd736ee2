"""The oldest supported versions are read from pyproject.toml."""

from __future__ import annotations

import doctest
import importlib.util
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("oldest_versions", ROOT / "scripts" / "oldest_versions.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_dependency_has_a_lower_bound(script: ModuleType) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert len(script.lower_bounds(ROOT / "pyproject.toml")) == len(project["dependencies"])


def test_examples(script: ModuleType) -> None:
    assert doctest.testmod(script).failed == 0


def test_a_dependency_without_a_lower_bound_is_an_error(script: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text('[project]\ndependencies = ["one>=1.2", "two"]\n', encoding="utf-8")
    with pytest.raises(SystemExit, match="'two' has no lower bound"):
        script.lower_bounds(file)
