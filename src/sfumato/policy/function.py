"""A policy from a function of the user's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sfumato.foundation.errors import ParameterError
from sfumato.policy.base import CHOSEN_IN_CONTEXT, Document, Mask, Policy
from sfumato.policy.spans import touched


class _ProtectWhere(Policy):
    def __init__(self, function: Callable[[str], Any], protected: str) -> None:
        self._function = function
        self._protected = protected

    @property
    def keeps(self) -> str:
        return f"every token outside {self._protected}; {CHOSEN_IN_CONTEXT}"

    def protects(self, document: Document) -> Mask:
        answer = self._function(document.text)
        mask = _as_mask(answer)
        return touched(document, answer) if mask is None else _over_tokens(document, mask)


def protect_where(function: Callable[[str], Any], protected: str) -> Policy:
    """Protect what a function finds in the text, and release the rest as it is.

    The function takes the text and returns spans ``(start, end)``, or a mask with a truth value for each character or
    for each token (as :func:`sfumato.text.pieces` splits them).  A token is protected where a span touches it, or one
    of its characters is marked.  ``protected`` says in plain words what the function finds; the guarantee states it.

    >>> shouted = protect_where(lambda text: [c.isupper() for c in text], "tokens with a capital letter")
    >>> shouted.protects(Document("the WHO in Geneva")).tolist()
    [False, True, False, True]
    >>> first = protect_where(lambda text: [(0, 4)], "what is in the first four characters")
    >>> first.protects(Document("at home")).tolist()
    [True, True]
    """
    if not callable(function):
        raise ParameterError("the function of a policy must be callable: it takes a text and returns spans or a mask")
    if not isinstance(protected, str) or not protected.strip():
        raise ParameterError("protected must say in plain words what the function finds; the guarantee states it")
    return _ProtectWhere(function, protected)


def _as_mask(answer: Any) -> Mask | None:
    """Return the answer as a mask of truth values, or None where it is not one."""
    if isinstance(answer, np.ndarray):
        return answer if answer.dtype == np.bool_ else None
    values = answer if isinstance(answer, (list, tuple)) else ()
    if values and all(isinstance(value, (bool, np.bool_)) for value in values):
        return np.array(values, dtype=bool)
    return None


def _over_tokens(document: Document, mask: Mask) -> Mask:
    # A text has as many tokens as characters only if every character is a token: then both readings agree.
    if mask.shape == (len(document.starts),):
        return mask.copy()
    if mask.shape != (len(document.text),):
        raise ParameterError(
            f"the mask of a policy's function has {mask.size} values, but the text has {len(document.text)} characters "
            f"and {len(document.starts)} tokens"
        )
    marked = np.concatenate([[0], np.cumsum(mask)])
    return np.asarray(marked[document.ends] > marked[document.starts])
