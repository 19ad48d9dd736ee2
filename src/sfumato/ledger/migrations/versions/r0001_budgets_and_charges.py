"""Budgets and their charges; triggers that refuse to change the past."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_FINAL = "charges are append-only"
_FORWARD = "a budget only moves forward"
_MOVED_BACK = """
    NEW.id <> OLD.id OR NEW.subject <> OLD.subject OR NEW.kind <> OLD.kind OR NEW.created_at <> OLD.created_at
    OR NEW.limit_units <> OLD.limit_units OR NEW.limit_delta <> OLD.limit_delta
    OR NEW.spent_units < OLD.spent_units OR NEW.spent_delta < OLD.spent_delta OR NEW.charges <= OLD.charges
    OR ((OLD.scope <> '' OR OLD.charges > 0) AND NEW.scope <> OLD.scope)
"""


def upgrade() -> None:
    """Create the tables."""
    big = sa.BigInteger
    op.create_table(
        "sfumato_ledger_facts",
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "sfumato_budgets",
        sa.Column("id", big().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("scope", sa.Text, nullable=False),
        *(sa.Column(name, big, nullable=False) for name in ("limit_units", "spent_units", "limit_delta")),
        *(sa.Column(name, big, nullable=False) for name in ("spent_delta", "charges")),
        sa.Column("head", sa.LargeBinary, nullable=False),
        sa.Column("created_at", big, nullable=False),
        sa.UniqueConstraint("subject", "kind", name="one_budget_of_a_kind"),
        sa.CheckConstraint("spent_units >= 0 AND spent_units <= limit_units", name="within_limit"),
        sa.CheckConstraint("spent_delta >= 0 AND spent_delta <= limit_delta", name="within_delta_limit"),
    )
    op.create_table(
        "sfumato_charges",
        *(sa.Column(name, big, nullable=False) for name in ("budget_id", "number", "amount", "delta", "releases")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("key", "fingerprint", "purpose")),
        sa.Column("charged_at", big, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("budget_id", "number", name="order_of_charges"),
        sa.UniqueConstraint("budget_id", "key", name="one_charge_for_a_key"),
        sa.CheckConstraint("amount >= 0 AND delta >= 0 AND releases >= 1 AND number >= 1", name="no_refunds"),
        sqlite_with_rowid=False,
    )
    if op.get_bind().dialect.name == "sqlite":
        _guard_sqlite()
    else:
        _guard_postgresql()


def downgrade() -> None:
    """Refuse: going back would forget what was spent."""
    raise RuntimeError("a ledger is never taken back to older tables")


def _guard_sqlite() -> None:
    for what, table, condition, reason in (
        ("UPDATE", "sfumato_charges", "1", _FINAL),
        ("DELETE", "sfumato_charges", "1", _FINAL),
        ("UPDATE", "sfumato_budgets", _MOVED_BACK, _FORWARD),
        ("DELETE", "sfumato_budgets", "1", _FORWARD),
    ):
        op.execute(
            f"CREATE TRIGGER {table}_{what.lower()} BEFORE {what} ON {table} WHEN {condition} "
            f"BEGIN SELECT RAISE(ABORT, '{reason}'); END"
        )


def _guard_postgresql() -> None:
    for name, reason in (("sfumato_charges", _FINAL), ("sfumato_budgets", _FORWARD)):
        op.execute(
            f"CREATE FUNCTION {name}_guard() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION '{reason}'; END $$"
        )
    for what, table, condition in (
        ("UPDATE", "sfumato_charges", ""),
        ("DELETE", "sfumato_charges", ""),
        ("UPDATE", "sfumato_budgets", f"WHEN ({_MOVED_BACK})"),
        ("DELETE", "sfumato_budgets", ""),
    ):
        op.execute(
            f"CREATE TRIGGER {table}_{what.lower()} BEFORE {what} ON {table} FOR EACH ROW {condition} "
            f"EXECUTE FUNCTION {table}_guard()"
        )
    op.execute(
        "CREATE TRIGGER sfumato_charges_truncate BEFORE TRUNCATE ON sfumato_charges "
        "EXECUTE FUNCTION sfumato_charges_guard()"
    )
    op.execute(
        "CREATE TRIGGER sfumato_budgets_truncate BEFORE TRUNCATE ON sfumato_budgets "
        "EXECUTE FUNCTION sfumato_budgets_guard()"
    )
