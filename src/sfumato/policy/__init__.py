"""Which tokens of a text are protected, and which are released as they are."""

from sfumato.policy.base import Document, Policy
from sfumato.policy.words import everything, keep_words

__all__ = ["Document", "Policy", "everything", "keep_words"]
