"""Errors say what to do next, and never show a password or a subject; after each of them, nothing was charged."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import pytest

from postgres_server import PostgresServer
from sfumato.ledger import (
    Cost,
    Ledger,
    LedgerBusyError,
    LedgerError,
    LedgerFullError,
    LedgerSchemaError,
    LedgerUnreachableError,
)

TENTH = Cost.pure("0.1")
SECRET = "hunter2-the-password"
SUBJECT = "ada lovelace"


def quiet(error: BaseException, *secrets: str) -> None:
    """Check that neither the message nor a traceback of the error shows a secret."""
    shown = "".join(traceback.format_exception(error)) + repr(error)
    for secret in (SECRET, *secrets):
        assert secret not in shown


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_database_that_is_not_there() -> None:
    pytest.importorskip("psycopg", reason="the extra 'postgres' is not installed")
    port = free_port()
    started = time.monotonic()
    with pytest.raises(LedgerUnreachableError, match=f"postgresql://127.0.0.1:{port}/privacy: no connection") as caught:
        Ledger.open(f"postgresql://ada:{SECRET}@127.0.0.1:{port}/privacy", timeout=5)
    assert time.monotonic() - started < 20
    quiet(caught.value)


def test_a_server_that_never_answers() -> None:
    pytest.importorskip("psycopg", reason="the extra 'postgres' is not installed")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(LedgerUnreachableError, match="no connection") as caught:
            Ledger.open(f"postgresql://ada:{SECRET}@127.0.0.1:{silent.getsockname()[1]}/privacy", timeout=2)
    quiet(caught.value)


def test_a_wrong_password_is_never_printed(postgres: PostgresServer) -> None:
    for url in (postgres.url(password=SECRET), postgres.url(user="nobody", password=SECRET)):
        with pytest.raises(LedgerUnreachableError, match="the user or the password is wrong") as caught:
            Ledger.open(url)
        quiet(caught.value, postgres.password)
        assert "127.0.0.1" in str(caught.value)


def test_a_database_that_was_not_made(postgres: PostgresServer) -> None:
    with pytest.raises(LedgerUnreachableError, match="there is no such database; create it first") as caught:
        Ledger.open(postgres.url("nowhere"))
    quiet(caught.value, postgres.password)


def test_a_user_without_rights(postgres: PostgresServer) -> None:
    url = postgres.new_database()
    with Ledger.open(url) as ledger:
        ledger.create("ada", kind="pure", limit=1)
    name = url.rsplit("/", 1)[1]
    postgres.execute(f"CREATE ROLE guest LOGIN PASSWORD '{SECRET}'")
    with pytest.raises(LedgerUnreachableError, match="may not read or write the tables") as caught:
        Ledger.open(postgres.url(name, user="guest", password=SECRET))
    quiet(caught.value)


def test_messages_hold_no_subject(ledger: Ledger) -> None:
    ledger.create("ada lovelace", kind="pure", limit="0.1")
    for subject, cost in (("ada lovelace", Cost.pure(5)), ("ada lovelace", Cost.metric(1)), ("mary shelley", TENTH)):
        with pytest.raises(Exception, match="budget") as caught:
            ledger.charge(subject, cost)
        quiet(caught.value, "lovelace", "mary")


def _refusing(postgres: PostgresServer, url: str, state: str) -> None:
    """Let every charge fail as the server would fail it."""
    postgres.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION 'as if' USING ERRCODE = '{state}'; END $$",
        url,
    )
    postgres.execute("CREATE TRIGGER refuse BEFORE INSERT ON sfumato_charges EXECUTE FUNCTION refuse()", url)


@pytest.mark.parametrize(
    ("state", "error", "message"),
    [
        ("53100", LedgerFullError, "the disk of the database is full; make room"),
        ("25006", LedgerUnreachableError, "the database is read-only"),
        ("55P03", LedgerBusyError, "others held the budget for too long"),
        ("40001", LedgerBusyError, "others changed the same budgets"),
        ("58030", LedgerError, "PostgreSQL gave up"),
    ],
)
def test_what_postgresql_reports(postgres: PostgresServer, state: str, error: type[LedgerError], message: str) -> None:
    url = postgres.new_database()
    with Ledger.open(url, timeout=0.5) as ledger:
        ledger.create(SUBJECT, kind="pure", limit=1)
        _refusing(postgres, url, state)
        with pytest.raises(error, match=message) as caught:
            ledger.charge(SUBJECT, TENTH, key=SECRET)
        quiet(caught.value, postgres.password, SUBJECT)
        assert type(caught.value) is error
        postgres.execute("DROP TRIGGER refuse ON sfumato_charges", url)
        assert ledger.budget(SUBJECT, "pure").spent == 0
        assert ledger.charge(SUBJECT, TENTH).number == 1


def test_a_server_that_restarts_is_found_again() -> None:
    pytest.importorskip("psycopg", reason="the extra 'postgres' is not installed")
    from postgres_server import NoPostgresError

    try:
        server = PostgresServer()
    except NoPostgresError as reason:
        pytest.skip(str(reason))
    try:
        with Ledger.open(server.new_database(), timeout=5) as ledger:
            ledger.create("ada", kind="pure", limit=1)
            ledger.charge("ada", TENTH)
            server.restart()
            assert ledger.charge("ada", TENTH).number == 2
            server.restart(signal.SIGKILL)
            assert ledger.budget("ada", "pure").charges == 2
            assert ledger.verify().passed
            server.pause()
            with pytest.raises(LedgerUnreachableError, match="no connection") as caught:
                ledger.charge("ada", TENTH)
            quiet(caught.value, server.password)
            server.resume()
            assert ledger.charge("ada", TENTH).number == 3
    finally:
        server.stop()


def test_a_lock_that_is_held_for_too_long(tmp_path: Path) -> None:
    path = tmp_path / "budgets.db"
    with Ledger.open(path, timeout=0.3) as ledger:
        ledger.create("ada", kind="pure", limit=1)
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerBusyError, match="try again"):
            ledger.charge("ada", TENTH)
        assert ledger.budget("ada", "pure").spent == 0, "readers are not held up"
        holder.execute("ROLLBACK")
        holder.close()
        assert ledger.charge("ada", TENTH).number == 1


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnreachableError, match="check that its folder exists"):
        Ledger.open(tmp_path / "nowhere" / "budgets.db")
    with pytest.raises(LedgerUnreachableError, match=r"cannot be opened|may not be written"):
        Ledger.open(tmp_path)


def test_files_that_are_no_ledger(tmp_path: Path) -> None:
    text = tmp_path / "text.db"
    text.write_text("nothing that SQLite knows " * 100)
    with pytest.raises(LedgerSchemaError, match="not an SQLite database"):
        Ledger.open(text)
    assert text.read_text().startswith("nothing")


def test_a_damaged_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "budgets.db"
    with Ledger.open(path) as ledger:
        ledger.create_each([f"user {number}" for number in range(2000)], kind="pure", limit=1)
    data = bytearray(path.read_bytes())
    data[8192 : len(data)] = bytes(len(data) - 8192)
    path.write_bytes(data)
    with pytest.raises(LedgerSchemaError, match="damaged; bring back a copy"):
        _read_everything(path)


def _read_everything(path: Path) -> None:
    with Ledger.open(path) as ledger:
        list(ledger.budgets())
        ledger.verify()


FILL = """
import sys
from sfumato.ledger import Cost, Ledger, LedgerFullError
ledger = Ledger.open(sys.argv[1] + "/budgets.db", timeout=5)
ledger.create("ada", kind="pure", limit=1000)
confirmed = 0
try:
    while confirmed < 100_000:
        confirmed = ledger.charge("ada", Cost.pure("0.001"), purpose="x" * 200).number
