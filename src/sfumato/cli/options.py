"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.accounting.neighbour_loss import DEFAULT_NEIGHBOUR_LOSS
from sfumato.cli.policies import PROTECT_HELP

_MECHANISM = "Mechanism"
_RUN = "Run"

Epsilon = Annotated[
    float | None,
    typer.Option(
        "--epsilon", "-e", metavar="NUMBER", help="Privacy loss for each unit of distance.", rich_help_panel=_MECHANISM
    ),
]
NeighbourLoss = Annotated[
    float | None,
    typer.Option(
        "--neighbour-loss",
        "-n",
        metavar="NUMBER",
        help="Privacy loss between a word and its typical nearest neighbour, in place of --epsilon. "
        f"{DEFAULT_NEIGHBOUR_LOSS:g} where neither is given.",
        rich_help_panel=_MECHANISM,
    ),
]
AttackerSuccess = Annotated[
    float | None,
    typer.Option(
        "--attacker-success",
        metavar="SHARE",
        help="Choose epsilon so that the best attacker, who knows the mechanism and how frequent words are (extra "
        "experiments), recovers at most this share of the protected words from one output each; for instance 0.25.",
        rich_help_panel=_MECHANISM,
    ),
]
MechanismName = Annotated[
    str, typer.Option("--mechanism", "-m", metavar="NAME", help="See: sfumato mechanisms.", rich_help_panel=_MECHANISM)
]
Artifact = Annotated[
    Path | None,
    typer.Option(
        "--artifact",
        metavar="FILE",
        help="Take the mechanism from a file (see: sfumato compile), in place of the options that compile it.",
        rich_help_panel=_MECHANISM,
    ),
]
ArtifactDigest = Annotated[
    str | None,
    typer.Option(
        "--artifact-digest",
        metavar="HEX",
        help="The digest that sfumato compile printed; another file is refused.",
        rich_help_panel=_MECHANISM,
    ),
]
Workers = Annotated[
    int,
    typer.Option(
        "--workers", "-w", metavar="N", help="Processes that sanitize side by side; the output is the same.",
        rich_help_panel=_RUN,
    ),
]  # fmt: skip
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Take up the run to this output where it was killed, or begin it; what is done then also survives an "
        "interruption.",
        rich_help_panel=_RUN,
    ),
]
KeyFilePath = Annotated[
    Path | None,
    typer.Option(
        "--key",
        metavar="FILE",
        help="Take the noise from the key in this file, which is made (mode 0600) where there is none: the same texts "
        "give the same output again. Whoever has it can undo the noise; it may not lie beside the output.",
        rich_help_panel=_RUN,
    ),
]
Tuning = Annotated[
    str | None,
    typer.Option(
        "--tuning",
        metavar="NAME",
        help="How rate and weights are chosen: best, calibrated, filled, floored, published or tight; where not given, the "
        "mechanism's own default.",
        rich_help_panel=_MECHANISM,
    ),
]
SpaceName = Annotated[
    str,
    typer.Option(
        "--space",
        "-s",
        metavar="SPACE",
        help="Words and vectors: default, a fetched name (see: sfumato space list), or a file.",
        rich_help_panel=_MECHANISM,
    ),
]
SpaceWords = Annotated[
    int | None,
    typer.Option(
        "--space-words",
        metavar="N",
        min=1,
        help="Use the first words of the space only; published files list frequent words first.",
        rich_help_panel=_MECHANISM,
    ),
]
Keep = Annotated[
    Path | None,
    typer.Option(
        "--keep",
        metavar="FILE",
        help="A public list of words that are released as they are, one for each line.",
        rich_help_panel=_MECHANISM,
    ),
]
MechanismOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="KEY=VALUE",
        help="A further option of the mechanism; may be repeated. A list of words is a public FILE with one on each line.",
        rich_help_panel=_MECHANISM,
    ),
]
AllowUnsound = Annotated[
    bool,
    typer.Option(
        "--allow-unsound",
        help="Run a mechanism whose published guarantee is false.",
        rich_help_panel=_MECHANISM,
    ),
]
OutOfVocabulary = Annotated[
    str,
    typer.Option(
        "--oov",
        metavar="WAY",
        help="A protected word that is not in the space: draw (a uniformly random word), spell (taken for the word "
        "one letter away, else drawn), mask ([MASK]) or keep (released WITHOUT PROTECTION).",
        rich_help_panel=_MECHANISM,
    ),
]
_TEXT = "Text"
Protect = Annotated[
    list[str] | None, typer.Option("--protect", metavar="WHAT", help=PROTECT_HELP, rich_help_panel=_TEXT)
]
StopWords = Annotated[
    list[str] | None,
    typer.Option(
        "--keep-stop-words",
        metavar="LANGUAGE",
        help="Release the stop words of a language (a code such as en) as they are; may be repeated.",
        rich_help_panel=_TEXT,
    ),
]
SharedDraws = Annotated[
    str,
    typer.Option(
        "--consistency",
        metavar="REACH",
        help="How far one draw for a word reaches: token (drawn anew each time), record or dataset (equal words stay "
        "equal, which reveals that they are).",
        rich_help_panel=_TEXT,
    ),
]
PublicLength = Annotated[
    int | None,
    typer.Option(
        "--public-length",
        metavar="N",
        help="Cut and pad every text to N words of the vocabulary, without layout.",
        rich_help_panel=_TEXT,
    ),
]
DigitEpsilon = Annotated[
    float | None,
    typer.Option(
        "--digits",
        metavar="EPSILON",
        help="Replace numbers digit by digit, with this epsilon each.",
        rich_help_panel=_TEXT,
    ),
]
Identifiers = Annotated[
    str | None,
    typer.Option(
        "--identifiers",
        metavar="FORM",
        help="Replace e-mail addresses, URLs, card, IBAN and phone numbers by random ones: fixed (one public form for "
        "each kind) or preserved (the form of the original, which is then public).",
        rich_help_panel=_TEXT,
    ),
]
