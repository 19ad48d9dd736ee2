"""Text in, text with a guarantee out."""

from sfumato.sanitize.sanitizer import Counts, SanitizedBatch, SanitizedText, Sanitizer

__all__ = ["Counts", "SanitizedBatch", "SanitizedText", "Sanitizer"]
