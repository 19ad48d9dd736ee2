"""Policies: decided before anything is drawn, combined with ``|``, ``&`` and ``~``.

A policy marks tokens as protected.  What it keeps is released verbatim and is no longer part of any promise, so every
policy describes in plain words what it keeps; the description goes into the guarantee.

>>> from sfumato.policy import everything, keep_words
>>> policy = everything() & keep_words(["the", "of"])
>>> document = Document("The sound of rain")
>>> policy.protects(document).tolist()
[False, True, False, True]
>>> (~policy).protects(document).tolist()
[True, False, True, False]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sfumato.foundation.errors import ParameterError
from sfumato.text import pieces

Mask = npt.NDArray[np.bool_]

CHOSEN_IN_CONTEXT = (
    "which tokens these are is found out from the text around them, so the positions it chooses are public and no "
    "promise covers the choice"
)
"""Said by every policy that looks at more than a token by itself."""


@dataclass(frozen=True)
class Document:
    """One record's text, split once and looked at by any number of policies."""

    text: str = field(repr=False)

    @cached_property
    def pieces(self) -> list[str]:
        """Gaps and tokens in turn."""
        return pieces(self.text)

    @property
    def tokens(self) -> list[str]:
        """The tokens."""
        return self.pieces[1::2]

    @cached_property
    def _piece_ends(self) -> npt.NDArray[np.intp]:
        lengths = np.fromiter(map(len, self.pieces), dtype=np.intp, count=len(self.pieces))
        return np.cumsum(lengths)

    @property
    def starts(self) -> npt.NDArray[np.intp]:
        """Offset of every token in the text."""
        return self._piece_ends[0:-1:2]

    @property
    def ends(self) -> npt.NDArray[np.intp]:
        """Offset just behind every token."""
        return self._piece_ends[1::2]


class Policy(ABC):
    """Says for each token whether it is protected."""

    @property
    @abstractmethod
    def keeps(self) -> str:
        """What this policy releases as it is, in plain words; empty when it keeps nothing."""

    @property
    def protects_everything(self) -> bool:
        """Whether every token of any text is protected, so that none needs to be looked at."""
        return False

    @abstractmethod
    def protects(self, document: Document) -> Mask:
        """Return a mask over the document's tokens."""

    def protects_many(self, documents: Sequence[Document]) -> list[Mask]:
        """Return the masks of several documents; policies that run a model do them together."""
        return [self.protects(document) for document in documents]

    def protects_word(self, word: str) -> bool:
        """Return whether a vocabulary word can ever be protected; only such words need be inputs of a mechanism."""
        return True

    def keeps_word(self, word: str) -> bool:
        """Return whether a vocabulary word can ever be kept; where in doubt it can."""
        return True

    def __or__(self, other: Policy) -> Policy:
        """Protect what either protects."""
        if not isinstance(other, Policy):
            return NotImplemented
        return _Combined("or", self, other, np.logical_or)

    def __and__(self, other: Policy) -> Policy:
        """Protect what both protect."""
        if not isinstance(other, Policy):
            return NotImplemented
        return _Combined("and", self, other, np.logical_and)

    def __invert__(self) -> Policy:
        """Protect what this one keeps."""
        return _Inverted(self)


def masks_of(policy: Policy, documents: Sequence[Document], first: int = 0) -> list[Mask]:
    """Return a policy's masks, each of them a truth value for each token of its document.

    ``first`` is the number of the first document, by which an error names the one that is wrong.
    """
    masks = policy.protects_many(documents)
    if len(masks) != len(documents):
        raise ParameterError(
            f"the policy returned {len(masks)} masks for {len(documents)} texts; it must return one for each"
        )
    return [
        checked_mask(mask, one, f"text {number}")
        for number, (mask, one) in enumerate(zip(masks, documents, strict=True), first)
    ]


def checked_mask(mask: Mask, document: Document, name: str = "a text") -> Mask:
    """Return a mask that has a truth value for each token; numbers would be taken for places, a short mask stretched."""
    tokens = len(document.pieces) // 2
    is_array = isinstance(mask, np.ndarray)
    if is_array and mask.dtype == np.bool_ and mask.shape == (tokens,):
        return mask
    given = f"an array of {mask.dtype}, of shape {mask.shape}" if is_array else f"a value of type {type(mask).__name__}"
    raise ParameterError(
        f"the policy's mask of {name} must be a numpy array with True or False for each of its {tokens} tokens, got {given}"
    )


class _Combined(Policy):
    def __init__(self, name: str, one: Policy, other: Policy, combine: Callable[[Mask, Mask], Mask]) -> None:
        self._name, self._one, self._other, self._combine = name, one, other, combine

    @property
    def keeps(self) -> str:
        parts = [keeps for keeps in (self._one.keeps, self._other.keeps) if keeps]
        if self._name == "and":
            return "; ".join(parts)
        return f"what is both: {' / '.join(parts)}" if len(parts) == 2 else ""

    def protects(self, document: Document) -> Mask:
        one, other = self._one.protects(document), self._other.protects(document)
        return self._combine(checked_mask(one, document), checked_mask(other, document))

    def protects_many(self, documents: Sequence[Document]) -> list[Mask]:
        ones, others = masks_of(self._one, documents), masks_of(self._other, documents)
        return [self._combine(one, other) for one, other in zip(ones, others, strict=True)]

    def protects_word(self, word: str) -> bool:
        one, other = self._one.protects_word(word), self._other.protects_word(word)
        return (one or other) if self._name == "or" else (one and other)

    def keeps_word(self, word: str) -> bool:
        one, other = self._one.keeps_word(word), self._other.keeps_word(word)
        return (one and other) if self._name == "or" else (one or other)

    def __invert__(self) -> Policy:
        """Protect what this one keeps: each part says itself what its opposite is."""
        if self._name == "or":
            return _Combined("and", ~self._one, ~self._other, np.logical_and)
        return _Combined("or", ~self._one, ~self._other, np.logical_or)


class _Inverted(Policy):
    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    @property
    def keeps(self) -> str:
        inner = self._policy.keeps
        return f"everything but: {inner}" if inner else "every token"

    def protects(self, document: Document) -> Mask:
        return ~checked_mask(self._policy.protects(document), document)

    def protects_many(self, documents: Sequence[Document]) -> list[Mask]:
        return [~mask for mask in masks_of(self._policy, documents)]

    def protects_word(self, word: str) -> bool:
        return self._policy.keeps_word(word)

    def keeps_word(self, word: str) -> bool:
        return self._policy.protects_word(word)

    def __invert__(self) -> Policy:
        """Protect what the inner one protects."""
        return self._policy
