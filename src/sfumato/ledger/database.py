"""The connection of a ledger: transactions that write, transactions that read, and what becomes of their errors.

SQLite runs in write-ahead mode with full synchronisation, and a writing transaction takes the write lock when it
begins (``BEGIN IMMEDIATE``), so that two writers never find out late that they cannot both go on.  PostgreSQL locks
the rows of the budgets that are charged.  A charge that was confirmed survives a crash of the process, of the
database and of the machine.
"""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from sfumato.ledger.address import Address
from sfumato.ledger.errors import (
    LedgerBusyError,
    LedgerError,
    LedgerFullError,
    LedgerSchemaError,
    LedgerUnreachableError,
)
from sfumato.ledger.extras import psycopg, sqlalchemy

T = TypeVar("T")

_SQLITE_ERRORS: dict[int, tuple[type[LedgerError], str]] = {
    5: (LedgerBusyError, "others held it for too long; try again"),
    6: (LedgerBusyError, "others held it for too long; try again"),
    8: (LedgerUnreachableError, "the file may not be written; mend its permissions"),
    10: (LedgerError, "the disk reported an error"),
    13: (LedgerFullError, "the disk is full; make room and try again"),
    14: (LedgerUnreachableError, "the file cannot be opened; check that its folder exists and may be written"),
    26: (LedgerSchemaError, "the file is not an SQLite database"),
    11: (LedgerSchemaError, "the file is damaged; bring back a copy and verify it"),
}
_POSTGRES_ERRORS: dict[str, tuple[type[LedgerError], str]] = {
    "28P01": (LedgerUnreachableError, "the user or the password is wrong"),
    "28000": (LedgerUnreachableError, "this user is not allowed in"),
    "3D000": (LedgerUnreachableError, "there is no such database; create it first"),
    "42501": (LedgerUnreachableError, "this user may not read or write the tables"),
    "53100": (LedgerFullError, "the disk of the database is full; make room and try again"),
    "53300": (LedgerBusyError, "the database has no connection left; try again"),
    "40001": (LedgerBusyError, "others changed the same budgets; try again"),
    "40P01": (LedgerBusyError, "others changed the same budgets; try again"),
    "55P03": (LedgerBusyError, "others held the budget for too long; try again"),
    "57P03": (LedgerUnreachableError, "the database is starting up; try again"),
    "25006": (LedgerUnreachableError, "the database is read-only"),
}
_SAID_WHEN_CONNECTING = (
    ("password authentication failed", "28P01"),
    ("no password supplied", "28P01"),
    ("no pg_hba.conf entry", "28000"),
    ('FATAL:  role "', "28000"),
    ('FATAL:  database "', "3D000"),
    ("remaining connection slots", "53300"),
    ("too many clients", "53300"),
    ("starting up", "57P03"),
)
_WAL_PATIENCE_SECONDS = 10.0


