"""Text to tokens with offsets and back, and the letter case of words."""

from sfumato.text.case import Case, apply_case, case_of, without_accents
from sfumato.text.tokens import Kind, Token, kind_of, pieces, tokenize

__all__ = ["Case", "Kind", "Token", "apply_case", "case_of", "kind_of", "pieces", "tokenize", "without_accents"]
