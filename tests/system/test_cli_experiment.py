"""``sfumato experiment``: list, run, and report again from what was saved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_support import Program

pytest.importorskip("matplotlib", reason="the extra 'plot' is not installed")


def test_experiments_are_listed(program: Program) -> None:
    listed = json.loads(program("experiment", "list", "--json").out)
    assert {"tem-figure", "same-promise"} <= {one["name"] for one in listed}
    shown = program("experiment", "list")
    assert shown.code == 0
    assert all(one["name"] in shown.out for one in listed)


def test_a_run_is_reported_and_taken_up_again(program: Program, tmp_path: Path) -> None:
    result, steps = tmp_path / "result.json", tmp_path / "steps"
    first = program("experiment", "run", "tem-figure", "--small", "-o", result, "--steps", steps)
    assert first.code == 0
    assert "mechanism" in first.err
    assert "Without privacy" in first.out
    before = json.loads(result.read_text())
    assert program("experiment", "run", "tem-figure", "--small", "-o", result, "--steps", steps).code == 2
    again = program("experiment", "run", "tem-figure", "--small", "-o", result, "--steps", steps, "-q", "-f")
    assert (again.code, again.err) == (0, "")
    after = json.loads(result.read_text())
    assert after["steps_read_back"] > 0
    assert after["tables"] == before["tables"]

    page = tmp_path / "report.html"
    assert program("experiment", "report", result, "-o", page).code == 0
    assert page.read_text().count("<svg") == len(after["figures"])
    assert program("experiment", "report", result, "-o", page).code == 2
    text = tmp_path / "report.md"
    assert program("experiment", "report", result, "-o", text).code == 0
    assert all((tmp_path / f"report-{number}.svg").exists() for number in range(1, len(after["figures"]) + 1))


def test_misuse_is_told(program: Program, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    assert "there is no experiment" in program("experiment", "run", "nothing", "-o", result).err
    assert "not a folder" in program("experiment", "run", "tem-figure", "-o", result, "--data", tmp_path / "no").err
    assert "--fresh" in program("experiment", "run", "tem-figure", "-o", result, "--fresh", "--steps", tmp_path).err
    result.write_text("{}")
    assert "not the result" in program("experiment", "report", result, "-o", tmp_path / "x.html").err
    result.write_text(json.dumps({"experiment": "x", "tables": [], "figures": []}))
    assert ".html or .md" in program("experiment", "report", result, "-o", tmp_path / "x.txt").err
