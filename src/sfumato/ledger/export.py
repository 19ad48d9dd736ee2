"""Writes the history, or the budgets, as CSV or JSON lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from typing import Any, TextIO

from sfumato.foundation.checks import gather, require_one_of
from sfumato.ledger.ledger import Ledger

FORMATS = ("csv", "jsonl")
CONTENTS = ("charges", "budgets")


def export(
    ledger: Ledger, stream: TextIO, *, file_format: str, contents: str = "charges", with_subjects: bool = False
) -> int:
    """Write every charge (or every budget) on a line of its own; return how many there were.

    Subjects are written only where it is asked for; budgets are told apart by their numbers.
    """
    gather(
        lambda: require_one_of(FORMATS, file_format=file_format),
        lambda: require_one_of(CONTENTS, contents=contents),
    )
    rows = _charges(ledger, with_subjects) if contents == "charges" else _budgets(ledger, with_subjects)
    count = 0
    writer: csv.DictWriter[str] | None = None
    for row in rows:
        count += 1
        if file_format == "jsonl":
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")
            continue
        if writer is None:
            names = dict.fromkeys((*row, *(_DELTAS if contents == "budgets" else ())))
            writer = csv.DictWriter(stream, list(names), lineterminator="\n")
            writer.writeheader()
        writer.writerow(row)
    return count


_DELTAS = ("delta_limit", "delta_spent", "delta_left")


def _budgets(ledger: Ledger, with_subjects: bool) -> Iterator[dict[str, Any]]:
    for budget in ledger.budgets():
        yield budget.to_json(with_subject=with_subjects)


def _charges(ledger: Ledger, with_subjects: bool) -> Iterator[dict[str, Any]]:
    names = {budget.number: budget.subject for budget in ledger.budgets()} if with_subjects else {}
    for charge in ledger.history():
        row = charge.to_json()
        yield {"subject": names.get(charge.budget, ""), **row} if with_subjects else row
