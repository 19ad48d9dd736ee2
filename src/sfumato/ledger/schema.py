"""The tables of a ledger.  Their history is in ``migrations``; a test compares the two."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)

REVISION = "0001"
"""The revision of the tables this program reads and writes."""
VERSION_TABLE = "sfumato_ledger_version"

metadata = MetaData()

facts = Table(
    "sfumato_ledger_facts",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("value", Text, nullable=False),
)

budgets = Table(
    "sfumato_budgets",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("subject", Text, nullable=False),
    Column("kind", String(20), nullable=False),
    Column("scope", Text, nullable=False),
    Column("limit_units", BigInteger, nullable=False),
    Column("spent_units", BigInteger, nullable=False),
    Column("limit_delta", BigInteger, nullable=False),
    Column("spent_delta", BigInteger, nullable=False),
    Column("charges", BigInteger, nullable=False),
    Column("head", LargeBinary, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    UniqueConstraint("subject", "kind", name="one_budget_of_a_kind"),
    CheckConstraint("spent_units >= 0 AND spent_units <= limit_units", name="within_limit"),
    CheckConstraint("spent_delta >= 0 AND spent_delta <= limit_delta", name="within_delta_limit"),
)

charges = Table(
    "sfumato_charges",
    metadata,
    Column("budget_id", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("delta", BigInteger, nullable=False),
    Column("releases", BigInteger, nullable=False),
    Column("key", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("charged_at", BigInteger, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    PrimaryKeyConstraint("budget_id", "number", name="order_of_charges"),
    UniqueConstraint("budget_id", "key", name="one_charge_for_a_key"),
    CheckConstraint("amount >= 0 AND delta >= 0 AND releases >= 1 AND number >= 1", name="no_refunds"),
    sqlite_with_rowid=False,
)
