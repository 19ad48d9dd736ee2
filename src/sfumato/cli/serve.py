"""``sfumato serve``: the service and its page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.foundation.errors import ParameterError


def serve(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE", help="The settings, in one TOML file.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Only say what is wrong with the settings.")] = False,
    new_key: Annotated[
        str | None,
        typer.Option("--new-key", metavar="NAME", help="Make an API key, print it once and end."),
    ] = None,
    host: Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="Listen there instead.")] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", metavar="N", min=0, max=65535, help="Listen there instead; 0 takes a free one."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", metavar="N", min=1, help="So many processes instead.")
    ] = None,
) -> None:
    """Serve the HTTP interface and the page.

    All problems of the settings are listed at once. Logs are lines of JSON on standard error, without text.
    """
    from sfumato.server.extras import require_server_extra

    require_server_extra()
    if new_key is not None:
        _print_new_key(new_key)
        return
    if config is None:
        raise ParameterError("name the settings: sfumato serve --config sfumato.toml")
    from sfumato.server.configuration import ConfigurationError, read

    try:
        settings = read(config)
    except ConfigurationError as error:
        if not check:
            raise
        for problem in error.problems:
            typer.echo(problem)
        raise typer.Exit(2) from None
    if check:
        typer.echo(f"{config.name}: no problems")
        return
    changed = {
        name: value for name, value in (("host", host), ("port", port), ("workers", workers)) if value is not None
    }
    settings = settings.model_copy(update={"server": settings.server.model_copy(update=changed)})
    from sfumato.server.supervisor import serve as run

    raise typer.Exit(run(settings))


def _print_new_key(name: str) -> None:
    from sfumato.server.keys import new_key

    made = new_key(name)
    typer.echo(f"The key, which is shown only now:\n\n    {made.key}\n")
    typer.echo("For the settings, which hold only its hash:\n")
    typer.echo(
        f'[[keys]]\nid = "{name}"\nhash = "{made.hash}"\nscopes = ["privatize", "explain", "guarantee", "budget"]\n'
        'subjects = ["*"]  # whose budgets it may name, where there is a ledger; ["*"] for all'
    )
