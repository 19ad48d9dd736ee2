"""Figures of experiments as SVG, drawn from saved data: the same data gives the same file."""

from __future__ import annotations

import importlib
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.foundation.errors import MissingExtraError

_MARKERS = "osD^vPX*"
_DASHES = ("-", "--", "-.", ":")
_SETTINGS = {"svg.hashsalt": "sfumato", "svg.fonttype": "none", "font.size": 9.0}


def figure_svg(figure: Mapping[str, Any]) -> str:
    """Return a figure with its intervals as an SVG element."""
    matplotlib = _required("matplotlib")
    drawing = _required("matplotlib.figure")
    with matplotlib.rc_context(_SETTINGS):
        whole = drawing.Figure(figsize=(8.0, 4.2), layout="constrained")
        panel = whole.subplots()
        for number, line in enumerate(figure["lines"]):
            _draw(panel, line, number)
        for number, (name, height) in enumerate(figure["levels"].items()):
            panel.axhline(height, color="0.4", linewidth=1, linestyle=(0, (1 + number, 2)), label=name)
        panel.set(
            xlabel=figure["x_label"], ylabel=figure["y_label"], title=figure["title"],
            xscale="log" if figure["log_x"] else "linear",
        )  # fmt: skip
        if figure["log_x"]:
            ticks = _required("matplotlib.ticker")
            panel.xaxis.set_major_locator(ticks.LogLocator(subs=(1.0, 2.0, 5.0)))
            panel.xaxis.set_major_formatter("{x:g}")
            panel.xaxis.set_minor_formatter(ticks.NullFormatter())
        panel.grid(True, alpha=0.25)
        panel.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
        written = io.StringIO()
        whole.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    text = written.getvalue()
    text = text[text.index("<svg") :].strip()
    title = f'<svg role="img" aria-label="{_attribute(figure["title"])}"'
    return re.sub("^<svg", title, text) + "\n"


def _draw(panel: Any, line: Mapping[str, Any], number: int) -> None:
    style = "--" if line["dashed"] else _DASHES[number // len(_MARKERS) % len(_DASHES)]
    (drawn,) = panel.plot(
        line["x"], line["y"], marker=_MARKERS[number % len(_MARKERS)], markersize=4, linestyle=style, label=line["name"]
    )
    bounds = _bounds(line["x"], line["y"], line["low"], line["high"])
    if bounds:
        places, heights, below, above = bounds
        panel.errorbar(
            places, heights, yerr=(below, above), fmt="none", ecolor=drawn.get_color(), elinewidth=0.8, capsize=2
        )


def _bounds(
    places: Sequence[float], heights: Sequence[float], low: Sequence[float | None], high: Sequence[float | None]
) -> tuple[list[float], list[float], list[float], list[float]] | None:
    known = [
        (x, y, y - bottom, top - y)
        for x, y, bottom, top in zip(places, heights, low, high, strict=False)
        if bottom is not None and top is not None
    ]
    if not known:
        return None
    columns = [list(column) for column in zip(*known, strict=True)]
    return columns[0], columns[1], [max(one, 0.0) for one in columns[2]], [max(one, 0.0) for one in columns[3]]


def _attribute(text: str) -> str:
    from html import escape

    return escape(text, quote=True).replace("\\", r"\\")


def _required(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot") from error
