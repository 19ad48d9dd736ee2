"""What the documentation says of experiments is what was measured, with at least three seeds."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from sfumato.experiments import experiments, load_result

ROOT = Path(__file__).resolve().parents[2]
RESULTS = sorted((ROOT / "docs" / "experiments").glob("*.json"))


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build", ROOT / "scripts" / "build_experiment_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_experiment_has_its_result() -> None:
    assert {path.stem for path in RESULTS} == {one.name for one in experiments()}


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_result_is_of_the_cpu_setting_took_less_than_an_hour_and_has_three_seeds(path: Path) -> None:
    data = load_result(path)
    assert data["setting"] == "cpu"
    assert len(data["config"]["seeds"]) >= 3
    assert 0 < data["processor_seconds"] < 3600
    assert data["machine"]["commit"]
    estimates = [cell for table in data["tables"] for row in table["rows"] for cell in row if isinstance(cell, dict)]
    assert estimates
    assert all(cell["n"] >= 3 and cell["low"] <= cell["mean"] <= cell["high"] for cell in estimates)


def test_pages_are_what_follows_from_the_results() -> None:
    assert script().main(["--check"]) == 0, "run python scripts/build_experiment_pages.py"
