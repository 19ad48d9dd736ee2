"""Line figures drawn from saved data."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sfumato.accounting.curves import Figure
from sfumato.foundation.errors import MissingExtraError

_MARKERS = "osD^vPX*"


def draw_figures(figures: Sequence[Figure], path: Path) -> None:
    """Draw figures side by side into a file whose suffix names the format (png, svg, pdf).

    Lines of unsound accountants are dashed and say so.
    """
    drawing = _matplotlib("matplotlib.figure")
    whole = drawing.Figure(figsize=(6.4 * len(figures), 4.8), layout="constrained")
    panels = whole.subplots(1, len(figures), squeeze=False)[0]
    for panel, figure in zip(panels, figures, strict=True):
        for line, marker in zip(figure.lines, _MARKERS * (len(figure.lines) // len(_MARKERS) + 1), strict=False):
            panel.plot(
                line.x,
                line.y,
                marker=marker,
                markersize=3.5,
                linestyle="-" if line.sound else "--",
                label=line.name if line.sound else f"{line.name} (approximation, not a bound)",
            )
        panel.set(xscale="log", yscale="log", xlabel=figure.x_label, ylabel=figure.y_label, title=figure.title)
        panel.grid(True, which="both", alpha=0.25)
        panel.legend(fontsize="small")
    whole.savefig(path, dpi=150)


def _matplotlib(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot") from error
