"""Checks of what a mechanism claims."""

from sfumato.audit.verify import VerifyResult, verify

__all__ = ["VerifyResult", "verify"]
