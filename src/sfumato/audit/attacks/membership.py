"""Membership inference: was this record in the training data of that model?

:func:`shadow_attack` is the attack of Shokri et al. (2017) as Carvalho et al. use it in section 5.3 of their paper on TEM:
models like the attacked one are trained on data the attacker has, and a classifier learns from their answers how members
look, one classifier for each class.  :func:`likelihood_ratio` is the attack of Carlini et al. (2022): for each record the
confidence of models that had it is set against that of models that had it not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sfumato.audit.attacks.learners import Labels, train_classifier
from sfumato.foundation.errors import ParameterError

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
_LEAST_SPREAD = 1e-3


@dataclass(frozen=True)
class Answers:
    """What a model says about some records."""

    logs: Floats = field(repr=False)
    """Logarithms of the class probabilities, one row for each record."""
    labels: Labels = field(repr=False)
    """The true classes."""

    def __post_init__(self) -> None:
        """Check that every record has a label."""
        if self.logs.ndim != 2 or len(self.logs) != len(self.labels) or not len(self.labels):
            raise ParameterError("give one row of logarithms and one true class for each record")

    def confidence(self) -> Floats:
        """Return the log-odds of the true class, which are nearly normal over models."""
        rows = np.arange(len(self.labels))
        own = self.logs[rows, self.labels]
        others = self.logs.copy()
        others[rows, self.labels] = -np.inf
        largest = others.max(axis=1)
        rest = largest + np.log(np.exp(others - largest[:, None]).sum(axis=1))
        return np.asarray(own - rest)

    def traits(self) -> Floats:
        """Return what the attack model looks at: the true class's log-odds and loss, and the sorted probabilities."""
        rows = np.arange(len(self.labels))
        odds = np.clip(self.confidence(), -30, 30)
        loss = np.maximum(self.logs[rows, self.labels], -30)
        ordered = np.exp(np.sort(self.logs, axis=1)[:, ::-1])
        return np.column_stack([odds, np.abs(odds), loss, ordered])


def shadow_attack(shadows: Sequence[tuple[Answers, Flags]], target: Answers) -> Floats:
    """Return a score for each record of the target, greater for likely members.

    Each shadow is the answers of one model and which of the records were in its training data.
    """
    if not shadows:
        raise ParameterError("give at least one shadow model")
    for answers, members in shadows:
        if len(members) != len(answers.labels) or members.all() or not members.any():
            raise ParameterError("every shadow needs both members and others, and a flag for each of its records")
    traits = np.concatenate([answers.traits() for answers, _ in shadows])
    labels = np.concatenate([answers.labels for answers, _ in shadows])
    truth = np.concatenate([members for _, members in shadows]).astype(np.intp)
    mean, spread = traits.mean(axis=0), np.maximum(traits.std(axis=0), 1e-9)
    rows, wanted = (traits - mean) / spread, (target.traits() - mean) / spread
    everyone = train_classifier(rows, truth, 2)
    scores = _odds(everyone.log_probabilities(wanted))
    for one in np.unique(target.labels).tolist():
        known = labels == one
        if len(np.unique(truth[known])) == 2:
            model = train_classifier(rows[known], truth[known], 2)
            here = target.labels == one
            scores[here] = _odds(model.log_probabilities(wanted[here]))
    return scores


def _odds(logs: Floats) -> Floats:
    return np.asarray(logs[:, 1] - logs[:, 0])


def likelihood_ratio(confidences: npt.ArrayLike, members: npt.ArrayLike, target: npt.ArrayLike) -> Floats:
    """Return for each record the logarithm of the ratio of its likelihoods, with it and without it in the training data.

    ``confidences`` and ``members`` have a row for each shadow model and a column for each record; ``target`` is the
    confidence of the attacked model.  Each likelihood is normal with the record's own mean and a spread common to all.

    >>> scores = likelihood_ratio([[2.0, 0.0], [0.0, 2.0], [2.1, 0.1], [-0.1, 1.9]],
    ...                           [[True, False], [False, True], [True, False], [False, True]], [2.0, 0.0])
    >>> (scores > 0).tolist()
    [True, False]
    """
    values, inside, seen = (
        np.asarray(confidences, dtype=np.float64), np.asarray(members, dtype=bool), np.asarray(target, dtype=np.float64)
    )  # fmt: skip
    if values.ndim != 2 or values.shape != inside.shape or seen.shape != values.shape[1:]:
        raise ParameterError(
            "confidences and members have a row for each shadow and a column for each record of the target"
        )
    if not inside.any(axis=0).all() or inside.all(axis=0).any():
        raise ParameterError(
            "every record must be in the training data of some shadow models and not in that of others"
        )
    means, spreads = [], []
    for side in (inside, ~inside):
        mean = (values * side).sum(axis=0) / side.sum(axis=0)
        square = (((values - mean) ** 2) * side).sum()
        freedom = max(int(side.sum()) - values.shape[1], 1)
        means.append(mean)
        spreads.append(max(float(np.sqrt(square / freedom)), _LEAST_SPREAD))
    within, without = (
        -0.5 * ((seen - mean) / spread) ** 2 - np.log(spread) for mean, spread in zip(means, spreads, strict=True)
    )
    return np.asarray(within - without)
