"""Errors of the ledger.

::

    BudgetError                    a budget does not allow the release
    ├── OverdraftError             less is left than the release costs
    ├── UnknownBudgetError         the subject has no budget of this kind
    ├── BudgetExistsError          the subject has one already
    ├── UnlikeCostError            the cost is of another kind, or speaks of something else
    ├── ReusedKeyError             an idempotency key stands for another charge already
    └── LedgerError                the ledger itself cannot answer
        ├── LedgerUnreachableError no connection, or not allowed in
        ├── LedgerSchemaError      the tables are not the ones this program knows
        ├── LedgerFullError        no room to write
        └── LedgerBusyError        others held it for too long

Whatever the reason: where a charge raises, nothing may be released.  No message names a subject or holds a password.
"""

from __future__ import annotations

from sfumato.foundation.errors import BudgetError


class OverdraftError(BudgetError):
    """Less is left than the release costs."""


class UnknownBudgetError(BudgetError):
    """The subject has no budget of this kind."""


class BudgetExistsError(BudgetError):
    """The subject has a budget of this kind already."""


class UnlikeCostError(BudgetError):
    """The cost is of another kind than the budget, or speaks of something else."""


class ReusedKeyError(BudgetError):
    """An idempotency key was used for another charge before."""


class LedgerError(BudgetError):
    """The ledger cannot answer; nothing may be released."""


class LedgerUnreachableError(LedgerError):
    """There is no connection to the ledger, or it does not let us in."""


class LedgerSchemaError(LedgerError):
    """The tables are not the ones this program knows."""


class LedgerFullError(LedgerError):
    """There is no room to write the charge down."""


class LedgerBusyError(LedgerError):
    """Others held the ledger for too long."""
