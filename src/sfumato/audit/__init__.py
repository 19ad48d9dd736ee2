"""Checks of what a mechanism claims, attacks, and figures of what it does."""

from sfumato.audit.attacker_success import AttackerSuccess, epsilon_for_attacker_success
from sfumato.audit.comparison import Compared, compare
from sfumato.audit.deniability import Deniability, deniability
from sfumato.audit.lower_bounds import AuditResult, audit_pairs
from sfumato.audit.prior import Prior, frequency_prior, uniform_prior
from sfumato.audit.reports import AuditReport, audit_mechanism, audit_texts
from sfumato.audit.verification import VerifyResult, verify

__all__ = [
    "AttackerSuccess",
    "AuditReport",
    "AuditResult",
    "Compared",
    "Deniability",
    "Prior",
    "VerifyResult",
    "audit_mechanism",
    "audit_pairs",
    "audit_texts",
    "compare",
    "deniability",
    "epsilon_for_attacker_success",
    "frequency_prior",
    "uniform_prior",
    "verify",
]
