"""Every experiment runs from end to end in its small setting, and can be drawn and taken up again."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sfumato.experiments import Experiment, Run, experiments, run_experiment
from sfumato.report.experiments import experiment_markdown, experiment_page

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        for one in value.values():
            yield from numbers(one)
    elif isinstance(value, list):
        for one in value:
            yield from numbers(one)
    elif isinstance(value, float):
        yield value


@pytest.mark.parametrize("one", experiments(), ids=lambda one: one.name)
def test_an_experiment_runs_is_drawn_and_is_taken_up_again(one: Experiment, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra 'plot' is not installed")
    for package in one.needs:
        pytest.importorskip(package, reason=f"{one.name} needs {package}")
    result = run_experiment(one, "small", Run(one.name, tmp_path, SHARED if SHARED.exists() else None))
    again = json.loads(json.dumps(result))
    assert again["tables"]
    assert again["findings"]
    assert again["differences"]
    assert not any(math.isnan(number) for number in numbers(again))
    for table in again["tables"]:
        assert all(len(row) == len(table["columns"]) for row in table["rows"])
    page = experiment_page(again)
    assert page.count("<svg") == len(again["figures"])
    assert "http" not in page.partition("<svg")[0]
    text = experiment_markdown(again, [f"{number}.svg" for number in range(len(again["figures"]))])
    assert all(sentence.split("|")[0] in text for sentence in again["findings"] if "<" not in sentence)
    resumed = run_experiment(one, "small", Run(one.name, tmp_path, None))
    assert resumed["steps_read_back"] > 0
    for part in ("tables", "figures", "findings", "claims"):
        assert json.loads(json.dumps(resumed[part])) == again[part]
