"""Where a ledger is: a file, or a PostgreSQL database by URL.  What is shown of it never holds a password."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sfumato.foundation.errors import ParameterError
from sfumato.ledger.extras import sqlalchemy

_URL = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]*://")
_POSTGRES = ("postgres", "postgresql", "postgresql+psycopg")
_FORMS = "a file such as budgets.db, sqlite:///budgets.db or postgresql://user@host:5432/database"


@dataclass(frozen=True)
class Address:
    """A ledger's place."""

    url: Any = field(repr=False)
    """SQLAlchemy's URL; it may hold a password."""
    shown: str
    """The place without user, password and options."""
    file: Path | None

    @classmethod
    def parse(cls, text: str | Path) -> Address:
        """Read a path or a URL.

        >>> Address.parse("postgresql://ada:secret@db.example:5433/privacy?password=x").shown
        'postgresql://db.example:5433/privacy'
        >>> Address.parse("budgets.db").shown
        'budgets.db'
        """
        written = str(text)
        library = sqlalchemy()
        if not _URL.match(written):
            return cls._of_file(written, library)
        try:
            url = library.engine.make_url(written)
        except Exception:
            # The reason would quote the URL, and a password in it.
            raise ParameterError(f"the address of the ledger cannot be read; give {_FORMS}") from None
        if url.drivername in ("sqlite", "sqlite+pysqlite"):
            return cls._of_file(url.database or "", library)
        if url.drivername not in _POSTGRES:
            raise ParameterError(f"a ledger lives in SQLite or PostgreSQL; give {_FORMS}")
        if written.count("@") > 1:
            # Part of a password would pass for the host or the database, and be shown.
            raise ParameterError("the password in the address of the ledger holds an @; write it as %40")
        url = url.set(drivername="postgresql+psycopg")
        port = f":{url.port}" if url.port else ""
        return cls(url, f"postgresql://{url.host or 'localhost'}{port}/{url.database or ''}", None)

    @classmethod
    def _of_file(cls, name: str, library: Any) -> Address:
        if name in ("", ":memory:") or name.startswith("file:"):
            raise ParameterError(f"a ledger outlives the process that writes it; give {_FORMS}")
        return cls(library.engine.URL.create("sqlite", database=name), name, Path(name))
