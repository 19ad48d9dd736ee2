"""``sfumato mechanisms``: what there is to choose from."""

from __future__ import annotations

import inspect
import json
from typing import Annotated, Any

import typer

from sfumato.cli.progress import output_console
from sfumato.foundation.registry import Entry, entries

_INNER = ("inputs", "outputs", "tick", "say")


def _options(entry: Entry) -> dict[str, Any]:
    """Return the options that can be given on the command line; None where there is no default."""
    return {
        name: None if default is inspect.Parameter.empty else default
        for name, default in entry.options.items()
        if name not in _INNER
    }


def mechanisms(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the mechanisms, the kind of their guarantee and their options."""
    if as_json:
        data = [
            {
                "name": entry.name,
                "guarantee": entry.guarantee_kind,
                "sound": entry.sound,
                "takes_epsilon": entry.takes_epsilon,
                "summary": entry.summary,
                "options": _options(entry),
            }
            for entry in entries()
        ]
        typer.echo(json.dumps(data, indent=2, default=str))
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("name", "guarantee", "sound", "summary and options"):
        table.add_column(name, no_wrap=name in ("name", "guarantee", "sound"))
    for entry in entries():
        options = ", ".join(f"{name}={value}" for name, value in _options(entry).items())
        described = f"{entry.summary}\n{options}\n" if options else f"{entry.summary}\n"
        table.add_row(entry.name, entry.guarantee_kind, "yes" if entry.sound else "NO", described)
    console = output_console()
    console.print(table)
    console.print("Below each summary are its options with their defaults; give one as --option KEY=VALUE.")
