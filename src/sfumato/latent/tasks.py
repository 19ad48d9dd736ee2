"""One task from end to end: encode, release, train on what was released, answer noisy queries.

The same code runs on texts (with an encoder) and on vectors that were encoded before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.foundation.errors import DataError
from sfumato.foundation.randomness import RunKey, Source, SystemSource
from sfumato.latent.encoders.base import Encoder
from sfumato.latent.heads import Head, HeadSettings
from sfumato.latent.labels import RandomisedResponse, checked_labels
from sfumato.latent.plan import NoisePlan
from sfumato.latent.release import release, stated
from sfumato.latent.vectors import clip, paired


@dataclass(frozen=True)
class Examples:
    """Vectors with their labels."""

    vectors: npt.NDArray[np.floating[Any]]
    labels: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        if len(self.vectors) != len(self.labels):
            raise DataError(f"there are {len(self.vectors)} vectors and {len(self.labels)} labels")

    @classmethod
    def of_texts(cls, encoder: Encoder, sentences: Sequence[str], labels: Sequence[int]) -> Examples:
        """Encode sentences for a classification task."""
        return cls(encoder.encode(sentences), np.asarray(labels, dtype=np.int64))

    @classmethod
    def of_pairs(cls, encoder: Encoder, first: Sequence[str], second: Sequence[str], labels: Sequence[int]) -> Examples:
        """Encode sentence pairs: the two vectors side by side are one record and are clipped as one."""
        return cls(paired(encoder.encode(first), encoder.encode(second)), np.asarray(labels, dtype=np.int64))


@dataclass(frozen=True)
class TaskResult:
    """How well the server's head does, and at what promise."""

    accuracy: float
    """On noisy queries: every query is a release under the same plan."""
    local_accuracy: float
    """On clipped queries without noise: what an owner gets who fetches the head and asks it at home."""
    majority: float
    """Accuracy of always answering the most frequent class."""
    statement: str
    epsilon: float
    delta: float

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return dict(self.__dict__)


def run_task(
    train: Examples,
    test: Examples,
    plan: NoisePlan,
    *,
    classes: int,
    pairs: bool = False,
    kind: str = "linear",
    labels: RandomisedResponse | None = None,
    seed: int | None = None,
) -> TaskResult:
    """Release the training vectors once, fit a head on them, and ask it noisy queries.

    ``seed`` makes the noise repeatable, and the guarantee says that it is then not secret.

    >>> from sfumato.latent.calibration import release_once
    >>> one = Examples(np.array([[-1.0], [1.0]] * 50), np.array([0, 1] * 50))
    >>> run_task(one, one, release_once(epsilon=100.0, clip=1.0, dimension=1), classes=2, seed=3).accuracy
    1.0
    """
    source: Source = SystemSource() if seed is None else RunKey.from_seed(seed).record(0, "latent task")
    noisy = release(train.vectors, plan, source)
    sent = checked_labels(train.labels, classes)
    transition = None
    if labels is not None:
        sent, transition = labels.sample(sent, source), labels.transition()
    head = Head(settings_for(plan, classes=classes, pairs=pairs, kind=kind, seed=seed or 0))
    head.fit(noisy, sent, transition)
    queries = release(test.vectors, plan, source)
    promise = stated(plan.guarantee, source.secure).statement()
    if labels is not None:
        promise += " Labels: " + stated(labels.guarantee, source.secure).statement()
    return TaskResult(
        accuracy=head.accuracy(queries, test.labels),
        local_accuracy=head.accuracy(clip(test.vectors, plan.clip, plan.norm), test.labels),
        majority=float(np.bincount(test.labels, minlength=classes).max() / max(len(test.labels), 1)),
        statement=promise,
        epsilon=plan.epsilon(),
        delta=plan.delta,
    )


def settings_for(plan: NoisePlan, *, classes: int, **options: Any) -> HeadSettings:
    """Return the settings of a head for vectors released under a plan, with inputs of about unit size."""
    size = float(np.hypot(plan.deviation, plan.clip / np.sqrt(plan.dimension)))
    return HeadSettings(dimension=plan.dimension, classes=classes, scale=size, **options)
