"""The budget ledger: the only place where budget is kept, and charged before anything is released."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sfumato.foundation.checks import require_one_of, require_positive
from sfumato.ledger import extras
from sfumato.ledger.address import Address
from sfumato.ledger.amounts import UNITS, Amount, Cost, running_units
from sfumato.ledger.combining import Combiner
from sfumato.ledger.database import Database
from sfumato.ledger.errors import BudgetExistsError, UnknownBudgetError
from sfumato.ledger.records import Budget, Charge, Outcome, Request, Verification, moment
from sfumato.ledger.subjects import Subjects

_ROWS_AT_ONCE = 1000


class Ledger:
    """Budgets of subjects, and the history of what was charged to them.

    Safe to share between threads, processes and machines.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger.open(folder.name + "/budgets.db")
    >>> _ = ledger.create("ada", kind="pure", limit="1.5")
    >>> ledger.charge("ada", Cost.pure("1.2"), key="request 17").number
    1
    >>> ledger.charge("ada", Cost.pure("1.2"), key="request 17").replayed
    True
    >>> ledger.charge("ada", Cost.pure("0.4"))
    Traceback (most recent call last):
        ...
    sfumato.ledger.errors.OverdraftError: the budget has 0.3 of epsilon left, the release costs 0.4
    >>> ledger.verify().passed
    True
    >>> ledger.close(); folder.cleanup()
    """

    def __init__(self, database: Database, name: str, subjects: Subjects) -> None:
        """Use :meth:`open`."""
        self._database = database
        self._name = name
        self._subjects = subjects
        self._combiner: Combiner[tuple[str, str, Request], Outcome] = Combiner(self._charge_together)

    @classmethod
    def open(
        cls,
        address: str | Path,
        *,
        subject_key: bytes | None = None,
        create: bool = True,
        timeout: float = 30.0,
    ) -> Ledger:
        """Open a ledger: a file, or a PostgreSQL database by URL.

        Tables are made where there are none (unless ``create`` is false) and upgraded where they are older. With
        ``subject_key``, names of subjects are stored as pseudonyms. ``timeout`` is how long to wait for others, in
        seconds.
        """
        require_positive(timeout=timeout)
        extras.sqlalchemy()
        from sfumato.ledger import migrate

        subjects = Subjects(subject_key)
        database = Database(Address.parse(address), timeout)
        try:
            name = migrate.prepare(database, subjects.check, create=create)
        except BaseException:
            database.close()
            raise
        return cls(database, name, subjects)

    @property
    def address(self) -> str:
        """Where the ledger is, without user and password."""
        return self._database.address.shown

    def create(
        self, subject: str, *, kind: str, limit: Amount, delta_limit: Amount | None = None, scope: str = ""
    ) -> Budget:
        """Give a subject a budget of one kind; its limit never changes.

        ``scope`` says what the amounts speak of; left empty, the first charge says it.
        """
        if not self.create_each([subject], kind=kind, limit=limit, delta_limit=delta_limit, scope=scope):
            raise BudgetExistsError(f"the subject has a budget of kind {kind!r} already; limits do not change")
        return self.budget(subject, kind)

    def create_each(
        self,
        subjects: Iterable[str],
        *,
        kind: str,
        limit: Amount,
        delta_limit: Amount | None = None,
        scope: str = "",
    ) -> int:
        """Give many subjects a budget of their own; return how many had none. Budgets that exist stay as they are."""
        from sfumato.ledger.creation import Terms, insert_missing

        terms = Terms.of(kind, limit, delta_limit, scope)
        stored = sorted({self._subjects.stored(subject) for subject in subjects})
        now = int(time.time() * 1_000_000)
        return self._database.write(
            lambda connection, again: insert_missing(connection, self._name, stored, terms, now)
        )

    def budget(self, subject: str, kind: str) -> Budget:
        """Return a subject's budget of one kind."""
        require_one_of(UNITS, kind=kind)
        with self._database.read() as connection:
            row = connection.execute(_by_name(self._subjects.stored(subject), kind)).first()
        if row is None:
            raise UnknownBudgetError(f"the subject has no budget of kind {kind!r}; create one first")
        return _as_budget(row)

    def budgets(self, subject: str | None = None) -> Iterator[Budget]:
        """Yield all budgets, or those of one subject."""
        from sfumato.ledger.schema import budgets

        statement = budgets.select().order_by(budgets.c.id)
        if subject is not None:
            statement = statement.where(budgets.c.subject == self._subjects.stored(subject))
        with self._database.read() as connection:
            for row in _streamed(connection, statement):
                yield _as_budget(row)

    def charge(
        self, subject: str, cost: Cost, *, key: str | None = None, purpose: str = "", fingerprint: str = ""
    ) -> Charge:
        """Charge one release and return its line of the history; raise where it is not affordable.

        With a ``key``, the same request is charged once however often it is made; ``fingerprint`` guards against the
        key's reuse for something else. A charge that is returned is on disk. There are no refunds.
        """
        outcome = self.charge_each([Request(subject, [cost], key, purpose, fingerprint)])[0]
        if outcome.charge is None:
            raise outcome.refusal or UnknownBudgetError("the subject has no budget")
        return outcome.charge

    def charge_each(self, requests: Sequence[Request]) -> list[Outcome]:
        """Charge many requests in one transaction and return what became of each; a refusal is not an error here."""
        prepared = self._prepared(requests)
        return self._combiner.ask(prepared) if prepared else []

    def charge_all(self, requests: Sequence[Request]) -> list[Charge]:
        """Charge all requests in one transaction, or none: the first refusal is raised and nothing is charged."""
        from sfumato.ledger.charging import charge_all

        prepared = self._prepared(requests)

        def work(connection: Any, again: bool) -> list[Charge]:
            charged = []
            for outcome in charge_all(connection, prepared, again):
                if outcome.refusal is not None:
                    raise outcome.refusal
                if outcome.charge is not None:
                    charged.append(outcome.charge)
            return charged

        return self._database.write(work)

    def history(self, subject: str | None = None, kind: str | None = None) -> Iterator[Charge]:
        """Yield all charges, or those of one subject, budget by budget and in order."""
        from sqlalchemy import select

        from sfumato.ledger.charging import charge_of
        from sfumato.ledger.schema import budgets, charges

        statement = (
            select(charges, budgets.c.kind)
            .join(budgets, budgets.c.id == charges.c.budget_id)
            .order_by(charges.c.budget_id, charges.c.number)
        )
        if subject is not None:
            statement = statement.where(budgets.c.subject == self._subjects.stored(subject))
        if kind is not None:
            require_one_of(UNITS, kind=kind)
            statement = statement.where(budgets.c.kind == kind)
        with self._database.read() as connection:
            for row in _streamed(connection, statement):
                yield charge_of(row._mapping, row.kind)

    def verify(self, anchors: dict[int, tuple[int, str]] | None = None) -> Verification:
        """Recompute every chain and every balance; with anchors, also check that the past is the one noted in them."""
        from sfumato.ledger.verification import verify

        with self._database.read() as connection:
            return verify(connection, self._name, anchors or {})

    def anchors(self) -> dict[int, tuple[int, str]]:
        """Return where every chain ends now; kept in another place, it proves later that nothing was rewritten."""
        from sfumato.ledger.verification import anchors_of

        with self._database.read() as connection:
            return anchors_of(connection)

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({self.address!r})"

    def __getstate__(self) -> dict[str, Any]:
        """Refuse to be copied to another process, which would carry the password along."""
        raise TypeError("a ledger is not pickled; open it again in the other process")

    def _prepared(self, requests: Sequence[Request]) -> list[tuple[str, str, Request]]:
        from sfumato.ledger.charging import new_key

        prepared = []
        for request in requests:
            running_units(request.costs)  # whatever is wrong with an amount is found before others are involved
            prepared.append((self._subjects.stored(request.subject), request.key or new_key(), request))
        return prepared

    def _charge_together(self, requests: Sequence[tuple[str, str, Request]]) -> list[Outcome]:
        from sfumato.ledger.charging import charge_all

        return self._database.write(lambda connection, again: charge_all(connection, requests, again))


def _by_name(stored: str, kind: str) -> Any:
    from sfumato.ledger.schema import budgets

    return budgets.select().where(budgets.c.subject == stored, budgets.c.kind == kind)


def _streamed(connection: Any, statement: Any) -> Iterator[Any]:
    return iter(connection.execution_options(stream_results=True, yield_per=_ROWS_AT_ONCE).execute(statement))


def _as_budget(row: Any) -> Budget:
    return Budget(
        number=row.id,
        subject=row.subject,
        kind=row.kind,
        scope=row.scope,
        limit_units=row.limit_units,
        spent_units=row.spent_units,
        limit_delta_units=row.limit_delta,
        spent_delta_units=row.spent_delta,
        charges=row.charges,
        created_at=moment(row.created_at),
        head=bytes(row.head).hex(),
    )