except LedgerFullError as error:
    print(error)
import os
os.remove(sys.argv[1] + "/filler")
assert ledger.charge("ada", Cost.pure("0.001")).number == confirmed + 1
result = ledger.verify()
assert result.passed and result.charges == confirmed + 1, result
"""


FILL_POSTGRES = """
import os, pathlib, sys
from postgres_server import PostgresServer
from sfumato.ledger import Cost, Ledger, LedgerFullError, Request
small = pathlib.Path(sys.argv[1])
server = PostgresServer()
try:
    ledger = Ledger.open(server.new_database(), timeout=5)
    ledger.create("ada", kind="pure", limit=1000)
    server.execute("CHECKPOINT")
    room = os.statvfs(small)
    filler = small / "filler"
    filler.write_bytes(bytes(room.f_bavail * room.f_frsize - 1_000_000))
    requests = [Request("ada", [Cost.pure("0.001")], purpose="x" * 200)] * 200
    confirmed = 0
    try:
        while confirmed < 20_000:
            confirmed = ledger.charge_each(requests)[-1].charge.number
    except LedgerFullError as error:
        print(error)
    filler.unlink()
    assert ledger.charge("ada", Cost.pure("0.001")).number == confirmed + 1
    result = ledger.verify()
    assert result.passed and result.charges == confirmed + 1, result
    ledger.close()
finally:
    server.stop()
"""


@pytest.mark.parametrize(
    ("megabytes", "program", "message"),
    [
        (2, FILL, "the disk is full; make room and try again"),
        (120, FILL_POSTGRES, "the disk of the database is full; make room and try again"),
    ],
    ids=["sqlite", "postgresql"],
)
def test_a_full_disk(
    request: pytest.FixtureRequest, tmp_path: Path, megabytes: int, program: str, message: str
) -> None:
    """A small file system fills up; with room made, the ledger goes on where it was."""
    unshare = shutil.which("unshare")
    small = Path(tempfile.mkdtemp())  # the server's user may not enter the folders of pytest
    request.addfinalizer(small.rmdir)
    mount = f"mount -t tmpfs -o size={megabytes}m,mode=1777 tmpfs {small} && "
    if unshare is None or subprocess.run([unshare, "-m", "sh", "-c", mount + "true"], capture_output=True).returncode:
        pytest.skip("a small file system can be mounted by root only")
    settings = {**os.environ}
    filler = "head -c 1200000 /dev/zero > filler && "
    if program is FILL_POSTGRES:
        request.getfixturevalue("postgres")  # skips where there is no server to start
        settings |= {"TMPDIR": str(small), "PYTHONPATH": str(Path(__file__).parents[2])}
        filler = ""
    script = tmp_path / "fill.py"
    script.write_text(program)
    command = f"{mount} cd {small} && {filler} exec {sys.executable} {script} {small}"
    filled = subprocess.run(
        [unshare, "-m", "sh", "-c", command], capture_output=True, text=True, timeout=120, env=settings
    )
    assert filled.returncode == 0, filled.stderr[-2000:]
    assert message in filled.stdout
