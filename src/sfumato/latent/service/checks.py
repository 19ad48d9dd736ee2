"""Which vectors a server takes: of the right size, finite, and no longer than the noise explains."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.foundation.errors import DataError
from sfumato.latent.plan import NoisePlan
from sfumato.latent.vectors import norms

_ROUNDING = 1 + 1e-5
"""Numbers travel as decimals and are kept in single precision."""


class BadVectorsError(DataError):
    """Vectors that no honest client sends."""


def checked_vectors(rows: list[list[float]], plan: NoisePlan) -> npt.NDArray[np.float32]:
    """Return rows as vectors; raise, naming places only, where one is not of the plan.

    The greatest norm is exceeded by an honest vector with probability below 1e-12
    (:attr:`~sfumato.latent.plan.NoisePlan.greatest_norm`), so a vector beyond it was not made by the plan: it would pull
    the head further than any honest one can.

    >>> checked_vectors([[0.5, 1.0]], NoisePlan(clip=1.0, scale=1.0, dimension=2)).shape
    (1, 2)
    """
    wrong = [place for place, row in enumerate(rows) if len(row) != plan.dimension]
    if wrong:
        raise BadVectorsError(f"vector {wrong[0]} does not have {plan.dimension} numbers ({len(wrong)} in all)")
    vectors = np.array(rows, dtype=np.float64).reshape(len(rows), plan.dimension)
    with np.errstate(over="ignore"):
        kept = vectors.astype(np.float32)
    _refuse(~np.isfinite(kept).all(axis=1), "is not finite")
    _refuse(norms(vectors) > plan.greatest_norm * _ROUNDING, "is longer than clipping and noise explain")
    return kept


def _refuse(bad: Any, reason: str) -> None:
    if bad.any():
        raise BadVectorsError(
            f"vector {int(np.flatnonzero(bad)[0])} {reason} ({int(bad.sum())} in all); nothing of the request was kept"
        )
