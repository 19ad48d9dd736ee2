"""A public vocabulary, and sentences as numbers.

The words must be known without looking at the private sentences: a vocabulary counted on them would reveal their
rarest words.  :meth:`Vocabulary.of_space` takes the most frequent words of a space, with their vectors as a start for
the embeddings.

>>> vocabulary = Vocabulary(("cold", "warm"))
>>> vocabulary.encode(("Cold", "unheard", "<entity>"), length=5)
[4, 1, 2, 3]
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sfumato.foundation.checks import require_count
from sfumato.foundation.errors import ParameterError
from sfumato.space import Space
from sfumato.training.sentences import MASK, Sentence

PAD, UNKNOWN, ENTITY, END = range(4)
_SPECIAL = ("<pad>", "<unknown>", MASK, "<end>")


@dataclass(frozen=True)
class Vocabulary:
    """Words in lower case, in a fixed order, after four signs: padding, unknown, masked entity, end."""

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.words or len(set(self.words)) != len(self.words):
            raise ParameterError("a vocabulary needs words, each of them once")

    @classmethod
    def of_space(cls, space: Space, words: int) -> Vocabulary:
        """Return the first words of a space (the most frequent ones, in the space that is shipped), digits and signs."""
        require_count(words=words)
        signs = [sign for sign in string.digits + string.punctuation if sign not in space.index]
        return cls((*signs, *space.words[:words]))

    def __len__(self) -> int:
        return len(_SPECIAL) + len(self.words)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate((*_SPECIAL, *self.words))}

    def number(self, token: str) -> int:
        """Return the number of a token."""
        return self._numbers.get(token.lower(), UNKNOWN)

    def encode(self, tokens: Sequence[str], length: int) -> list[int]:
        """Return the numbers of at most ``length - 1`` tokens, and the end sign; nothing for an emptied sentence."""
        return [self.number(token) for token in tokens[: length - 1]] + [END] if tokens else []

    def table(self, sentences: Sequence[Sentence], length: int) -> npt.NDArray[np.int64]:
        """Return sentences as rows of numbers, padded to ``length``."""
        require_count(length=length)
        rows = np.full((len(sentences), length), PAD, dtype=np.int64)
        for place, sentence in enumerate(sentences):
            numbers = self.encode(sentence.tokens, length)
            rows[place, : len(numbers)] = numbers
        return rows

    def vectors(self, space: Space, dimensions: int) -> npt.NDArray[np.float32]:
        """Return public vectors for the words, reduced to the leading principal directions of the space's own words.

        They have a mean square of 1 / dimensions.  Digits and signs that the space does not have get random ones, always
        the same: were they all zero and kept so, a model could not tell them apart.
        """
        places = np.array([space.index.get(word, -1) for word in self.words])
        found = np.asarray(space.vectors, dtype=np.float64)[np.maximum(places, 0)]
        found[places < 0] = 0.0
        centred = found - found.mean(axis=0)
        if dimensions < centred.shape[1]:
            _, directions = np.linalg.eigh(centred.T @ centred)
            centred = centred @ directions[:, ::-1][:, :dimensions]
        scale = np.sqrt((centred[places >= 0] ** 2).mean()) * np.sqrt(dimensions) if (places >= 0).any() else 0.0
        drawn = np.random.default_rng(0).normal(size=(len(self), dimensions)) / np.sqrt(dimensions)
        result: npt.NDArray[np.float32] = drawn.astype(np.float32)
        result[PAD] = 0.0
        known = len(_SPECIAL) + np.flatnonzero(places >= 0)
        result[known] = 0.0
        result[known, : centred.shape[1]] = centred[places >= 0] / (scale or 1.0)
        return result
