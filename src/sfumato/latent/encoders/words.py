"""The plainest encoder: the mean of the vectors of a sentence's words.  It needs no PyTorch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.foundation.checks import require_count
from sfumato.latent.encoders.base import Float32Array, TokenVectors, check_sentences
from sfumato.space import Space
from sfumato.text.tokens import tokenize


def word_places(space: Space, sentences: list[str]) -> list[list[int | None]]:
    """Return for each word of each sentence its place in a space, None where it is not there."""
    index = space.index
    return [[index.get(word, index.get(word.lower())) for word in _words(sentence)] for sentence in sentences]


def word_numbers(space: Space, sentences: list[str], max_tokens: int) -> list[list[int]]:
    """Return the places in a space of the words of each sentence; words it does not have are left out."""
    found = word_places(space, sentences)
    return [[place for place in places if place is not None][:max_tokens] for places in found]


def _words(sentence: str) -> list[str]:
    return [token.text for token in tokenize(sentence)]


def space_matrix(space: Space) -> Float32Array:
    """Return the vectors of a space as they really are (stored integers are scaled)."""
    return np.asarray(np.asarray(space.vectors, dtype=np.float32) * np.float32(space.scale))


class WordMeanEncoder:
    """The mean of public word vectors.

    A token's vector depends on that token alone, so the layer can also protect single words (``change="word"``).  Words
    that the space does not have count for nothing in the mean of a sentence.

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
        """Return the word vectors of each sentence: zeros for a word that is not known, which keeps its place.

        Were it left out, the number of vectors would tell a name from a word of the list, noise or no noise.
        """
        found = word_places(self.space, check_sentences(sentences))
        longest = min(max((len(places) for places in found), default=0), self.max_tokens)
        values = np.zeros((len(found), longest, self.dimension), dtype=np.float32)
        mask = np.zeros((len(found), longest), dtype=bool)
        for row, places in enumerate(found):
            mask[row, : len(places)] = True
            for column, place in enumerate(places[:longest]):
                if place is not None:
                    values[row, column] = self._matrix[place]
        return TokenVectors(values, mask)
