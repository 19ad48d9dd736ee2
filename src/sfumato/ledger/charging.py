"""The one transaction that spends budget.

The budgets of all requests are locked in one order, what fits is appended to their chains, and the balances move, all
or nothing.  A request whose key is in the history already gets the old charge back.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import bindparam, insert, select, tuple_, update

from sfumato.ledger.amounts import DELTA_UNIT, MEANINGS, UNITS, running_units
from sfumato.ledger.chain import next_link
from sfumato.ledger.errors import OverdraftError, ReusedKeyError, UnknownBudgetError, UnlikeCostError
from sfumato.ledger.records import Charge, Outcome, Request, moment, shown
from sfumato.ledger.schema import budgets, charges

_AT_ONCE = 500
"""Rows asked for in one statement; SQLite limits the number of parameters."""

_LOCKED = (
    select(
        budgets.c.id,
        budgets.c.subject,
        budgets.c.kind,
        budgets.c.scope,
        budgets.c.limit_units,
        budgets.c.spent_units,
        budgets.c.limit_delta,
        budgets.c.spent_delta,
        budgets.c.charges,
        budgets.c.head,
    )
    .where(tuple_(budgets.c.subject, budgets.c.kind).in_(bindparam("names", expanding=True)))
    .order_by(budgets.c.id)
    .with_for_update()
)
_BY_KEY = select(charges).where(tuple_(charges.c.budget_id, charges.c.key).in_(bindparam("keys", expanding=True)))
_APPEND = insert(charges)
_MOVE = (
    update(budgets)
    .where(budgets.c.id == bindparam("budget"))
    .values(
        scope=bindparam("new_scope"),
        spent_units=bindparam("spent"),
        spent_delta=bindparam("spent_of_delta"),
        charges=bindparam("count"),
        head=bindparam("link"),
    )
)


@dataclass
class _Account:
    """A locked budget, as it moves through the requests of one transaction."""

    id: int
    kind: str
    scope: str
    limit: tuple[int, int]
    spent: tuple[int, int]
    charges: int
    head: bytes
    new_rows: list[dict[str, Any]] = field(default_factory=list)

    def fits(self, units: tuple[int, int]) -> bool:
        return all(done + more <= most for done, more, most in zip(self.spent, units, self.limit, strict=True))

    def append(self, units: tuple[int, int], releases: int, key: str, request: Request, now: int) -> dict[str, Any]:
        self.charges += 1
        self.scope = self.scope or request.scope
        self.spent = (self.spent[0] + units[0], self.spent[1] + units[1])
        self.head = next_link(
            self.head,
            self.charges,
            *units,
            releases,
            key,
            request.fingerprint,
            request.purpose,
            now,
            self.scope,
        )
        row = {
            "budget_id": self.id,
            "number": self.charges,
            "amount": units[0],
            "delta": units[1],
            "releases": releases,
            "key": key,
            "fingerprint": request.fingerprint,
            "purpose": request.purpose,
            "charged_at": now,
            "hash": self.head,
        }
        self.new_rows.append(row)
        return row


def charge_all(connection: Any, requests: Sequence[tuple[str, str, Request]], again: bool) -> list[Outcome]:
    """Charge requests, given as (stored subject, key, request), in order; return an outcome for each.

    ``again`` says that this may have succeeded before, so that keys made up for this call have to be looked for as
    well.
    """
    accounts = _lock(connection, {(subject, request.kind) for subject, _, request in requests})
    known = _find_keys(
        connection,
        [
            (accounts[subject, request.kind].id, key)
            for subject, key, request in requests
            if (again or request.key is not None) and (subject, request.kind) in accounts
        ],
    )
    now = int(time.time() * 1_000_000)
    outcomes = []
    for subject, key, request in requests:
        account = accounts.get((subject, request.kind))
        if account is None:
            outcomes.append(Outcome(0, refusal=_unknown(request)))
            continue
        earlier = known.get((account.id, key))
        if earlier is not None:
            outcomes.append(_replay(earlier, account, request))
            continue
        outcome, row = _charge(account, key, request, now)
        outcomes.append(outcome)
        if row is not None:
            known[account.id, key] = row
    _write(connection, [account for account in accounts.values() if account.new_rows])
    return outcomes


def new_key() -> str:
    """Return a key for a request that has none, so that a transaction that is tried again is charged once."""
    return uuid.uuid4().hex


def _lock(connection: Any, names: set[tuple[str, str]]) -> dict[tuple[str, str], _Account]:
    accounts = {}
    for some in _portions(sorted(names)):
        for row in connection.execute(_LOCKED, {"names": some}):
            accounts[row.subject, row.kind] = _Account(
                row.id,
                row.kind,
                row.scope,
                (row.limit_units, row.limit_delta),
                (row.spent_units, row.spent_delta),
                row.charges,
                bytes(row.head),
            )
    return accounts


def _find_keys(connection: Any, keys: list[tuple[int, str]]) -> dict[tuple[int, str], dict[str, Any]]:
    found = {}
    for some in _portions(keys):
        for row in connection.execute(_BY_KEY, {"keys": some}).mappings():
            found[row["budget_id"], row["key"]] = dict(row)
    return found


def _portions(items: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return (items[start : start + _AT_ONCE] for start in range(0, len(items), _AT_ONCE))


def _charge(account: _Account, key: str, request: Request, now: int) -> tuple[Outcome, dict[str, Any] | None]:
    mismatch = _scope_mismatch(account, request.scope)
    if mismatch is not None:
        return Outcome(0, refusal=mismatch), None
    totals = running_units(request.costs)
    accepted = len(totals) if account.fits(totals[-1]) else 0
    refusal = None
    if not accepted:
        refusal = _overdraft(account, totals[-1])
        if request.partial:
            accepted = sum(account.fits(units) for units in totals)
    if not accepted:
        return Outcome(0, refusal=refusal), None
    releases = sum(cost.releases for cost in request.costs[:accepted])
    row = account.append(totals[accepted - 1], releases, key, request, now)
    return Outcome(accepted, charge_of(row, account.kind), refusal), row


def _scope_mismatch(account: _Account, scope: str) -> UnlikeCostError | None:
    """Return what is wrong with a cost's scope: the first charge says what a budget speaks of, later ones must agree."""
    if scope in ("", account.scope):
        return None
    if account.scope:
        return UnlikeCostError(
            f"this budget speaks of ({account.scope}), the cost of ({scope}): they do not add; make a budget of its own"
        )
    if account.charges:
        return UnlikeCostError(
            f"this budget took charges that do not say what they speak of, the cost speaks of ({scope}): they do not "
            "add; make a budget of its own"
        )
    return None


