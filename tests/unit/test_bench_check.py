"""A figure below its floor, or none at all, fails ``make bench-check``."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / "large" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


check = script("check")
MEETING = {
    "speed": {
        "sections": {
            "text": {"keyed_tokens_per_second": 1e6, "keyed_over_naive": 100},
            "compiling": {"published_over_product": 3, "tight_over_product": 15},
            "decoding": {"exact_share_of_product_rate": 0.6, "approximate_over_exact": 20, "recall": 0.95},
        }
    },
    "killed_run": {"outputs_identical": True, "resident_mib_by_tenth": [300, 200, 200, 205, 210, 210, 209]},
    "spark": {"one_core_each": {"two_over_one": 1.6}},
    "peers": {"tem_over_fastest_peer": 100},
}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for name, figures in MEETING.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(figures))
    return tmp_path


def test_figures_at_their_floors_pass(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main(results) == 0
    said = capsys.readouterr().out
    assert said.count("\n") == len(check.FLOORS)
    assert "FAIL" not in said


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("speed", {"text": {"keyed_tokens_per_second": 999_000, "keyed_over_naive": 100}}),
        ("speed", {"text": {"keyed_tokens_per_second": 1e6, "keyed_over_naive": 99.9}}),
        ("speed", {"compiling": {"published_over_product": 3.01, "tight_over_product": 15}}),
        ("speed", {"compiling": {"published_over_product": 3, "tight_over_product": float("nan")}}),
        ("speed", {"decoding": {"exact_share_of_product_rate": 0.6, "approximate_over_exact": 20, "recall": 0.94}}),
        ("speed", {"decoding": {"exact_share_of_product_rate": 0.6, "approximate_over_exact": 20}}),
        ("killed_run", {"outputs_identical": False}),
        ("killed_run", {"resident_mib_by_tenth": [300, 200, 200, 205, 210, 211, 209]}),
        ("killed_run", {"resident_mib_by_tenth": []}),
        ("spark", {"one_core_each": {"two_over_one": 1.59}}),
        ("peers", {"tem_over_fastest_peer": None}),
    ],
)
def test_a_figure_beyond_its_floor_fails(
    results: Path, capsys: pytest.CaptureFixture[str], name: str, change: dict[str, object]
) -> None:
    figures = json.loads((results / f"{name}.json").read_text())
    (figures["sections"] if name == "speed" else figures).update(change)
    (results / f"{name}.json").write_text(json.dumps(figures))
    assert check.main(results) == 1
    said = capsys.readouterr().out
    assert said.count("FAIL") == 1
    assert f"1 of {len(check.FLOORS)} figures" in said


@pytest.mark.parametrize("content", [None, "not json"])
def test_figures_that_are_not_there_fail(
    results: Path, capsys: pytest.CaptureFixture[str], content: str | None
) -> None:
    if content is None:
        (results / "spark.json").unlink()
    else:
        (results / "spark.json").write_text(content)
    assert check.main(results) == 1
    assert "spark.json" in capsys.readouterr().out


def test_the_saved_figures_meet_their_floors() -> None:
    assert check.main() == 0


def test_the_page_and_its_plots_show_the_saved_figures() -> None:
    draw = script("draw")
    assert draw.stale() == [], "run: python benchmarks/large/draw.py"


def test_a_page_of_other_figures_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = script("draw")
    for name in draw.RESULTS.iterdir():
        shutil.copy(name, tmp_path)
    figures = json.loads((tmp_path / "killed_run.json").read_text())
    figures["resident_mib_by_tenth"][9] += 1
    (tmp_path / "killed_run.json").write_text(json.dumps(figures))
    monkeypatch.setattr(draw, "RESULTS", tmp_path)
    assert draw.stale() == ["performance.md", "resident.svg"]
