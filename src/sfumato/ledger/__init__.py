"""Budgets that refuse to be overspent.

Opening a ledger needs the extra ``ledger`` (and ``postgres`` for a PostgreSQL server); amounts and errors need
nothing.
"""

from sfumato.ledger.amounts import Cost
from sfumato.ledger.errors import (
    BudgetExistsError,
    LedgerBusyError,
    LedgerError,
    LedgerFullError,
    LedgerSchemaError,
    LedgerUnreachableError,
    OverdraftError,
    ReusedKeyError,
    UnknownBudgetError,
    UnlikeCostError,
)
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.records import Budget, Charge, Outcome, Request, Verification

__all__ = [
    "Budget",
    "BudgetExistsError",
    "Charge",
    "Cost",
    "Ledger",
    "LedgerBusyError",
    "LedgerError",
    "LedgerFullError",
    "LedgerSchemaError",
    "LedgerUnreachableError",
    "Outcome",
    "OverdraftError",
    "Request",
    "ReusedKeyError",
    "UnknownBudgetError",
    "UnlikeCostError",
    "Verification",
]
