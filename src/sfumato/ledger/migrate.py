"""Brings the tables of a ledger to the revision this program knows."""

from __future__ import annotations

import os
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from sfumato.ledger.database import Database
from sfumato.ledger.errors import LedgerSchemaError
from sfumato.ledger.extras import alembic, sqlalchemy
from sfumato.ledger.schema import REVISION, VERSION_TABLE, facts

_LOCK = 0x5F0A70
"""A number that only this program locks: migrations of one database wait for each other."""
_ONE_AT_A_TIME = threading.Lock()
"""Alembic keeps the connection it works on in a global variable; two threads would write through the same one."""


def prepare(database: Database, subject_check: str, *, create: bool) -> str:
    """Create or upgrade the tables where needed, check the key for pseudonyms, and return the ledger's own name."""
    if database.address.file is not None:
        _make_file(database.address.file, database, create)
    with database.read() as connection:
        revision = _revision(connection)
    if revision != REVISION:
        database.write(lambda connection, again: _migrate(connection, database, subject_check, create))
    with database.read() as connection:
        stored = {row.name: row.value for row in connection.execute(facts.select())}
    if stored.get("subject_check", "") != subject_check:
        raise LedgerSchemaError(
            "this ledger holds pseudonyms made with another key; open it with that key"
            if stored.get("subject_check")
            else "this ledger holds plain names; open it without a key for pseudonyms"
        )
    return str(stored["ledger"])


def _make_file(path: Path, database: Database, create: bool) -> None:
    """Make the file before SQLite does: only its owner may read who spent what."""
    if path.exists():
        return
    if not create:
        raise LedgerSchemaError(f"the ledger at {database.address.shown}: there is no such file; create a budget first")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError:
        return  # SQLite fails on it as well, and its reason is translated


def _revision(connection: Any) -> str | None:
    library = sqlalchemy()
    if not library.inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalar()
    return None if found is None else str(found)


def _migrate(connection: Any, database: Database, subject_check: str, create: bool) -> None:
    if not database.is_sqlite:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
    revision = _revision(connection)  # another process may have been faster
    if revision == REVISION:
        return
    if revision is None and not create:
        raise LedgerSchemaError(f"the ledger at {database.address.shown}: there are no tables; create a budget first")
    settings = alembic("alembic.config").Config()
    settings.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    scripts = alembic("alembic.script").ScriptDirectory.from_config(settings)
    if revision is not None and revision not in {script.revision for script in scripts.walk_revisions()}:
        raise LedgerSchemaError(
            f"the ledger at {database.address.shown} was written by a newer program (tables of revision {revision}, "
            f"this program knows {REVISION}); upgrade sfumato"
        )
    settings.attributes["connection"] = connection
    with _ONE_AT_A_TIME:
        alembic("alembic.command").upgrade(settings, "head")
    if revision is None:
        rows = {"ledger": uuid.uuid4().hex, "created_at": str(int(time.time())), "subject_check": subject_check}
        connection.execute(facts.insert(), [{"name": name, "value": value} for name, value in rows.items()])
