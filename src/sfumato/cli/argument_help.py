"""The program's commands with a description of every argument.

Click sets the description of an argument since 8.5, after typer before 0.21 (the newest that Flower takes) has set it, and
so forgets it: it is put back from the declaration.
"""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import typer


def command_of(app: typer.Typer) -> Any:
    """Return the command of a typer application.

    >>> from typing import Annotated
    >>> app = typer.Typer()
    >>> @app.command()
    ... def greet(name: Annotated[str, typer.Argument(help="Whom to greet.")]) -> None: ...
    >>> command_of(app).params[0].help
    'Whom to greet.'
    """
    command = typer.main.get_command(app)
    _describe(command)
    return command


def _describe(command: Any) -> None:
    for inner in getattr(command, "commands", {}).values():
        _describe(inner)
    bare = {one.name: one for one in command.params if one.param_type_name == "argument" and not one.help}
    if bare:
        declared = get_type_hints(inspect.unwrap(command.callback), include_extras=True)
        for name, argument in bare.items():
            argument.help = next((one.help for one in getattr(declared[name], "__metadata__", ()) if one.help), None)
