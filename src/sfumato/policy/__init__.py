"""Which tokens of a text are protected, and which are released as they are."""

from sfumato.policy.base import Document, Policy
from sfumato.policy.candidates import IdentifierKind
from sfumato.policy.categories import EntityCategory
from sfumato.policy.entities import named_entities
from sfumato.policy.function import protect_where
from sfumato.policy.identifiers import find_identifiers, identifiers
from sfumato.policy.numbers import numbers
from sfumato.policy.patterns import keep_pattern, protect_pattern
from sfumato.policy.recognisers import presidio
from sfumato.policy.wordlists import stop_words
from sfumato.policy.words import everything, keep_words, protect_words

__all__ = [
    "Document",
    "EntityCategory",
    "IdentifierKind",
    "Policy",
    "everything",
    "find_identifiers",
    "identifiers",
    "keep_pattern",
    "keep_words",
    "named_entities",
    "numbers",
    "presidio",
    "protect_pattern",
    "protect_where",
    "protect_words",
    "stop_words",
]
