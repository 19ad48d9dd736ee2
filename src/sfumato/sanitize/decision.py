"""Which tokens are protected: decided once, on the text as it came, and carried over to the text with random identifiers.

A policy never sees a random identifier, so what it protects does not depend on what was drawn.  A token of the new text
is protected where one of its characters stood in a protected token of the original; the characters of a random
identifier need no protection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sfumato.foundation.randomness import Source, UInt64Array
from sfumato.policy import Document, Policy
from sfumato.policy.base import Mask, masks_of
from sfumato.sanitize.identifiers import IdentifierReplacer, Replaced


@dataclass(frozen=True)
class Decision:
    """A text with random identifiers in it, and which of its tokens are protected."""

    document: Document = field(repr=False)
    protected: Mask = field(repr=False)


class AlwaysFirst:
    """Chooses the first possibility each time: placeholders for identifiers, where nothing is released."""

    secure = False

    def uint64(self, count: int, each: int = 1) -> UInt64Array:
        """Return zeros, which stand for the first possibility."""
        return np.zeros(count * each, dtype=np.uint64)

    def again(self, positions: npt.NDArray[np.intp], attempt: int) -> UInt64Array:
        """Return zeros; none is ever rejected."""
        return np.zeros(len(positions), dtype=np.uint64)


def decide(
    policy: Policy,
    identifiers: IdentifierReplacer | None,
    texts: Sequence[str],
    source: Callable[[int], Source] = lambda number: AlwaysFirst(),
    first: int = 0,
) -> list[Decision]:
    """Replace the identifiers of texts and say which tokens are protected.

    ``first`` is the number of the first text; ``source`` is asked with a text's number.

    >>> from sfumato.policy import protect_pattern
    >>> policy = protect_pattern(r"https?://[^ ]+ [a-z]+")
    >>> decide(policy, None, ["see https://ada.org now"])[0].protected.tolist()
    [False, True, True]
    >>> decide(policy, IdentifierReplacer(), ["see https://ada.org now", "see www.ada.org now"])[1].protected.tolist()
    [False, False, False]
    """
    documents = [Document(text) for text in texts]
    masks = masks_of(policy, documents, first)
    if identifiers is None:
        return [Decision(document, mask) for document, mask in zip(documents, masks, strict=True)]
    decisions = []
    for number, (document, mask) in enumerate(zip(documents, masks, strict=True), first):
        replaced = identifiers.replace(document.text, source(number))
        decisions.append(_carried_over(document, mask, replaced) if replaced.spans else Decision(document, mask))
    return decisions


def _carried_over(original: Document, mask: Mask, replaced: Replaced) -> Decision:
    """Decide about the tokens of the new text by what became of their characters in the original."""
    is_protected = np.zeros(len(original.pieces), dtype=bool)
    is_protected[1::2] = mask
    before = np.repeat(is_protected, list(map(len, original.pieces)))
    parts: list[npt.NDArray[np.bool_]] = []
    position = 0
    for (start, end), (new_start, new_end) in zip(replaced.origins, replaced.spans, strict=True):
        parts += (before[position:start], np.zeros(new_end - new_start, dtype=bool))
        position = end
    marked = np.concatenate([*parts, before[position:]])
    document = Document(replaced.text)
    so_far = np.concatenate([[0], np.cumsum(marked)])
    return Decision(document, np.asarray(so_far[document.ends] > so_far[document.starts]))
