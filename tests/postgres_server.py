"""A PostgreSQL server for tests: a cluster of its own in a temporary folder, on a free port of the loopback.

Debian's ``postgresql`` is enough.  As root the server runs as the user ``postgres`` (it refuses to run as root).
"""

from __future__ import annotations

import glob
import itertools
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

_PATIENCE_SECONDS = 60.0
_ATTEMPTS = 5
USER = "sfumato"


class NoPostgresError(Exception):
    """There is no server to start here; the message says why."""


class PostgresServer:
    """A running cluster; every test gets a database of its own from :meth:`new_database`."""

    def __init__(self, *, durable: bool = False) -> None:
        """Start a cluster; one that is not ``durable`` does not flush to disk, which only a crash of the machine shows."""
        self.password = secrets.token_hex(8)
        self._durable = durable
        self._numbers = itertools.count()
        self._initdb, self._postgres = _binary("initdb"), _binary("postgres")
        self._account = _account()
        self.folder = Path(tempfile.mkdtemp(prefix="sfumato-postgres-"))
        try:
            self._make_cluster()
            self._start_somewhere()
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    @property
    def process_number(self) -> int:
        """The number of the server's process."""
        return self._process.pid

    def url(self, database: str = "postgres", *, password: str | None = None, user: str = USER) -> str:
        """Return the address of a database."""
        return f"postgresql://{user}:{password or self.password}@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """Make an empty database and return its address."""
        name = f"test_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def execute(self, statement: str, url: str | None = None) -> list[Any]:
        """Run one statement on its own and return its rows."""
        import psycopg

        with psycopg.connect(url or self.url(), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server (SIGKILL: as if it had crashed) and start it again on the same port."""
        self._end(how)
        self._start(self.port)

    def pause(self) -> None:
        """Stop the server until :meth:`resume`."""
        self._end(signal.SIGINT)

    def resume(self) -> None:
        """Start a server that was paused."""
        self._start(self.port)

    def stop(self) -> None:
        """Stop the server and remove everything; at once, since what it would still write is removed as well."""
        self._end(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _make_cluster(self) -> None:
        secret = self.folder / "password"
        secret.write_text(self.password)
        if self._account is not None:
            for path in (self.folder, secret):
                os.chown(path, self._account.pw_uid, self._account.pw_gid)
        command = [
            self._initdb, "--pgdata", str(self.folder / "data"), "--username", USER, "--pwfile", str(secret),
            "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions",
        ]  # fmt: skip
        made = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, **self._as_account())
        if made.returncode:
            raise NoPostgresError(f"initdb failed: {made.stderr.strip()[-300:]}")

    def _start_somewhere(self) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                self._start(_free_port())
            except NoPostgresError:  # another program may have taken the port
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return

    def _start(self, port: int) -> None:
        self.port = port
        settings = {
            "port": port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": 300,
            "shared_buffers": "64MB",
            "fsync": "on" if self._durable else "off",
            "log_min_messages": "panic",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._postgres, "-D", str(self.folder / "data"), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,  # an interruption of the tests reaches the tests first
                **self._as_account(),
            )
        self._wait_until_it_answers()

    def _wait_until_it_answers(self) -> None:
        import psycopg

        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            if self._process.poll() is not None:
                raise NoPostgresError(f"the server ended: {(self.folder / 'log').read_text()[-300:]}")
            try:
                psycopg.connect(self.url(), connect_timeout=2).close()
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    self._end(signal.SIGKILL)
                    raise NoPostgresError("the server does not answer") from None
                time.sleep(0.05)
            else:
                return

    def _end(self, how: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(how)
            try:
                self._process.wait(_PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _as_account(self) -> dict[str, Any]:
        if self._account is None:
            return {}
        return {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}


def _binary(name: str) -> str:
    """Return the newest server program; Debian keeps them out of the search path."""

    def version(path: str) -> float:
        try:
            return float(Path(path).parts[-3])
        except ValueError:
            return 0.0

    installed = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), key=version)
    found = installed[-1] if installed else shutil.which(name)
    if found is None:
        raise NoPostgresError(f"PostgreSQL is not installed (no program {name}; Debian's package is postgresql)")
    return found


def _account() -> pwd.struct_passwd | None:
    """Return the user the server runs as; None for the one that runs the tests."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise NoPostgresError("PostgreSQL does not run as root, and there is no user postgres or nobody")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
