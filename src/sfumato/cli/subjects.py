"""The options of a run whose subjects pay from a ledger, and what is told about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.budget import KEY_VARIABLE, opened_ledger
from sfumato.foundation.checks import gather, require_one_of
from sfumato.foundation.errors import ParameterError
from sfumato.foundation.randomness import RunKey
from sfumato.ledger.amounts import UNITS
from sfumato.scale import Reader, Writer

if TYPE_CHECKING:
    from sfumato.release import ReleaseTally, TextRelease
    from sfumato.sanitize import Sanitizer

_PANEL = "Budget"
_WHEN = ("skip", "stop")
_MOST_NAMED = 1000

LedgerAddress = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="URL",
        help="Charge every record to its subject's budget in this ledger before it is released: a file, or "
        "postgresql://user@host/database (password from PGPASSWORD or ~/.pgpass).",
        rich_help_panel=_PANEL,
    ),
]
SubjectColumn = Annotated[
    str | None,
    typer.Option(
        "--subject-column", metavar="NAME", help="The column that says whose budget pays.", rich_help_panel=_PANEL
    ),
]
WhenExhausted = Annotated[
    str,
    typer.Option(
        "--when-exhausted",
        metavar="HOW",
        help="skip: leave out the records of subjects that cannot pay; stop: release nothing from the first of them "
        "on.",
        rich_help_panel=_PANEL,
    ),
]
BudgetKind = Annotated[
    str | None,
    typer.Option(
        "--budget-kind",
        metavar="KIND",
        help="The kind of budget that pays: that of the mechanism's promise where it is not given, or pure.",
        rich_help_panel=_PANEL,
    ),
]
NameSubjects = Annotated[
    bool,
    typer.Option(
        "--name-subjects", help="Say at the end whose records were left out, to the owner.", rich_help_panel=_PANEL
    ),
]
SubjectKey = Annotated[
    Path | None,
    typer.Option(
        "--subject-key",
        metavar="FILE",
        envvar=KEY_VARIABLE,
        help="The secret of a ledger that holds pseudonyms in place of names.",
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True)
class Payment:
    """Who pays for a run, from which ledger; without a ledger, nobody does."""

    ledger: str | None = None
    subject_column: str | None = None
    when_exhausted: str = "skip"
    kind: str | None = None
    name_subjects: bool = False
    subject_key: Path | None = None

    def __post_init__(self) -> None:
        gather(
            lambda: require_one_of(_WHEN, when_exhausted=self.when_exhausted),
            lambda: require_one_of(UNITS, budget_kind=self.kind) if self.kind is not None else None,
            self._check_pair,
        )

    def _check_pair(self) -> None:
        if (self.ledger is None) != (self.subject_column is None):
            raise ParameterError("--ledger and --subject-column go together: the column says whose budget pays")

    def check_key(self, key: RunKey | None) -> None:
        """Raise where the noise follows from a seed: nobody should pay for a promise that it does not keep."""
        if self.ledger is not None and key is not None and not key.secure:
            raise ParameterError("a budget cannot be spent on noise that follows from a seed; leave out --seed")

    @contextmanager
    def opened(self, sanitizer: Sanitizer, key: RunKey | None) -> Iterator[TextRelease | None]:
        """Open the ledger, if there is one, and find the price of a word."""
        self.check_key(key)
        if self.ledger is None:
            yield None
            return
        from sfumato.release import TextRelease

        with opened_ledger(self.ledger, self.subject_key) as ledger:
            yield TextRelease(
                ledger,
                sanitizer,
                key=key,
                kind=self.kind,
                when_exhausted=self.when_exhausted,
                name_subjects=self.name_subjects,
            )

    def between(self, reader: Reader, writer: Writer, release: TextRelease | None) -> tuple[Reader, Writer]:
        """Return a reader that charges, and a writer that leaves out what was not paid for."""
        if release is None:
            return reader, writer
        from sfumato.scale.paying import PaidWriter, PayingReader

        return PayingReader(reader, str(self.subject_column), release), PaidWriter(writer)

    def settings(self, release: TextRelease | None) -> dict[str, Any]:
        """Return what the guarantee file says of the budget: nothing that is computed from who has how much left."""
        if release is None:
            return {}
        return {
            "budget": {
                "kind": release.prices.kind,
                "subject_column": self.subject_column,
                "when_exhausted": self.when_exhausted,
            }
        }


def held_back_line(tally: ReleaseTally) -> str:
    """Return one line for standard error; empty where everything was released.

    >>> from sfumato.release import ReleaseTally
    >>> held_back_line(ReleaseTally(released=3, exhausted=2))
    '2 of 5 records held back: budget exhausted 2'
    """
    if not tally.held_back:
        return ""
    reasons = {
        "budget exhausted": tally.exhausted,
        "no budget": tally.without_budget,
        "after the run stopped": tally.after_stop,
    }
    listed = ", ".join(f"{reason} {count:,}" for reason, count in reasons.items() if count)
    return f"{tally.held_back:,} of {tally.released + tally.held_back:,} records held back: {listed}"


def report(release: TextRelease | None) -> None:
    """Tell the owner, on standard error, how many records were held back; whose, only where that was asked for."""
    if release is None:
        return
    line = held_back_line(release.tally)
    if line:
        typer.echo(f"sfumato: {line}", err=True)
    names = sorted(release.tally.who)
    for name in names[:_MOST_NAMED]:
        typer.echo(f"held back: {name!r}", err=True)
    if len(names) > _MOST_NAMED:
        typer.echo(f"held back: and {len(names) - _MOST_NAMED:,} more", err=True)
