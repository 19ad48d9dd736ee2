"""``sfumato space``: words and vectors to choose from, to fetch and to look at."""

from __future__ import annotations

import json
import math
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.progress import CompileProgress, error_console, is_shown, output_console
from sfumato.cli.request import load_space

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

app = typer.Typer(help="List, fetch and describe spaces of words.", pretty_exceptions_enable=False)


@app.command("list")
def list_spaces(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the spaces that can be fetched by name."""
    from sfumato.space import catalogue

    if as_json:
        typer.echo(json.dumps([entry.__dict__ for entry in catalogue.entries()], indent=2))
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name, side in (("name", "left"), ("words", "right"), ("dim", "right"), ("download", "right")):
        table.add_column(name, justify=side, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("description and licence")
    table.add_row("default", "", "", "none", "part of this package")
    for entry in catalogue.entries():
        size = "?" if entry.size is None else f"{entry.size / 1e6:,.0f} MB"
        table.add_row(
            entry.name, f"{entry.words:,}", str(entry.dimension), size, f"{entry.description}. {entry.licence}"
        )
    output_console().print(table)


@app.command("get")
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name from: sfumato space list.")],
    base_url: Annotated[
        str | None,
        typer.Option("--base-url", metavar="ADDRESS", help="A mirror that offers the file under its usual name."),
    ] = None,
    sha256: Annotated[
        str | None,
        typer.Option("--sha256", metavar="DIGEST", help="The expected digest, for a file that was published anew."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Fetch a space once; an interrupted download is resumed. Nothing else ever uses the network."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    from sfumato.space import catalogue

    if name == "default":
        typer.echo("the default space is part of the package; there is nothing to fetch")
        return
    with ExitStack() as stack:
        show = None
        if is_shown(quiet):
            columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
            bar = stack.enter_context(Progress(*columns, console=error_console(), transient=True))
            show = partial(_show, bar, bar.add_task("", total=None))
        path = catalogue.fetch(name, base_url=base_url, sha256=sha256, progress=show)
    typer.echo(f"{name} is in {path}; use it with --space {name}")


def _show(bar: Progress, task: TaskID, done: int, total: int | None) -> None:
    bar.update(task, completed=done, total=total)


@app.command("info")
def info(
    name: Annotated[str, typer.Argument(metavar="[SPACE]", help="A space or a file.")] = "default",
    space_words: Annotated[
        int | None, typer.Option("--space-words", metavar="N", min=1, help="Look at the first words of the space only.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Describe a space: its size, its scale and what an epsilon means in it."""
    with CompileProgress() as progress:
        progress.say("reading the space")
        space = load_space(name)
        if space_words is not None and space_words < len(space):
            space = space.head(space_words)
        progress.say("measuring the space (slow once, then cached)")
        statistics = space.compute_statistics(tick=progress.tick)
    median = statistics.median_neighbour_distance
    facts: dict[str, Any] = {
        "name": space.name,
        "words": len(space),
        "distinct_points": statistics.points,
        "dimension": space.dimension,
        "metric": space.metric,
        "diameter": statistics.diameter,
        "least_distance": statistics.least_distance,
        "median_neighbour_distance": median,
        "epsilon_of_neighbour_loss_1": 1 / median if median else None,
        "sha256": space.digest,
    }
    if as_json:
        typer.echo(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column()
    table.add_column(overflow="fold")
    for fact, value in facts.items():
        shown = f"{value:,}" if isinstance(value, int) else f"{value:.6g}" if isinstance(value, float) else str(value)
        table.add_row(fact.replace("_", " "), shown)
    console = output_console()
    console.print(table)
    if median and math.isfinite(median):
        console.print()
        console.print(
            f"A word's typical nearest neighbour is {median:.4g} away. So an epsilon of {1 / median:.4g} is a "
            "neighbour loss of 1: between such neighbours the odds change by at most e."
        )
