"""Reports of experiments: self-contained, escaped, the same for the same data."""

from __future__ import annotations

import copy
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from sfumato.report.drawing import figure_svg
from sfumato.report.experiments import experiment_markdown, experiment_page

pytest.importorskip("matplotlib", reason="the extra 'plot' is not installed")

ESTIMATE = {"mean": 0.5, "low": 0.4, "high": 0.6, "n": 3}
FIGURE: dict[str, Any] = {
    "title": "Utility <b>", "x_label": "epsilon", "y_label": "accuracy", "log_x": True, "levels": {"chance": 0.5},
    "lines": [
        {"name": "A", "x": [1.0, 2.0], "y": [0.5, 0.7], "low": [0.4, None], "high": [0.6, None], "dashed": False},
        {"name": "B", "x": [1.0], "y": [0.2], "low": [None], "high": [None], "dashed": True},
    ],
}  # fmt: skip
RESULT: dict[str, Any] = {
    "experiment": "one", "title": "Title & more", "source": "A paper", "claim": "More | less", "setting": "small",
    "config": {"seeds": [0, 1, 2], "epsilons": [1.0, 2.0]}, "machine": {"machine": "1 x M", "packages": {"numpy": "2"}},
    "findings": ["Found a <script>."], "differences": ["None."], "data": "made up", "seconds": 1.2, "processor_seconds": 1.1,
    "claims": [
        {"claim": "a", "published": "1", "measured": "2", "holds": False},
        {"claim": "b", "published": "1", "measured": "1", "holds": None},
    ],
    "figures": [FIGURE],
    "tables": [{"title": "Rows", "columns": ["name", "accuracy"], "rows": [["x|y", ESTIMATE], ["z", None]], "note": ""}],
}  # fmt: skip


def test_the_page_holds_everything_and_nothing_from_elsewhere() -> None:
    page = experiment_page(RESULT)
    assert "<script" not in page
    assert "Title &amp; more" in page
    assert "0.500 (0.400 to 0.600)" in page
    assert "NO" in page
    assert "undecided" in page
    assert "src=" not in page
    assert page.count("<svg") == 1


def test_the_same_data_draw_the_same_picture() -> None:
    drawn = figure_svg(FIGURE)
    assert drawn == figure_svg(copy.deepcopy(FIGURE))
    root = ElementTree.fromstring(drawn)
    assert root.get("aria-label") == "Utility <b>"
    labels = "".join(root.itertext())
    assert all(name in labels for name in ("A", "B", "chance", "epsilon", "accuracy"))


def test_a_figure_without_lines_is_drawn() -> None:
    assert "<svg" in figure_svg({**FIGURE, "lines": []})


def test_markdown_tables_hold_together() -> None:
    text = experiment_markdown(RESULT, ["one-1.svg"])
    assert "![Utility <b>](one-1.svg)" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert r"| x\|y | 0.500 (0.400 to 0.600) |" in rows
    assert "| z | – |" in rows
    assert "Found a &lt;script>." in text
