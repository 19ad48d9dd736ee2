"""Regular expressions over the text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sfumato.foundation.errors import ParameterError
from sfumato.policy.base import CHOSEN_IN_CONTEXT, Document, Mask, Policy
from sfumato.policy.spans import covered, touched


class _ProtectPattern(Policy):
    def __init__(self, expressions: Sequence[re.Pattern[str]], name: str) -> None:
        self._expressions = tuple(expressions)
        self._name = name

    def _matches(self, document: Document) -> list[tuple[int, int]]:
        return [match.span() for expression in self._expressions for match in expression.finditer(document.text)]

    @property
    def keeps(self) -> str:
        return f"every token that no match of {self._name} touches; {CHOSEN_IN_CONTEXT}"

    def protects(self, document: Document) -> Mask:
        return touched(document, self._matches(document))


class _KeepPattern(_ProtectPattern):
    @property
    def keeps(self) -> str:
        return f"every token inside a match of {self._name}; {CHOSEN_IN_CONTEXT}"

    def protects(self, document: Document) -> Mask:
        return ~covered(document, self._matches(document))


def protect_pattern(*expressions: str, ignore_case: bool = False, name: str | None = None) -> Policy:
    r"""Protect every token that a match of a public regular expression touches, and release the rest as it is.

    The guarantee shows the expressions, or the ``name`` if there is one.

    >>> case_number = protect_pattern(r"[A-Z]{2}-\d+")
    >>> case_number.protects(Document("case AB-1234 is open")).tolist()
    [False, True, True, False, False]
    """
    return _ProtectPattern(_compiled(expressions, ignore_case), name or _shown(expressions))


def keep_pattern(*expressions: str, ignore_case: bool = False, name: str | None = None) -> Policy:
    r"""Release every token that lies inside a match of a public regular expression, and protect the rest.

    A token that a match covers only in part stays protected.

    >>> tags = keep_pattern(r"<\w+>")
    >>> tags.protects(Document("<b>Smith<i>")).tolist()
    [False, True, False]
    """
    return _KeepPattern(_compiled(expressions, ignore_case), name or _shown(expressions))


def _compiled(expressions: Sequence[str], ignore_case: bool) -> list[re.Pattern[str]]:
    if not expressions:
        raise ParameterError("a pattern policy needs at least one regular expression")
    compiled = []
    for number, expression in enumerate(expressions):
        try:
            compiled.append(re.compile(expression, re.IGNORECASE if ignore_case else 0))
        except (re.error, TypeError) as error:
            raise ParameterError(f"expression {number} is not a regular expression: {error}") from error
    return compiled


def _shown(expressions: Sequence[str]) -> str:
    return f"the pattern{'s' if len(expressions) > 1 else ''} {', '.join(map(repr, expressions))}"
