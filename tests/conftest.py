"""What holds for every test: no user's cache is touched, and a slow machine fails nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from postgres_server import NoPostgresError, PostgresServer

# Several programs may share the machine: a deadline for each example would fail by chance.
settings.register_profile("sfumato", deadline=None)
settings.register_profile("sfumato-ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("sfumato-ci" if os.environ.get("CI") else "sfumato")


@pytest.fixture(scope="session", autouse=True)
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One cache for the whole session: what is computed about the default space is computed once."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SFUMATO_CACHE_DIR", str(folder))
        patch.setenv("SFUMATO_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        yield folder


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server of our own; tests that ask for one are skipped where none can be started."""
    pytest.importorskip("sqlalchemy", reason="the extra 'ledger' is not installed")
    pytest.importorskip("psycopg", reason="the extra 'postgres' is not installed")
    try:
        server = PostgresServer()
    except NoPostgresError as reason:
        pytest.skip(str(reason))
    yield server
    server.stop()


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> str:
    """The address of an empty PostgreSQL database."""
    return postgres.new_database()
