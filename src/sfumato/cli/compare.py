"""``sfumato compare``: the same text through several mechanisms, side by side."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from sfumato.audit import Compared, compare
from sfumato.cli import options as shared
from sfumato.cli.progress import CompileProgress, output_console
from sfumato.cli.request import MechanismRequest
from sfumato.foundation.errors import CertificationError, ParameterError
from sfumato.foundation.randomness import RunKey
from sfumato.foundation.registry import entries, entry
from sfumato.mechanism.base import Mechanism
from sfumato.policy import Document

_TABLES = "tem:published,tem:calibrated,tem:best,santext,santext-plus,custext,custext:lp"
_DEFAULT = f"{_TABLES},laplace,vickrey,mahalanobis,random,identity"


def compare_command(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text to put through each mechanism.")],
    names: Annotated[
        str,
        typer.Option(
            "--mechanisms",
            metavar="LIST",
            help="Names separated by commas, each with a tuning behind a colon if wanted; or all.",
        ),
    ] = _DEFAULT,
    epsilon: shared.Epsilon = None,
    neighbour_loss: shared.NeighbourLoss = None,
    space: shared.SpaceName = "default",
    space_words: shared.SpaceWords = None,
    allow_unsound: shared.AllowUnsound = False,
    words: Annotated[
        int, typer.Option("--words", metavar="N", min=1, help="Over how many sampled words the figures are.")
    ] = 200,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Repeatable and NOT SECURE: for experiments.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Put a text through several mechanisms, with certified epsilon, P(unchanged) and expected distance."""
    if not Document(text).tokens:
        raise ParameterError("the text holds no word that could be replaced; give a sentence, in quotes")
    found: list[tuple[str, Mechanism]] = []
    refused: dict[str, str] = {}
    for name in _names(names, allow_unsound):
        mechanism, _, tuning = name.partition(":")
        amounts = (epsilon, neighbour_loss) if entry(mechanism).takes_epsilon else (None, None)
        request = MechanismRequest(mechanism, *amounts, tuning or None, space, space_words, None, (), allow_unsound)
        try:
            with CompileProgress() as progress:
                found.append((name, request.compile(progress).mechanism))
        except CertificationError as refusal:
            refused[name] = str(refusal)
    if not found and not refused:
        raise ParameterError("--mechanisms names no mechanism; see: sfumato mechanisms")
    key = None if seed is None else RunKey.from_seed(seed)
    compared = compare(text, found, key=key, words=words)
    if as_json:
        typer.echo(json.dumps({"compared": [one.to_json() for one in compared], "refused": refused}, indent=2))
        return
    _show(compared, refused)


def _names(written: str, allow_unsound: bool) -> list[str]:
    names = [part.strip() for part in written.split(",") if part.strip()]
    if names == ["all"]:
        return [one.name for one in entries() if one.sound or allow_unsound]
    return names


def _show(compared: list[Compared], refused: dict[str, str]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for column in ("mechanism", "guarantee", "certified", "unchanged", "distance", "spread"):
        table.add_column(column, justify="left" if column in ("mechanism", "guarantee") else "right", no_wrap=True)
    for one in compared:
        certified = "-" if one.certified is None else f"{one.certified:.4g}"
        kind = one.guarantee.kind if one.guarantee.sound else f"{one.guarantee.kind} UNSOUND"
        figures = one.deniability
        spread = f"{'≥ ' if figures.spread_is_lower_bound else ''}{figures.spread:,.0f}"
        table.add_row(one.name, kind, certified, f"{figures.unchanged:.1%}", f"{figures.distance:.3f}", spread)
    console = output_console()
    console.print(table)
    for one in compared:
        console.print(Text.assemble((one.name, "bold"), f"  {one.text}"))
    for name, reason in refused.items():
        console.print(f"{name}: {reason}")
    console.print("unchanged, distance and spread (words that share 95 % of the probability) are means over words.")
    drawn = {one.deniability.draws for one in compared if one.deniability.spread_is_lower_bound}
    if drawn:
        draws = ", ".join(f"{number:,}" for number in sorted(number for number in drawn if number))
        console.print(f"≥: estimated from {draws} draws of each word, which show no more words than that.")
