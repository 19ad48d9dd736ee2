"""The result of an experiment as a page a person can read, and as Markdown; drawn from its JSON, so it can be drawn again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.report.drawing import figure_svg
from sfumato.report.page import Cell, facts, page, paragraphs, section, shown, table

_AGREES = {True: "yes", False: "NO", None: "undecided"}
_CLAIM_COLUMNS = ("published claim", "published", "measured here", "agrees")


def experiment_page(data: Mapping[str, Any]) -> str:
    """Return one self-contained HTML page, with its figures inside."""
    parts = [section("The claim", paragraphs([data["claim"]]), paragraphs([f"Source: {data['source']}."]))]
    parts.append(section("What was found", paragraphs(data["findings"])))
    if data["claims"]:
        parts.append(section("Published, and measured here", table(_CLAIM_COLUMNS, _claim_rows(data))))
    if data["figures"]:
        drawn = "".join(f"<figure>{figure_svg(figure)}</figure>" for figure in data["figures"])
        parts.append(section("Figures", drawn))
    for one in data["tables"]:
        rows = [[cell_text(cell) for cell in row] for row in one["rows"]]
        parts.append(
            section(one["title"], table(one["columns"], rows), paragraphs([one["note"]] if one["note"] else []))
        )
    parts.append(section("How this differs from what was published", paragraphs(data["differences"])))
    parts.append(section("The setting", paragraphs([f"Data: {data['data']}."]), facts(_setting(data))))
    return page(data["title"], *parts)


def experiment_markdown(data: Mapping[str, Any], images: Sequence[str] = ()) -> str:
    """Return the same as Markdown; ``images`` are the addresses of the figures, in their order.

    >>> result = {"title": "Rain", "claim": "It rains.", "source": "A book", "findings": ["It rained."], "claims": [],
    ...           "figures": [], "tables": [], "differences": [], "data": "a window", "setting": "small",
    ...           "config": {"days": 1}, "machine": {"machine": "1 x M"}, "seconds": 2.0, "processor_seconds": 1.0}
    >>> experiment_markdown(result).splitlines()[:3]
    ['# Rain', '', 'It rains.']
    """
    parts = [f"# {data['title']}", data["claim"], f"Source: {data['source']}.", "## What was found"]
    parts.append("\n".join(f"- {_escaped(sentence)}" for sentence in data["findings"]))
    if data["claims"]:
        parts += ["## Published, and measured here", _markdown_table(_CLAIM_COLUMNS, _claim_rows(data))]
    for figure, image in zip(data["figures"], images, strict=False):
        parts.append(f"![{figure['title']}]({image})")
    for one in data["tables"]:
        rows = [[cell_text(cell) for cell in row] for row in one["rows"]]
        parts += [f"## {one['title']}", _markdown_table(one["columns"], rows)]
        if one["note"]:
            parts.append(one["note"])
    parts.append("## How this differs from what was published")
    parts.append("\n".join(f"- {_escaped(sentence)}" for sentence in data["differences"]))
    parts += ["## The setting", f"Data: {data['data']}.", _markdown_table(("", ""), list(_setting(data).items()))]
    return "\n\n".join(part for part in parts if part) + "\n"


def _claim_rows(data: Mapping[str, Any]) -> list[list[str]]:
    return [[one["claim"], one["published"], one["measured"], _AGREES[one["holds"]]] for one in data["claims"]]


def cell_text(cell: Any) -> Cell:
    """Return a cell as a report shows it; an estimate with its interval.

    >>> cell_text({"mean": 0.81234, "low": 0.79, "high": 0.83, "n": 3})
    '0.812 (0.790 to 0.830)'
    >>> cell_text({"mean": 181.0, "low": None, "high": None, "n": 1}), cell_text(0.5), cell_text(None)
    ('181', 0.5, None)
    """
    if not isinstance(cell, Mapping):
        return cell  # type: ignore[no-any-return]
    digits = 3 if abs(cell["mean"]) < 10 else 1 if abs(cell["mean"]) < 1000 else 0
    if cell["low"] is None:
        return shown(cell["mean"])
    return f"{cell['mean']:,.{digits}f} ({cell['low']:,.{digits}f} to {cell['high']:,.{digits}f})"


def _setting(data: Mapping[str, Any]) -> dict[str, Cell]:
    config = {f"{name}": _plain(value) for name, value in data["config"].items()}
    machine = {name: _plain(value) for name, value in data["machine"].items()}
    took = {"seconds": round(float(data["seconds"])), "of a processor": round(float(data["processor_seconds"]))}
    return {"setting": data["setting"], **config, **machine, **took}


def _plain(value: Any) -> Cell:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(f"{one:g}" if isinstance(one, float) else str(one) for one in value)
    return value  # type: ignore[no-any-return]


def _markdown_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    lines += [f"| {' | '.join(_escaped(shown(cell)) for cell in row)} |" for row in rows]
    return "\n".join(lines)


def _escaped(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;").replace("\n", " ")
