"""Write docs/cli.md from the commands themselves; with --check, only compare."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sfumato.cli.app import app
from sfumato.cli.argument_help import command_of

TARGET = Path(__file__).parent.parent / "docs" / "cli.md"
_INTRODUCTION = """\
# Command line

This page is generated from the program by `scripts/build_cli_reference.py`; `sfumato COMMAND --help` shows the same.

An error is one line on standard error, and never holds words of the input. An output file appears whole or not at all.

| exit code | |
|---|---|
| 0 | done |
| 1 | a claim does not hold (`verify`, `audit`), or a ledger does not add up (`budget verify`) |
| 2 | something to be mended by the user |
| 70 | a defect of the program |
| 130, 143 | interrupted, asked to end |
| 141 | the reader of the output went away |
"""


def reference() -> str:
    """Return the page."""
    return "\n".join((_INTRODUCTION, *_commands("sfumato", command_of(app))))


def _commands(name: str, command: Any) -> Iterator[str]:
    if name != "sfumato":
        yield from _section(name, command)
    for part, inner in getattr(command, "commands", {}).items():
        yield from _commands(f"{name} {part}", inner)


def _section(name: str, command: Any) -> Iterator[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
    usage = " ".join([name, *(_placeholder(p) for p in arguments), *(["[OPTIONS]"] if options else [])])
    yield f"## {name}\n"
    yield f"{inspect.cleandoc(command.help or '')}\n"
    if getattr(command, "commands", None):
        return
    yield f"```\n{usage}\n```\n"
    if arguments or options:
        yield "| | | |\n|---|---|---|"
        for parameter in (*arguments, *options):
            yield _row(parameter)
        yield ""


def _placeholder(argument: Any) -> str:
    name = str(argument.metavar or argument.name.upper())
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        shown, kind = f"`{_placeholder(parameter)}`", ""
    else:
        shown = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
        kind = "" if parameter.is_flag else f"`{parameter.metavar}`"
    text = (parameter.help or "").replace("|", "\\|")
    default = parameter.default
    if parameter.required:
        text += " Required."
    elif default is not False and default not in (None, (), ""):
        text += f" Default: `{default}`."
    return f"| {shown} | {kind} | {text} |"


def main() -> int:
    """Write or check the page."""
    text = reference()
    if "--check" in sys.argv[1:]:
        return 0 if TARGET.exists() and TARGET.read_text(encoding="utf-8") == text else 1
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
