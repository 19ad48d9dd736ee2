"""Tables are made, found, and refused where a newer program made them."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from sfumato.ledger import Cost, Ledger, LedgerSchemaError
from sfumato.ledger.schema import REVISION, VERSION_TABLE, metadata


def engine_of(address: str) -> Any:
    url = address.replace("postgresql://", "postgresql+psycopg://") if "://" in address else f"sqlite:///{address}"
    return sqlalchemy.create_engine(url)


def test_migrations_make_the_tables_that_the_program_uses(address: str) -> None:
    """Autogeneration finds nothing to do after the migrations have run."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    Ledger.open(address).close()
    engine = engine_of(address)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"version_table": VERSION_TABLE, "compare_type": True, "target_metadata": metadata}
        )
        assert context.get_current_revision() == REVISION
        differences = compare_metadata(context, metadata)
        columns = {
            table: {column["name"] for column in sqlalchemy.inspect(connection).get_columns(table)}
            for table in metadata.tables
        }
        checks = {
            check["name"]
            for table in metadata.tables
            for check in sqlalchemy.inspect(connection).get_check_constraints(table)
        }
    engine.dispose()
    assert differences == []
    assert columns == {name: {column.name for column in table.columns} for name, table in metadata.tables.items()}
    assert checks == {"within_limit", "within_delta_limit", "no_refunds"}


def test_a_ledger_is_found_again(address: str) -> None:
    with Ledger.open(address) as ledger:
        ledger.create("ada", kind="pure", limit=1)
        ledger.charge("ada", Cost.pure("0.5"))
        digest = ledger.verify().digest
    with Ledger.open(address, create=False) as again:
        assert again.verify().digest == digest


def test_a_ledger_of_a_newer_program_is_refused_and_left_alone(address: str) -> None:
    Ledger.open(address).close()
    engine = engine_of(address)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text(f"UPDATE {VERSION_TABLE} SET version_num = '0099'"))
    for create in (True, False):
        with pytest.raises(LedgerSchemaError, match=r"newer program \(tables of revision 0099.*upgrade sfumato"):
            Ledger.open(address, create=create)
    with engine.begin() as connection:
        assert connection.execute(sqlalchemy.text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar() == "0099"
    engine.dispose()


def test_a_ledger_is_not_made_by_a_misspelled_address(address: str, tmp_path: Path) -> None:
    with pytest.raises(LedgerSchemaError, match="create a budget first"):
        Ledger.open(address, create=False)
    assert not (tmp_path / "budgets.db").exists()


def test_a_failed_migration_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "budgets.db"
    with monkeypatch.context() as patch:
        patch.setattr("alembic.op.execute", lambda statement: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Ledger.open(path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []
    connection.close()
    with Ledger.open(path) as ledger:
        ledger.create("ada", kind="pure", limit=1)
        assert ledger.verify().passed


@pytest.mark.parametrize("same", [True, False], ids=["the same ledger", "ledgers of their own"])
def test_many_threads_open_new_ledgers_at_once(tmp_path: Path, same: bool) -> None:
    """Alembic keeps its connection in a global variable: unguarded, this ended the process."""
    together = threading.Barrier(12)
    errors: list[BaseException] = []

    def open_one(number: int) -> None:
        together.wait()
        try:
            with Ledger.open(tmp_path / ("one.db" if same else f"{number}.db")) as ledger:
                ledger.create(f"user {number}", kind="pure", limit=1)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=open_one, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    for path in tmp_path.glob("*.db"):
        with Ledger.open(path) as ledger:
            assert ledger.verify().budgets == (12 if same else 1)
