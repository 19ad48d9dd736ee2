"""What an encoder is: a public function from sentences to vectors.

An encoder is PUBLIC: it is published by the server and was made from public data only.  It never sees the noise and
needs no privacy of its own; what it must not do is learn from the owners' sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from sfumato.foundation.errors import ParameterError

FloatArray = npt.NDArray[np.float64]
Float32Array = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]

POOLINGS = ("mean", "cls", "last")


@dataclass(frozen=True)
class TokenVectors:
    """The vectors of the tokens of some sentences, padded to the longest of them."""

    values: Float32Array
    """Shape (sentences, tokens, dimension); zero where there is no token."""
    mask: BoolArray
    """Shape (sentences, tokens): where there is a token."""

    def __len__(self) -> int:
        return len(self.values)


@runtime_checkable
class Encoder(Protocol):
    """Sentences in, one vector each out; the same sentence always gives the same vector."""

    @property
    def name(self) -> str:
        """A short public name."""
        ...

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        ...

    @property
    def contextual(self) -> bool:
        """Whether a token's vector depends on the other tokens: then one changed word changes all token vectors."""
        ...

    @property
    def max_tokens(self) -> int:
        """Where sentences are cut off."""
        ...

    def encode(self, sentences: Sequence[str]) -> Float32Array:
        """Return one vector for each sentence."""
        ...

    def encode_tokens(self, sentences: Sequence[str]) -> TokenVectors:
        """Return the vectors of the tokens of each sentence."""
        ...


def pooled(tokens: TokenVectors) -> Float32Array:
    """Return the mean token vector of each sentence; zero for a sentence without tokens.

    >>> values = np.array([[[1.0], [3.0]], [[5.0], [0.0]]], dtype=np.float32)
    >>> pooled(TokenVectors(values, np.array([[True, True], [True, False]]))).tolist()
    [[2.0], [5.0]]
    """
    counts = np.maximum(tokens.mask.sum(axis=1, keepdims=True), 1)
    total = (tokens.values * tokens.mask[:, :, None]).sum(axis=1)
    return np.asarray(total / counts, dtype=np.float32)


def check_sentences(sentences: Sequence[str]) -> list[str]:
    """Return the sentences as a list; raise where one of them is not text.

    A single text is refused: taken apart into characters it would be many releases.
    """
    if isinstance(sentences, str):
        raise ParameterError("give a list of sentences, not one text")
    for place, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
            raise ParameterError(f"sentence {place} is a {type(sentence).__name__}, not text")
    return list(sentences)
