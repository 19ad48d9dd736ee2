"""``sfumato explain``: what becomes of one word."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer

from sfumato.cli import options as shared
from sfumato.cli.progress import CompileProgress, output_console
from sfumato.cli.request import Compiled, MechanismRequest
from sfumato.foundation.checks import require_one_of
from sfumato.foundation.errors import ParameterError
from sfumato.mechanism.base import Row, TableMechanism
from sfumato.policy import Document
from sfumato.sanitize.sanitizer import MASK, OUT_OF_VOCABULARY
from sfumato.text.spelling import Spelling

_BAR = 30
_NEIGHBOURS = 10


def explain(
    word: Annotated[str, typer.Argument(metavar="WORD", help="The word to look at.")],
    epsilon: shared.Epsilon = None,
    neighbour_loss: shared.NeighbourLoss = None,
    mechanism: shared.MechanismName = "tem",
    tuning: shared.Tuning = None,
    space: shared.SpaceName = "default",
    space_words: shared.SpaceWords = None,
    keep: shared.Keep = None,
    oov: shared.OutOfVocabulary = "draw",
    option: shared.MechanismOption = None,
    allow_unsound: shared.AllowUnsound = False,
    top: Annotated[int, typer.Option("--top", metavar="N", min=1, help="How many candidates to show.")] = 15,
) -> None:
    """Show by what a word would be replaced, and how probably."""
    request = MechanismRequest(
        mechanism, epsilon, neighbour_loss, tuning, space, space_words, keep, tuple(option or ()), allow_unsound
    )
    require_one_of(OUT_OF_VOCABULARY, oov=oov)
    document = Document(word)
    if len(document.tokens) != 1:
        raise ParameterError(
            f"explain takes one word, and this text has {len(document.tokens)}; see what becomes of a text with: sfumato compare"
        )
    if not bool(request.policy().protects(document).any()):
        output_console().print("The word is kept: it is released as it is, without any protection.")
        return
    with CompileProgress() as progress:
        compiled = request.compile(progress)
    index = compiled.space.index
    spelling = word.lower() if word.lower() in index else word
    if spelling not in index and oov == "spell":
        near = Spelling(compiled.space.words).nearest(spelling.lower())
        if near is not None:
            spelling = compiled.space.words[near]
            output_console().print(f"The word is not in the space; it is taken for {spelling}.")
    if spelling not in index:
        output_console().print(_what_happens_outside(compiled, oov))
        return
    if not isinstance(compiled.mechanism, TableMechanism):
        raise ParameterError(
            f"{request.mechanism} has no table of probabilities to show; choose a mechanism that has one, such as tem"
        )
    _show(compiled, compiled.mechanism.row(spelling), spelling, top)


def _what_happens_outside(compiled: Compiled, oov: str) -> str:
    outcomes = {
        "draw": "it is replaced by a word drawn uniformly from the vocabulary, whatever it was",
        "spell": "it goes through the mechanism as the word one letter away, where there is one, and is else replaced by a "
        "word drawn uniformly from the vocabulary",
        "mask": f"it is replaced by {MASK}",
        "keep": "it is RELEASED AS IT IS, without any protection",
    }
    return (
        f"The word is not in the space {compiled.space.name} ({len(compiled.space):,} words). With --oov {oov} "
        f"{outcomes[oov]}."
    )


def _show(compiled: Compiled, row: Row, word: str, top: int) -> None:
    from rich.table import Table

    space = compiled.space
    here = space.index[word]
    distances = space.distances(np.array([here]), row.cells)[0]
    probabilities = row.probabilities
    order = np.argsort(-probabilities, kind="stable")[:top]
    table = Table(box=None, pad_edge=False)
    for name, side in (("candidate", "left"), ("probability", "right"), ("distance", "right"), ("", "left")):
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    tallest = float(probabilities[order[0]])
    for place in order.tolist():
        share = float(probabilities[place])
        bar = "█" * max(1, round(_BAR * share / tallest)) if share else ""
        table.add_row(space.words[row.cells[place]], f"{share:.4%}", f"{distances[place]:.4f}", bar)
    console = output_console()
    console.print(table)
    unchanged = float(row.probability(here))
    others = float(1 - probabilities[order].sum())
    console.print()
    console.print(f"{'unchanged':<20}{unchanged:.4%}")
    console.print(f"{'all other words':<20}{max(others, 0.0):.4%} ({len(probabilities) - len(order):,} words)")
    console.print(f"{'expected distance':<20}{float(probabilities @ distances):.4f}")
    near = space.neighbours(word, min(_NEIGHBOURS, len(space) - 1)) if len(space) > 1 else []
    console.print(f"{'nearest neighbours':<20}" + ", ".join(f"{name} {distance:.4f}" for name, distance in near))
    console.print()
    console.print(compiled.mechanism.guarantee.statement())
