"""Recomputes every chain and every balance from the history."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import func, select

from sfumato.ledger.chain import first_link, next_link
from sfumato.ledger.records import Verification
from sfumato.ledger.schema import budgets, charges

_ROWS_AT_ONCE = 10_000
_MOST_PROBLEMS = 100

Anchors = Mapping[int, tuple[int, str]]
"""For each budget, a number of charges and the hash its chain had then."""


def verify(connection: Any, ledger: str, anchors: Anchors) -> Verification:
    """Check all budgets of a ledger in one pass over the history."""
    problems: list[str] = []
    digest = hashlib.sha256()
    seen = total = 0
    open_anchors = dict(anchors)
    histories = itertools.groupby(_history(connection), key=lambda row: row.budget_id)
    pending = next(histories, None)
    for terms in _in_portions(connection, select(budgets).order_by(budgets.c.id)):
        seen += 1
        while pending is not None and pending[0] < terms.id:
            count = sum(1 for _ in pending[1])
            total += count
            problems.append(f"{count} charges belong to budget {pending[0]}, which does not exist")
            pending = next(histories, None)
        rows: Iterator[Any] = iter(())
        if pending is not None and pending[0] == terms.id:
            rows = pending[1]
        found, count = _check(terms, rows, ledger, open_anchors.pop(terms.id, None))
        problems += found
        total += count
        if pending is not None and pending[0] == terms.id:
            pending = next(histories, None)
        digest.update(b"%d %d " % (terms.id, terms.charges) + bytes(terms.head) + b"\n")
    while pending is not None:
        count = sum(1 for _ in pending[1])
        total += count
        problems.append(f"{count} charges belong to budget {pending[0]}, which does not exist")
        pending = next(histories, None)
    problems += [f"budget {number} is in the anchors but no longer in the ledger" for number in open_anchors]
    if len(problems) > _MOST_PROBLEMS:
        problems = [*problems[:_MOST_PROBLEMS], f"and {len(problems) - _MOST_PROBLEMS} more"]
    return Verification(seen, total, tuple(problems), digest.hexdigest())


def anchors_of(connection: Any) -> dict[int, tuple[int, str]]:
    """Return where the chains end now."""
    rows = connection.execute(select(budgets.c.id, budgets.c.charges, budgets.c.head).order_by(budgets.c.id))
    return {row.id: (row.charges, bytes(row.head).hex()) for row in rows}


def count_charges(connection: Any) -> int:
    """Return the number of lines in the history."""
    return int(connection.execute(select(func.count()).select_from(charges)).scalar_one())


def _history(connection: Any) -> Iterator[Any]:
    return _in_portions(connection, select(charges).order_by(charges.c.budget_id, charges.c.number))


def _in_portions(connection: Any, statement: Any) -> Iterator[Any]:
    """Read a long result without holding it in memory."""
    options = {"stream_results": True, "yield_per": _ROWS_AT_ONCE}
    return iter(connection.execution_options(**options).execute(statement))


def _check(terms: Any, rows: Iterator[Any], ledger: str, anchor: tuple[int, str] | None) -> tuple[list[str], int]:
    """Follow one chain; the first broken link says where to look, what comes after it would only repeat that."""
    name = f"budget {terms.id}"
    problems: list[str] = []
    first = next(rows, None)
    link = _first_link(terms, first, ledger)
    if first is not None:
        rows = itertools.chain([first], rows)
    spent = spent_delta = count = 0
    broken = False
    anchored = anchor is None or (anchor[0] == 0 and anchor[1] == link.hex())
    for row in rows:
        count += 1
        spent += row.amount
        spent_delta += row.delta
        if row.number != count and not broken:
            problems.append(f"{name}: charge {count} is missing")
            broken = True
        link = _link_of(row, link, terms.scope)
        if link != bytes(row.hash) and not broken:
            problems.append(f"{name}: charge {row.number} was altered, or the terms of the budget were")
            broken = True
        link = bytes(row.hash)
        anchored = anchored or (anchor is not None and anchor == (count, link.hex()))
    if not broken and bytes(terms.head) != link:
        problems.append(f"{name}: the chain does not end where the budget says")
    if not anchored:
        problems.append(f"{name}: the chain is not the one that was anchored")
    if count != terms.charges:
        problems.append(f"{name}: {count} charges in the history, {terms.charges} in the budget")
    if (spent, spent_delta) != (terms.spent_units, terms.spent_delta):
        problems.append(f"{name}: the charges of the history do not add up to what the budget says is spent")
    if spent > terms.limit_units or spent_delta > terms.limit_delta:
        problems.append(f"{name}: more is spent than allowed")
    return problems, count


def _first_link(terms: Any, first: Any, ledger: str) -> bytes:
    """Return the hash of a budget's terms: its scope was there from the beginning, or came with the first charge."""
    roots = [
        first_link(ledger, terms.subject, terms.kind, terms.limit_units, terms.limit_delta, terms.created_at, scope)
        for scope in (terms.scope, "")
    ]
    told, untold = roots
    if first is not None and _link_of(first, untold, terms.scope) == bytes(first.hash):
        return untold
    return told


def _link_of(row: Any, previous: bytes, scope: str) -> bytes:
    return next_link(
        previous,
        row.number,
        row.amount,
        row.delta,
        row.releases,
        row.key,
        row.fingerprint,
        row.purpose,
        row.charged_at,
        scope,
    )
