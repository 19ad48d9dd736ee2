"""Self-contained HTML pages: nothing is fetched, every character of data is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { line-height: 1.2; } table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { padding: .25rem .75rem; border-bottom: 1px solid #8884; text-align: left; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.good { border-left: .4rem solid #2a8; padding-left: 1rem; } .bad { border-left: .4rem solid #c33; padding-left: 1rem; }
.unclear { border-left: .4rem solid #c90; padding-left: 1rem; }
figure { margin: 1rem 0; background: #fff; } figure svg { max-width: 100%; height: auto; }
.small { font-size: .85rem; opacity: .8; }
"""
Cell = str | int | float | None


def shown(value: Cell) -> str:
    """Return a table's cell as text: four significant digits, and a dash for what is not there.

    >>> [shown(value) for value in (None, 3, 0.123456, 12345.6, "x", True)]
    ['–', '3', '0.1235', '12,346', 'x', 'yes']
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    return value


def table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Return an HTML table."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Cell) -> str:
    kind = ' class="number"' if isinstance(value, (int, float)) and not isinstance(value, bool) else ""
    return f"<td{kind}>{escape(shown(value))}</td>"


def facts(values: Mapping[str, Cell]) -> str:
    """Return a table of two columns."""
    return table(("", ""), [[name.replace("_", " "), value] for name, value in values.items()])


def paragraphs(sentences: Sequence[str], kind: str = "") -> str:
    """Return one paragraph for each sentence, in a box of a kind (good, bad or unclear)."""
    inside = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
    return f'<div class="{kind}">{inside}</div>' if kind else inside


def section(title: str, *parts: str) -> str:
    """Return a part of a page under its title."""
    return f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>"


def page(title: str, *parts: str) -> str:
    """Return a whole page."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>\n" + "\n".join(parts) + "\n</body></html>\n"
    )