class Database:
    """An engine with the two kinds of transaction a ledger needs."""

    def __init__(self, address: Address, timeout: float) -> None:
        self.address = address
        self._timeout = timeout
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._was_connected = False
        self._inherited: list[Any] = []
        self._engine = self._new_engine()
        self._writing = self._engine.execution_options(sfumato_writes=True)

    @property
    def is_sqlite(self) -> bool:
        """Whether the ledger is a file."""
        return self.address.file is not None

    def write(self, work: Callable[[Any, bool], T]) -> T:
        """Run ``work`` in one writing transaction; run it again where others were in the way.

        ``work`` gets the connection, and whether it may have succeeded before: a connection that breaks while it
        commits leaves that open.
        """
        deadline = time.monotonic() + self._timeout
        attempt = 0
        while True:
            was_connected = self._was_connected
            try:
                with self._errors_translated(), self._connected(writes=True) as connection:
                    return work(connection, attempt > 0)
            except LedgerUnreachableError:
                # Pooled connections may have died with a server that is back by now.
                if attempt or not was_connected:
                    raise
                self._engine.dispose()
            except LedgerBusyError:
                pause = random.uniform(0, min(0.01 * 2 ** min(attempt, 6), 0.5))
                if time.monotonic() + pause > deadline:
                    raise
                time.sleep(pause)
            attempt += 1

    @contextlib.contextmanager
    def read(self) -> Iterator[Any]:
        """Give a connection that sees one state of the ledger throughout."""
        self._refresh()
        with self._errors_translated(), self._connected(writes=False) as connection:
            if not self.is_sqlite:
                connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield connection

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextlib.contextmanager
    def _connected(self, *, writes: bool) -> Iterator[Any]:
        self._after_fork()
        engine = self._writing if writes else self._engine
        with engine.begin() as connection:
            self._was_connected = True
            yield connection

    def _refresh(self) -> None:
        """Drop pooled connections that died, so that a reader need not find out half-way."""
        if self._was_connected and not self.is_sqlite:
            try:
                with self._errors_translated(), self._connected(writes=False) as connection:
                    connection.exec_driver_sql("SELECT 1")
            except LedgerUnreachableError:
                self._engine.dispose()

    def _after_fork(self) -> None:
        """Connections cannot be shared with a parent process: a child makes its own."""
        if os.getpid() != self._process:
            with self._lock:
                if os.getpid() != self._process:
                    # Kept, never used: to close a connection of the parent's could end it for the parent as well.
                    self._inherited.append(self._engine)
                    self._engine = self._new_engine()
                    self._writing = self._engine.execution_options(sfumato_writes=True)
                    self._process = os.getpid()

    def _new_engine(self) -> Any:
        library = sqlalchemy()
        # Parameters are subjects and amounts: they must not show up in a message.
        options: dict[str, Any] = {"hide_parameters": True, "pool_size": 8, "max_overflow": 56}
        options["pool_timeout"] = self._timeout
        if self.is_sqlite:
            connect: dict[str, Any] = {"timeout": self._timeout, "check_same_thread": False}
        else:
            psycopg()
            connect = {"connect_timeout": max(2, int(min(self._timeout, 10))), "application_name": "sfumato"}
            if "options" not in self.address.url.query:
                patience = int(self._timeout * 1000)
                connect["options"] = f"-c lock_timeout={patience} -c synchronous_commit=on"
        engine = library.create_engine(self.address.url, connect_args=connect, **options)
        if self.is_sqlite:
            library.event.listen(engine, "connect", _prepare_sqlite)
            library.event.listen(engine, "begin", _begin_sqlite)
        return engine

    @contextlib.contextmanager
    def _errors_translated(self) -> Iterator[None]:
        """Turn the library's errors, which may quote an address or a subject, into ours."""
        library = sqlalchemy()
        try:
            yield
        except library.exc.TimeoutError:
            raise LedgerBusyError(self._said("all connections are taken; try again")) from None
        except library.exc.IntegrityError as error:
            raise LedgerBusyError(self._said(f"others wrote the same row ({type(error.orig).__name__})")) from None
        except library.exc.DBAPIError as error:
            raise self._translated(error.orig) from None
        except sqlite3.Error as error:
            raise self._translated(error) from None
        except library.exc.SQLAlchemyError as error:
            raise LedgerError(self._said(f"an unexpected {type(error).__name__}")) from None

    def _translated(self, error: Any) -> LedgerError:
        if self.is_sqlite:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            kind, reason = _SQLITE_ERRORS.get(code, (LedgerError, f"SQLite gave up ({type(error).__name__})"))
            return kind(self._said(reason))
        state = getattr(error, "sqlstate", None)
        if state is None:
            state = next((state for words, state in _SAID_WHEN_CONNECTING if words in str(error)), None)
        if state in _POSTGRES_ERRORS:
            kind, reason = _POSTGRES_ERRORS[state]
            return kind(self._said(reason))
        if state is None or state.startswith(("08", "57")):
            return LedgerUnreachableError(self._said("no connection; check the address and that the server runs"))
        return LedgerError(self._said(f"PostgreSQL gave up ({type(error).__name__}, {state})"))

    def _said(self, reason: str) -> str:
        return f"the ledger at {self.address.shown}: {reason}"


def _prepare_sqlite(connection: Any, record: Any) -> None:
    connection.isolation_level = None  # transactions are begun by us, not guessed by the driver
    deadline = time.monotonic() + _WAL_PATIENCE_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            break
        except sqlite3.OperationalError as error:
            # Several processes that open a new file at once are in each other's way here, in spite of the time-out.
            if error.sqlite_errorcode & 0xFF not in (5, 6) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    connection.execute("PRAGMA synchronous=FULL")


def _begin_sqlite(connection: Any) -> None:
    writes = connection.get_execution_options().get("sfumato_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
