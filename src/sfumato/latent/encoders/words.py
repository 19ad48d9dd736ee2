"""The plainest encoder: the mean of the vectors of a sentence's words.  It needs no PyTorch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.foundation.checks import require_count
from sfumato.latent.encoders.base import Float32Array, TokenVectors, check_sentences
from sfumato.space import Space
from sfumato.text.tokens import tokenize


def word_numbers(space: Space, sentences: list[str], max_tokens: int) -> list[list[int]]:
    """Return the places in a space of the words of each sentence; words it does not have are left out."""
    index = space.index
    result = []
    for sentence in sentences:
        words = (token.text for token in tokenize(sentence))
        found = (index.get(word, index.get(word.lower())) for word in words)
        result.append([place for place in found if place is not None][:max_tokens])
    return result


def space_matrix(space: Space) -> Float32Array:
    """Return the vectors of a space as they really are (stored integers are scaled)."""
    return np.asarray(np.asarray(space.vectors, dtype=np.float32) * np.float32(space.scale))


class WordMeanEncoder:
    """The mean of public word vectors.

    A token's vector depends on that token alone, so the layer can also protect single words (``change="word"``).

    >>> space = Space.from_arrays(["cold", "warm"], [[0.0, 1.0], [2.0, 3.0]])
    >>> WordMeanEncoder(space).encode(["Warm, cold!", "unknown"]).tolist()
    [[1.0, 2.0], [0.0, 0.0]]
    """

    contextual = False

    def __init__(self, space: Space, *, max_tokens: int = 256) -> None:
        require_count(max_tokens=max_tokens)
        self.space = space
        self.name = f"mean of {space.name}"
        self.dimension = space.dimension
        self.max_tokens = max_tokens
        self._matrix = space_matrix(space)

    def encode(self, sentences: Sequence[str]) -> Float32Array:
        """Return the mean word vector of each sentence; zero where no word is known."""
        numbers = word_numbers(self.space, check_sentences(sentences), self.max_tokens)
        result = np.zeros((len(numbers), self.dimension), dtype=np.float32)
        for row, places in enumerate(numbers):
            if places:
                result[row] = self._matrix[places].mean(axis=0)
        return result

    def encode_tokens(self, sentences: Sequence[str]) -> TokenVectors:
        """Return the word vectors of each sentence."""
        numbers = word_numbers(self.space, check_sentences(sentences), self.max_tokens)
        longest = max((len(places) for places in numbers), default=0)
        values = np.zeros((len(numbers), longest, self.dimension), dtype=np.float32)
        mask = np.zeros((len(numbers), longest), dtype=bool)
        for row, places in enumerate(numbers):
            values[row, : len(places)] = self._matrix[places]
            mask[row, : len(places)] = True
        return TokenVectors(values, mask)
