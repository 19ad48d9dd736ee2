"""The small learners that attacks and experiments use: a linear classifier on the mean of word features.

A text is the mean of the features of its words and word pairs, and a linear softmax on top decides: the model of FastText
(Joulin et al. 2017) with its embedding and output matrices multiplied out, which has the same decision functions.  Word
pairs are hashed.  Training minimises the penalised logistic loss exactly (L-BFGS), so there is no learning rate to tune and
two runs on the same data agree.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.foundation.checks import gather, require_count, require_non_negative
from sfumato.foundation.errors import ParameterError
from sfumato.text import pieces

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.intp]
Features = Any
"""A dense array or a scipy sparse matrix, one row for each text."""


def words_of(text: str) -> list[str]:
    """Return the lower-case tokens of a text."""
    return [token.lower() for token in pieces(text)[1::2]]


def features(texts: Sequence[str], *, buckets: int = 2**16, pairs: bool = True) -> Features:
    """Return the mean of the hashed word (and word pair) features of each text, as a sparse matrix.

    >>> features(["a b", "b a"], buckets=64, pairs=False).toarray().sum(axis=1).tolist()
    [1.0, 1.0]
    """
    return hashed(map(_with_pairs if pairs else list, map(words_of, texts)), buckets=buckets)


def _with_pairs(words: list[str]) -> list[str]:
    return words + [f"{one} {other}" for one, other in pairwise(words)]


def hashed(rows: Iterable[Sequence[str]], *, buckets: int = 2**16) -> Features:
    """Return the mean of the hashed names of each row, as a sparse matrix."""
    from scipy.sparse import csr_matrix

    require_count(buckets=buckets)
    columns: list[int] = []
    values: list[float] = []
    starts = [0]
    for names in rows:
        columns += [zlib.crc32(name.encode("utf-8", "surrogatepass")) % buckets for name in names]
        values += [1.0 / max(len(names), 1)] * len(names)
        starts.append(len(columns))
    return csr_matrix((values, columns, starts), shape=(len(starts) - 1, buckets))


@dataclass(frozen=True)
class LinearClassifier:
    """A trained linear softmax; see :func:`train_classifier`."""

    weights: Floats = field(repr=False)
    bias: Floats = field(repr=False)
    classes: int

    def log_probabilities(self, rows: Features) -> Floats:
        """Return the logarithms of the class probabilities of each row."""
        scores = np.asarray(rows @ self.weights + self.bias)
        scores -= scores.max(axis=1, keepdims=True)
        return np.asarray(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))

    def predict(self, rows: Features) -> Labels:
        """Return the most likely class of each row."""
        return np.asarray(self.log_probabilities(rows).argmax(axis=1))

    def accuracy(self, rows: Features, labels: Labels) -> float:
        """Return the share of rows whose class is right."""
        return float(np.mean(self.predict(rows) == labels))


def train_classifier(
    rows: Features, labels: Labels, classes: int, *, penalty: float = 1e-5, steps: int = 200
) -> LinearClassifier:
    """Return the linear softmax with the least mean logistic loss plus ``penalty / 2`` times the squared weights.

    >>> rows = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 2.0], [2.0, 0.0]])
    >>> train_classifier(rows, np.array([0, 1, 0, 1]), 2).predict(rows).tolist()
    [0, 1, 0, 1]
    """
    from scipy.optimize import minimize

    gather(lambda: require_count(classes=classes, steps=steps), lambda: require_non_negative(penalty=penalty))
    count, width = rows.shape
    if len(labels) != count or count == 0:
        raise ParameterError(
            f"there are {count} rows but {len(labels)} labels; give one label for each, and at least one"
        )
    # A feature that no row has keeps the weight 0 it begins with: leaving it out changes nothing but the time it takes.
    used = np.unique(rows.nonzero()[1])
    whole, rows = width, rows[:, used]
    width = len(used)
    target = np.zeros((count, classes))
    target[np.arange(count), labels] = 1.0

    def loss(flat: Floats) -> tuple[float, Floats]:
        weights, bias = flat[:-classes].reshape(width, classes), flat[-classes:]
        scores = np.asarray(rows @ weights) + bias
        scores -= scores.max(axis=1, keepdims=True)
        logs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        error = (np.exp(logs) - target) / count
        value = -float((target * logs).sum()) / count + 0.5 * penalty * float((weights**2).sum())
        slope = np.asarray(rows.T @ error) + penalty * weights
        return value, np.concatenate([slope.ravel(), error.sum(axis=0)])

    found = minimize(loss, np.zeros((width + 1) * classes), jac=True, method="L-BFGS-B", options={"maxiter": steps})
    weights = np.zeros((whole, classes))
    weights[used] = found.x[:-classes].reshape(width, classes)
    return LinearClassifier(weights, found.x[-classes:], classes)


def macro_f1(predicted: Labels, labels: Labels, classes: int) -> float:
    """Return the mean over classes of the harmonic mean of precision and recall.

    >>> macro_f1(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]), 2).__round__(4)
    0.7333
    """
    scores = []
    for one in range(classes):
        hits = float(np.sum((predicted == one) & (labels == one)))
        total = float(np.sum(predicted == one) + np.sum(labels == one))
        if total:
            scores.append(2 * hits / total)
    return float(np.mean(scores)) if scores else 0.0
