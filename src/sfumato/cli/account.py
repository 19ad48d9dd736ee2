"""``sfumato account``: what a run of releases adds up to, by every accountant."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.progress import output_console
from sfumato.foundation.checks import gather, require_count, require_positive, require_probability, require_share
from sfumato.foundation.errors import DataError, ParameterError

if TYPE_CHECKING:
    from sfumato.accounting.accountants import Comparison
    from sfumato.accounting.curves import Figure
    from sfumato.accounting.events import Event

app = typer.Typer(help="Add up the privacy loss of repeated releases.", pretty_exceptions_enable=False)

Delta = Annotated[float, typer.Option("--delta", metavar="NUMBER", help="The delta of the guarantee.")]
Epsilon = Annotated[float, typer.Option("--epsilon", "-e", metavar="NUMBER", help="The epsilon to stay within.")]
Sigma = Annotated[
    float, typer.Option("--sigma", metavar="NUMBER", help="Standard deviation of the noise over the sensitivity.")
]
Rate = Annotated[
    float,
    typer.Option("--rate", metavar="SHARE", help="Chance of a record to take part in a step, by its own secret coin."),
]
Steps = Annotated[int, typer.Option("--steps", metavar="N", help="How many releases.")]
Name = Annotated[
    str, typer.Option("--accountant", "-a", metavar="NAME", help="best, or a name from: sfumato account gaussian.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_PLOTTED_POINTS = 13


@app.command("gaussian")
def gaussian(
    sigma: Sigma,
    delta: Delta,
    rate: Rate = 1.0,
    steps: Steps = 1,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            metavar="FILE",
            help="Draw epsilon against steps and noise against epsilon; the numbers go beside it as .json.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace files that exist.")] = False,
    as_json: Json = False,
) -> None:
    """Compare all accountants on Gaussian noise, with or without secret sampling."""
    from sfumato.accounting.accountants import compare

    gather(
        lambda: require_positive(sigma=sigma, rate=rate),
        lambda: require_share(rate=rate),
        lambda: require_count(steps=steps),
        lambda: require_probability(delta=delta),
    )
    targets = _targets(plot, force)
    comparison = compare(_gaussian(sigma, rate) * steps, delta)
    if as_json:
        facts = {"sigma": sigma, "rate": rate, "steps": steps}
        typer.echo(json.dumps({**facts, **comparison.to_json()}, indent=2))
    else:
        _print_comparison(comparison)
    if targets is not None:
        _plot(sigma, rate, steps, delta, *targets)


@app.command("noise")
def noise(
    epsilon: Epsilon,
    delta: Delta,
    rate: Rate = 1.0,
    steps: Steps = 1,
    accountant: Name = "best",
    as_json: Json = False,
) -> None:
    """Find the least noise that keeps a run within (epsilon, delta)."""
    from sfumato.accounting.calibration import gaussian_noise_for

    gather(
        lambda: require_positive(rate=rate),
        lambda: require_share(rate=rate),
        lambda: require_count(steps=steps),
    )
    sigma = gaussian_noise_for(epsilon=epsilon, delta=delta, rate=rate, steps=steps, accountant=accountant)
    if as_json:
        facts = {"epsilon": epsilon, "delta": delta, "rate": rate, "steps": steps, "accountant": accountant}
        typer.echo(json.dumps({**facts, "sigma": sigma}, indent=2))
    else:
        typer.echo(f"noise multiplier {_rounded_up(sigma)} (standard deviation over the sensitivity), by {accountant}")


@app.command("releases")
def releases(
    sigma: Sigma,
    epsilon: Epsilon,
    delta: Delta,
    rate: Rate = 1.0,
    accountant: Name = "best",
    as_json: Json = False,
) -> None:
    """Find how many releases a budget of (epsilon, delta) allows."""
    from sfumato.accounting.calibration import releases_within

    gather(lambda: require_positive(sigma=sigma, rate=rate), lambda: require_share(rate=rate))
    count = releases_within(_gaussian(sigma, rate), epsilon=epsilon, delta=delta, accountant=accountant)
    if as_json:
        facts = {"sigma": sigma, "rate": rate, "epsilon": epsilon, "delta": delta, "accountant": accountant}
        typer.echo(json.dumps({**facts, "releases": count}, indent=2))
    else:
        typer.echo(f"{count:,} releases, by {accountant}")


def _gaussian(sigma: float, rate: float) -> Event:
    from sfumato.accounting.events import GaussianEvent, SampledGaussianEvent

    return GaussianEvent(sigma) if rate == 1 else SampledGaussianEvent(sigma, rate)


def _rounded_up(value: float) -> str:
    """Show a bound with six digits after the point, never below it."""
    return f"{math.ceil(value * 1e6) / 1e6:.6f}" if value < 1e6 else f"{value:.6g}"


def _print_comparison(comparison: Comparison) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("")
    table.add_column("accountant", no_wrap=True)
    table.add_column("epsilon", justify="right", no_wrap=True)
    table.add_column("sound", no_wrap=True)
    table.add_column("")
    for row in comparison.rows:
        epsilon = "-" if row.epsilon is None else "none" if math.isinf(row.epsilon) else _rounded_up(row.epsilon)
        table.add_row(
            "*" if row.tightest else "",
            row.accountant,
            epsilon,
            "yes" if row.sound else "NO",
            row.title + (f": {row.remark}" if row.remark else ""),
            style="bold" if row.tightest else "",
        )
    console = output_console()
    console.print(table)
    if comparison.tightest is not None:
        console.print(
            f"* the one to use: ({_rounded_up(comparison.tightest.epsilon or 0.0)}, {comparison.delta:g}) "
            f"differential privacy for {comparison.releases:,} releases",
            highlight=False,
        )


def _targets(plot: Path | None, force: bool) -> tuple[Path, Path] | None:
    if plot is None:
        return None
    data = plot.with_suffix(".json")
    if plot.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ParameterError("the name of a plot ends in .png, .svg or .pdf")
    if not force:
        for path in (plot, data):
            if path.exists():
                raise DataError(f"{path} exists; give --force to replace it")
    return plot, data


def _plot(sigma: float, rate: float, steps: int, delta: float, target: Path, data: Path) -> None:
    from sfumato.report.figures import draw_figures

    figures = _figures(sigma, rate, steps, delta)
    saved: dict[str, Any] = {"sigma": sigma, "rate": rate, "steps": steps, "delta": delta}
    draw_figures(figures, target)
    data.write_text(json.dumps({**saved, "figures": [figure.to_json() for figure in figures]}, indent=1) + "\n")
    typer.echo(f"wrote {target} and {data}", err=True)


def _figures(sigma: float, rate: float, steps: int, delta: float) -> list[Figure]:
    from sfumato.accounting.curves import epsilon_against_steps, noise_against_epsilon, spread

    counts = sorted({round(count) for count in spread(1, max(10 * steps, 10), _PLOTTED_POINTS)})
    noises = spread(sigma / 2, sigma * 8, _PLOTTED_POINTS)
    return [
        epsilon_against_steps(_gaussian(sigma, rate), counts, delta),
        noise_against_epsilon(lambda value: _gaussian(value, rate) * steps, noises, delta),
    ]
