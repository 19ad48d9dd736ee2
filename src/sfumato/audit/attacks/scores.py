"""How well an attack did: shares with exact intervals, and curves of scores against the truth."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.audit.intervals import share_at_least, share_at_most
from sfumato.foundation.errors import ParameterError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Share:
    """So many of so many, with the interval of Clopper and Pearson."""

    hits: int
    of: int

    @property
    def share(self) -> float:
        """The share itself; 0 where nothing was counted."""
        return self.hits / self.of if self.of else 0.0

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return bounds that hold together with this confidence.

        >>> low, high = Share(0, 100).interval()
        >>> round(low, 4), round(high, 4)
        (0.0, 0.0362)
        """
        if not self.of:
            return 0.0, 1.0
        side = (1 + confidence) / 2
        return share_at_least(self.hits, self.of, side), share_at_most(self.hits, self.of, side)


@dataclass(frozen=True)
class Separation:
    """How well scores tell members from others."""

    auc: float
    """The chance that a member has the greater score; 0.5 is blind."""
    low: float
    high: float
    """The 95 % interval of Hanley and McNeil (1982)."""
    accuracy: float
    """Best share of right decisions with a threshold, members and others counted alike."""
    found_at_1_percent: float
    """Share of members found where 1 % of the others are accused."""


def separation(scores: npt.ArrayLike, members: npt.ArrayLike) -> Separation:
    """Return how well scores tell members from others; ties count half.

    >>> separation([3.0, 2.0, 1.0, 0.0], [True, True, False, False]).auc
    1.0
    >>> separation([1.0, 1.0, 1.0, 1.0], [True, True, False, False]).auc
    0.5
    """
    from scipy.stats import rankdata

    values, truth = np.asarray(scores, dtype=np.float64), np.asarray(members, dtype=bool)
    inside, outside = int(truth.sum()), int((~truth).sum())
    if values.shape != truth.shape or not inside or not outside or np.isnan(values).any():
        raise ParameterError("give one score that is a number for each record, and both members and others")
    ranks = rankdata(values)
    auc = (float(ranks[truth].sum()) - inside * (inside + 1) / 2) / (inside * outside)
    thresholds = np.unique(values)
    above = np.searchsorted(np.sort(values[truth]), thresholds, side="left")
    accused = np.searchsorted(np.sort(values[~truth]), thresholds, side="left")
    found, wrong = 1 - above / inside, 1 - accused / outside
    allowed = found[wrong <= 0.01]
    reach = 1.96 * _deviation(auc, inside, outside)
    return Separation(
        auc,
        max(auc - reach, 0.0),
        min(auc + reach, 1.0),
        float(max(((found + 1 - wrong) / 2).max(), 0.5)),
        float(allowed.max()) if len(allowed) else 0.0,
    )


def _deviation(auc: float, inside: int, outside: int) -> float:
    one, other = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    square = auc * (1 - auc) + (inside - 1) * (one - auc**2) + (outside - 1) * (other - auc**2)
    return math.sqrt(max(square, 0.0) / (inside * outside))
