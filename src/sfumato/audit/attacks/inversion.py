"""From vectors back to words: the nearest word, and an attacker trained to tell which words a sentence vector had.

The trained attacker is a ridge regression from vectors to word indicators.  For a vector that is the mean of word vectors
with noise this is the linear estimator with the least squared error, and its ranking of words is what is scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.audit.attacks.learners import words_of
from sfumato.audit.attacks.scores import Share
from sfumato.foundation.checks import gather, require_count, require_non_negative
from sfumato.foundation.errors import ParameterError

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]
_CELLS = 4_000_000
_PENALTIES = (1e-4, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1e6)
"""In units of the mean variance of a component; under the last one only the frequency of words counts."""


def nearest_inversion(vectors: npt.ArrayLike, points: npt.ArrayLike, truth: Places, *, top: int = 1) -> Share:
    """Return how many vectors have their true point among the ``top`` nearest public points; ties are not hits for free.

    A point that is as near as the true one counts as nearer if it stands before it.

    >>> nearest_inversion([[0.1], [0.9]], [[0.0], [1.0]], np.array([0, 1]))
    Share(hits=2, of=2)
    """
    seen, public = np.asarray(vectors, dtype=np.float64), np.asarray(points, dtype=np.float64)
    require_count(top=top)
    if seen.ndim != 2 or public.ndim != 2 or seen.shape[1] != public.shape[1] or len(truth) != len(seen):
        raise ParameterError("vectors and points need the same number of components, and each vector its true point")
    squares = (public**2).sum(axis=1)
    hits = 0
    step = max(1, _CELLS // len(public))
    for start in range(0, len(seen), step):
        places = truth[start : start + step]
        scores = squares - 2 * (seen[start : start + step] @ public.T)
        own = scores[np.arange(len(places)), places][:, None]
        before = np.arange(len(public))[None, :] < places[:, None]
        hits += int((((scores < own) | ((scores == own) & before)).sum(axis=1) < top).sum())
    return Share(hits, len(seen))


def bags(texts: Sequence[str], words: Sequence[str]) -> Any:
    """Return which of the words each text has, as a sparse matrix of zeros and ones."""
    from scipy.sparse import csr_matrix

    index = {word: place for place, word in enumerate(words)}
    found = [sorted({index[word] for word in words_of(text) if word in index}) for text in texts]
    starts = np.cumsum([0, *map(len, found)])
    columns = np.array([place for row in found for place in row], dtype=np.intp)
    return csr_matrix((np.ones(len(columns)), columns, starts), shape=(len(texts), len(words)))


@dataclass(frozen=True)
class Inverter:
    """A trained attacker on sentence vectors; see :func:`train_inverter`."""

    weights: Floats = field(repr=False)
    mean: Floats = field(repr=False)
    base: Floats = field(repr=False)
    """Share of the training texts that have each word: what is guessed of a vector that says nothing."""

    def scores(self, vectors: npt.ArrayLike) -> Floats:
        """Return how likely each word is thought to be in each sentence."""
        return np.asarray((np.asarray(vectors, dtype=np.float64) - self.mean) @ self.weights + self.base)


def train_inverter(vectors: npt.ArrayLike, contents: Any, *, penalty: float | None = None) -> Inverter:
    """Return an attacker trained on vectors of texts the attacker has, and the words of those texts (:func:`bags`).

    ``penalty`` is added to the covariance of the vectors.  Where it is not given, the one that recovers most words of a
    fifth of the vectors, held out, is taken; vectors that say nothing are thereby not listened to.
    """
    seen = np.asarray(vectors, dtype=np.float64)
    if seen.ndim != 2 or seen.shape[0] != contents.shape[0] or len(seen) < 2:
        raise ParameterError("give at least two vectors, and the words of the text of each")
    gather(lambda: require_non_negative(penalty=penalty) if penalty is not None else None)
    if penalty is None:
        cut = max(1, len(seen) * 4 // 5)
        trial = _Ridge(seen[:cut], contents[:cut])

        def recovered(ridge: float) -> float:
            attacker = trial.solved(ridge)
            return recovered_words(attacker.scores(seen[cut:]), contents[cut:], attacker.base).words.share

        penalty = max((trial.size * power for power in _PENALTIES), key=recovered)
    return _Ridge(seen, contents).solved(penalty)


class _Ridge:
    """The sums of a regression, which serve every penalty."""

    def __init__(self, seen: Floats, contents: Any) -> None:
        self._mean = seen.mean(axis=0)
        centred = seen - self._mean
        self._base = np.asarray(contents.mean(axis=0)).ravel()
        self._values, self._axes = np.linalg.eigh(centred.T @ centred / len(seen))
        self._cross = self._axes.T @ (np.asarray(contents.T @ centred).T / len(seen))
        self.size = float(self._values.mean()) or 1.0

    def solved(self, penalty: float) -> Inverter:
        stretch = self._values + penalty
        inverse = np.divide(1.0, stretch, out=np.zeros_like(stretch), where=stretch > 1e-12 * self.size)
        return Inverter(self._axes @ (inverse[:, None] * self._cross), self._mean, self._base)


@dataclass(frozen=True)
class Recovered:
    """Which share of the words of sentences is recovered, where the attacker names as many words as there are."""

    words: Share
    blind: Share
    """The same for an attacker who names the most frequent words and looks at no vector."""


def recovered_words(scores: Floats, contents: Any, base: Floats) -> Recovered:
    """Return the share of distinct words named right; ``base`` is how frequent words are.

    >>> from scipy.sparse import csr_matrix
    >>> truth = csr_matrix([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    >>> found = recovered_words(truth.toarray(), truth, np.array([0.9, 0.5, 0.1]))
    >>> found.words, found.blind
    (Share(hits=3, of=3), Share(hits=1, of=3))
    """
    frequent = np.argsort(-base, kind="stable")
    hits = blind = total = 0
    for place in range(contents.shape[0]):
        truth = contents.indices[contents.indptr[place] : contents.indptr[place + 1]]
        if not len(truth):
            continue
        named = np.argsort(-scores[place], kind="stable")[: len(truth)]
        hits += len(np.intersect1d(named, truth))
        blind += len(np.intersect1d(frequent[: len(truth)], truth))
        total += len(truth)
    return Recovered(Share(hits, total), Share(blind, total))
