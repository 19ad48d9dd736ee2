"""Alembic runs the migrations through this file, on the connection the ledger hands over."""

from __future__ import annotations

from alembic import context

from sfumato.ledger.schema import VERSION_TABLE, metadata


def run() -> None:
    """Run the migrations that are asked for."""
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=metadata,
        version_table=VERSION_TABLE,
    )
    with context.begin_transaction():
        context.run_migrations()


if __name__ == "env_py":  # the name Alembic gives this file; importing it otherwise does nothing
    run()
