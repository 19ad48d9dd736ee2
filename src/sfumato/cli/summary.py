"""What ``sfumato privatize`` tells the owner of the text at the end."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.accounting.documents import document_composition
from sfumato.cli.guarantee_file import released_guarantee, used_tuning
from sfumato.cli.request import Compiled
from sfumato.foundation.guarantee import MetricGuarantee
from sfumato.foundation.randomness import RunKey
from sfumato.sanitize import Sanitizer
from sfumato.scale import RunSummary

if TYPE_CHECKING:
    from rich.console import Console

_LONGEST_SAMPLE = 400
_MOSTLY_UNCHANGED = 0.5


def print_summary(
    console: Console,
    summary: RunSummary,
    sanitizer: Sanitizer,
    compiled: Compiled,
    columns: Sequence[str],
    key: RunKey | None,
    files: Sequence[Path | None],
) -> None:
    """Print figures, guarantee and file names."""
    from rich.table import Table

    guarantee = released_guarantee(sanitizer, key, columns)
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in (*_counts(summary), *_amounts(compiled, guarantee)):
        table.add_row(name, value)
    for path in files:
        if path is not None:
            table.add_row("written", str(path))
    for before, after in summary.samples:
        console.print(f"- {_printable(before)}", style="red")
        console.print(f"+ {_printable(after)}\n", style="green")
    console.print(table)
    known = summary.counts.protected - summary.counts.out_of_vocabulary
    if summary.counts.unchanged > _MOSTLY_UNCHANGED * known:
        console.print(
            "\nMOST WORDS CAME OUT UNCHANGED: at this epsilon a reader sees nearly the original text. Take a smaller "
            "--epsilon or --neighbour-loss for more protection.",
            style="bold red",
        )
    console.print()
    console.print(guarantee.statement())
    if compiled.attacker is not None:
        console.print()
        console.print(compiled.attacker.statement())
    document = document_composition(guarantee, summary.longest_record)
    console.print()
    console.print(
        "How the promise adds up over the words of a record is not stated for this kind of guarantee."
        if document is None
        else document.statement()
    )


def _counts(summary: RunSummary) -> list[tuple[str, str]]:
    counts = summary.counts
    known = counts.protected - counts.out_of_vocabulary
    share = f" ({counts.unchanged / known:.1%} of those in the vocabulary)" if known else ""
    return [
        ("records", f"{summary.records:,}"),
        ("words protected", f"{counts.protected:,} (at most {summary.longest_record:,} in a record)"),
        ("words kept", f"{counts.kept:,}"),
        ("out of vocabulary", f"{counts.out_of_vocabulary:,}"),
        ("unchanged", f"{counts.unchanged:,}{share}"),
    ]


def _amounts(compiled: Compiled, guarantee: object) -> list[tuple[str, str]]:
    rows = []
    tuning = used_tuning(compiled)
    name = compiled.mechanism.guarantee.mechanism
    rows.append(("mechanism", f"{name}, tuning {tuning}" if tuning else name))
    rows.append(("space", f"{compiled.space.name} ({len(compiled.space):,} words)"))
    if compiled.epsilon is not None:
        loss = "" if compiled.neighbour_loss is None else f" = neighbour loss {compiled.neighbour_loss:.6g}"
        rows.append(("epsilon", f"{compiled.epsilon:.6g}{loss}"))
    if isinstance(guarantee, MetricGuarantee):
        loss = "" if guarantee.neighbour_loss is None else f" = neighbour loss {guarantee.neighbour_loss:.6g}"
        rows.append(("certified epsilon", f"{guarantee.certified:.6g}{loss}"))
        if math.isfinite(guarantee.local_epsilon):
            rows.append(("local epsilon", f"{guarantee.local_epsilon:.6g} (any two words)"))
    return rows


def _printable(text: str) -> str:
    """Return a text on one line and without control characters, which could drive the terminal."""
    shown = "".join(" " if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp", "Cs") else c for c in text)
    return shown if len(shown) <= _LONGEST_SAMPLE else shown[:_LONGEST_SAMPLE] + " ..."
