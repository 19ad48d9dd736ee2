"""Makes budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, insert, select

from sfumato.foundation.checks import require_one_of
from sfumato.foundation.errors import ParameterError
from sfumato.ledger.amounts import DELTA_UNIT, UNITS, Amount, exact, require_scope, units_allowed
from sfumato.ledger.chain import first_link
from sfumato.ledger.schema import budgets

_AT_ONCE = 500
_FOUND = select(budgets.c.subject, budgets.c.head).where(
    budgets.c.kind == bindparam("wanted_kind"), budgets.c.subject.in_(bindparam("names", expanding=True))
)


@dataclass(frozen=True)
class Terms:
    """What a budget allows; it never changes."""

    kind: str
    scope: str
    limit_units: int
    limit_delta_units: int

    @classmethod
    def of(cls, kind: str, limit: Amount, delta_limit: Amount | None, scope: str) -> Terms:
        """Check the terms and turn them into whole units, rounded down."""
        require_one_of(UNITS, kind=kind)
        if kind == "approximate" and delta_limit is None:
            raise ParameterError("a budget of kind 'approximate' needs a delta_limit as well, such as 1e-6")
        if kind != "approximate" and delta_limit is not None:
            raise ParameterError(f"a budget of kind {kind!r} has no delta_limit; only kind 'approximate' has one")
        delta = exact("delta_limit", delta_limit or 0)
        if delta > 1:
            raise ParameterError("delta_limit must be at most 1")
        require_scope(scope)
        return cls(kind, scope, units_allowed(kind, exact("limit", limit)), int(delta / DELTA_UNIT))


def insert_missing(connection: Any, ledger: str, subjects: Sequence[str], terms: Terms, now: int) -> int:
    """Make a budget for each subject (in stored form) that has none of this kind; return how many were made.

    A second try of the same call, with the same ``now``, recognises the budgets of the first by their hash.
    """
    made = 0
    for start in range(0, len(subjects), _AT_ONCE):
        some = subjects[start : start + _AT_ONCE]
        found = {
            row.subject: bytes(row.head)
            for row in connection.execute(_FOUND, {"wanted_kind": terms.kind, "names": some})
        }
        rows = []
        for subject in some:
            link = first_link(ledger, subject, terms.kind, terms.limit_units, terms.limit_delta_units, now, terms.scope)
            if subject not in found:
                rows.append(_row(subject, terms, now, link))
            elif found[subject] == link:
                made += 1
        if rows:
            connection.execute(insert(budgets), rows)
            made += len(rows)
    return made


def _row(subject: str, terms: Terms, now: int, link: bytes) -> dict[str, Any]:
    return {
        "subject": subject,
        "kind": terms.kind,
        "scope": terms.scope,
        "limit_units": terms.limit_units,
        "spent_units": 0,
        "limit_delta": terms.limit_delta_units,
        "spent_delta": 0,
        "charges": 0,
        "head": link,
        "created_at": now,
    }
