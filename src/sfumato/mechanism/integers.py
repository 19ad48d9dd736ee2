"""From real probabilities to integer weights, and what the rounding can cost.

``weight = max(2**24, floor(S p))`` with ``S = 2**63 - (n + 1) 2**24`` for ``n`` cells, so that a row's total never passes
2**63 (the one spare 2**24 is far above what floating-point rounding of ``S p`` can add) and nearly every 63-bit number
is accepted when a draw is made.  Every cell has a weight of at least 2**24, so no ratio between two rows is infinite.

For two rows with real probabilities p and p' the ratio of integer weights is at most
``max(1, p/p') / (1 - 2**-24)``, and totals lie between ``S - n`` and ``2**63``.
"""

from __future__ import annotations

import math

import numpy as np

from sfumato.foundation.errors import ParameterError
from sfumato.foundation.randomness import UInt64Array
from sfumato.space.metric import FloatArray

LEAST_WEIGHT = 2**24
LARGEST_TOTAL = 2**63
MOST_CELLS = 2**34


def to_weights(kernel: FloatArray, sums: FloatArray | None = None, cells: int | None = None) -> UInt64Array:
    """Return integer weights for rows of non-negative numbers proportional to probabilities; uses up its argument.

    ``sums`` and ``cells`` are those of the whole rows where the argument is a part of them.

    >>> to_weights(np.array([[3.0, 1.0, 0.0]])).tolist()
    [[6917529027590750208, 2305843009196916736, 16777216]]
    """
    cells = kernel.shape[1] if cells is None else cells
    if cells > MOST_CELLS:
        raise ParameterError(f"a row has {cells} cells; at most {MOST_CELLS} can be represented")
    sums = kernel.sum(axis=1) if sums is None else sums
    if not (np.isfinite(sums).all() and (sums > 0).all()):
        raise ParameterError("a row of probabilities is empty, infinite or NaN")
    kernel /= sums[:, None]  # in two steps, since the scale over a tiny sum may overflow
    kernel *= _scale(cells)
    weights = kernel.astype(np.uint64)
    return np.maximum(weights, np.uint64(LEAST_WEIGHT))


def rounding_loss(cells: int) -> float:
    """Return the most that integer rounding can add to a log-ratio of two rows with that many cells."""
    from_floor = -math.log1p(-1.0 / LEAST_WEIGHT)
    from_totals = -math.log1p((_scale(cells) - cells - LARGEST_TOTAL) / LARGEST_TOTAL)
    return (from_floor + from_totals) * (1 + 1e-9)


def _scale(cells: int) -> int:
    return LARGEST_TOTAL - (cells + 1) * LEAST_WEIGHT