def _replay(row: dict[str, Any], account: _Account, request: Request) -> Outcome:
    """Return the charge that the key stands for, if it is for the same thing."""
    paid_for = itertools.accumulate(cost.releases for cost in request.costs)
    reached = next((count for count, releases in enumerate(paid_for, start=1) if releases == row["releases"]), 0)
    same = (
        reached > 0
        and (request.partial or reached == len(request.costs))
        and running_units(request.costs)[reached - 1] == (row["amount"], row["delta"])
        and (row["fingerprint"], row["purpose"]) == (request.fingerprint, request.purpose)
        and _scope_mismatch(account, request.scope) is None
    )
    if not same:
        return Outcome(
            0, refusal=ReusedKeyError("this idempotency key stands for another charge; give every release its own")
        )
    refusal = None
    if reached < len(request.costs):
        refusal = _overdraft(account, running_units(request.costs)[-1])
    return Outcome(reached, charge_of(row, account.kind, replayed=request.key is not None), refusal)


def charge_of(row: Mapping[str, Any], kind: str, *, replayed: bool = False) -> Charge:
    """Return a row of the history."""
    return Charge(
        budget=row["budget_id"],
        number=row["number"],
        kind=kind,
        amount_units=row["amount"],
        delta_units=row["delta"],
        releases=row["releases"],
        key=row["key"],
        fingerprint=row["fingerprint"],
        purpose=row["purpose"],
        charged_at=moment(row["charged_at"]),
        hash=bytes(row["hash"]).hex(),
        replayed=replayed,
    )


def _unknown(request: Request) -> UnknownBudgetError:
    return UnknownBudgetError(f"the subject has no budget of kind {request.kind!r}; create one first")


def _overdraft(account: _Account, units: tuple[int, int]) -> OverdraftError:
    unit, meaning = UNITS[account.kind], MEANINGS[account.kind]
    left, asked = shown((account.limit[0] - account.spent[0]) * unit), shown(units[0] * unit)
    if account.limit[1] or units[1]:
        delta_left, delta_asked = (account.limit[1] - account.spent[1]) * DELTA_UNIT, units[1] * DELTA_UNIT
        left, meaning = f"{left} of {meaning} and {shown(delta_left)}", "delta"
        asked = f"{asked} and {shown(delta_asked)}"
    text = f"the budget has {left} of {meaning} left, the release costs {asked}"
    return OverdraftError(text)


def _write(connection: Any, moved: list[_Account]) -> None:
    if not moved:
        return
    connection.execute(_APPEND, [row for account in moved for row in account.new_rows])
    connection.execute(
        _MOVE,
        [
            {
                "budget": account.id,
                "new_scope": account.scope,
                "spent": account.spent[0],
                "spent_of_delta": account.spent[1],
                "count": account.charges,
                "link": account.head,
            }
            for account in moved
        ],
    )
