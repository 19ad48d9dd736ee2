"""``sfumato experiment``: published claims, measured again, and their reports."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.progress import output_console
from sfumato.foundation.errors import DataError, ParameterError
from sfumato.scale import checked_target

app = typer.Typer(help="Measure published claims again, and write reports.", pretty_exceptions_enable=False)

Force = Annotated[bool, typer.Option("--force", "-f", help="Replace files that exist.")]


@app.command("list")
def list_experiments(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the experiments and what each is about."""
    from sfumato.experiments import experiments

    found = experiments()
    if as_json:
        names = ("name", "title", "source", "claim")
        data = [{**{name: getattr(one, name) for name in names}, "settings": list(one.settings)} for one in found]
        typer.echo(json.dumps(data, indent=2))
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("name", "title", "source"):
        table.add_column(name, no_wrap=name == "name")
    for one in found:
        table.add_row(one.name, one.title, one.source)
    output_console().print(table)


@app.command("run")
def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name from: sfumato experiment list.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where the result goes, as JSON.")],
    small: Annotated[
        bool,
        typer.Option(
            "--small/--cpu", help="Seconds, to see it work; or the figures, in less than an hour on two cores."
        ),
    ] = False,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FOLDER", help="Where data files are (sst2_train.tsv and others).")
    ] = None,
    steps: Annotated[
        Path | None,
        typer.Option(
            "--steps",
            metavar="FOLDER",
            help="Keep finished steps here: an interrupted run goes on where it was. Default: the cache folder.",
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute every step anew, and keep none.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing while running.")] = False,
    force: Force = False,
) -> None:
    """Run an experiment and write its result, from which sfumato experiment report draws."""
    from sfumato.experiments import Run, experiment, run_experiment
    from sfumato.space.cache import cache_folder

    if data is not None and not data.is_dir():
        raise DataError(f"{data} is not a folder; give the folder that holds the data files")
    if fresh and steps is not None:
        raise ParameterError("--fresh keeps no steps; leave out --steps, or --fresh")
    chosen = experiment(name)
    target = checked_target(output, sources=(), force=force)
    kept = None if fresh else steps or cache_folder() / "experiments"
    say = None if quiet else lambda line: print(f"sfumato: {line}", file=sys.stderr, flush=True)
    result = run_experiment(chosen, "small" if small else "cpu", Run(chosen.name, kept, data, say))
    target.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for sentence in result["findings"]:
        typer.echo(sentence)


@app.command("report")
def report(
    result: Annotated[Path, typer.Argument(metavar="RESULT", help="What sfumato experiment run wrote.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="The report: .html (one file) or .md (with .svg files)."),
    ],
    force: Force = False,
) -> None:
    """Draw the report of a result: tables, figures, and what was published beside what was measured."""
    from sfumato.experiments import load_result
    from sfumato.report.experiments import experiment_markdown, experiment_page

    data = load_result(result)
    if output.suffix in (".html", ".htm"):
        checked_target(output, sources=(result,), force=force).write_text(experiment_page(data), encoding="utf-8")
        return
    if output.suffix != ".md":
        raise ParameterError("the name of a report ends in .html or .md")
    from sfumato.report.drawing import figure_svg

    images = [output.with_name(f"{output.stem}-{number}.svg") for number in range(1, len(data["figures"]) + 1)]
    targets = [checked_target(path, sources=(result,), force=force) for path in (output, *images)]
    for target, figure in zip(targets[1:], data["figures"], strict=True):
        target.write_text(figure_svg(figure), encoding="utf-8")
    targets[0].write_text(experiment_markdown(data, [image.name for image in images]), encoding="utf-8")
