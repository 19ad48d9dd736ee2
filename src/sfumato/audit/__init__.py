"""Checks of what a mechanism claims, and figures of what it does."""

from sfumato.audit.comparison import Compared, compare
from sfumato.audit.deniability import Deniability, deniability
from sfumato.audit.verification import VerifyResult, verify

__all__ = ["Compared", "Deniability", "VerifyResult", "compare", "deniability", "verify"]
