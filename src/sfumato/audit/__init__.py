"""Checks of what a mechanism claims."""

from sfumato.audit.verification import VerifyResult, verify

__all__ = ["VerifyResult", "verify"]
