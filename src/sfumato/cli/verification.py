"""``sfumato verify``: does the mechanism keep its promise?"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from sfumato.cli import options as shared
from sfumato.cli.progress import CompileProgress, output_console
from sfumato.cli.request import MechanismRequest


def verify(
    epsilon: shared.Epsilon = None,
    neighbour_loss: shared.NeighbourLoss = None,
    mechanism: shared.MechanismName = "tem",
    tuning: shared.Tuning = None,
    space: shared.SpaceName = "default",
    space_words: shared.SpaceWords = None,
    keep: shared.Keep = None,
    option: shared.MechanismOption = None,
    allow_unsound: shared.AllowUnsound = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compute what a mechanism really loses and compare it with its claim.

    The exit code is 0 if the claim holds, and 1 if it does not.
    """
    from rich.table import Table

    from sfumato.audit import verify as verify_mechanism

    request = MechanismRequest(
        mechanism, epsilon, neighbour_loss, tuning, space, space_words, keep, tuple(option or ()), allow_unsound
    )
    with CompileProgress() as progress:
        compiled = request.compile(progress)
        progress.prefix = ""
        progress.say("verifying")
        result = verify_mechanism(compiled.mechanism, tick=progress.tick)
    words = compiled.space.words

    def word(position: int) -> str | None:
        return words[position] if 0 <= position < len(words) else None

    named = {"first_word": word(result.first), "second_word": word(result.second), "output_word": word(result.output)}
    if as_json:
        typer.echo(json.dumps({**result.to_json(), **named}, ensure_ascii=False))
    else:
        table = Table(show_header=False, box=None, pad_edge=False)
        how = "every log-ratio was computed" if result.exhaustive else "proven over all pairs, exact at the worst found"
        for name, value in (
            ("mechanism", result.mechanism),
            ("claimed", f"{result.claimed:.10g}"),
            ("bound", f"{result.bound:.10g} (no pair of words exceeds it)"),
            ("realised", f"{result.realised:.10g} (exact, at the worst pair found)"),
            ("worst pair", f"{named['first_word']} / {named['second_word']}, at the output {named['output_word']}"),
            ("pairs", f"{result.pairs:,}: {how}"),
            ("result", "PASS" if result.passed else "FAIL"),
        ):
            table.add_row(name, value)
        output_console().print(table)
    if not result.passed:
        raise typer.Exit(1)
