"""Which cell of a block a draw falls on, nearly always without computing the weights of the block again.

The running sums of a block's 16 weights are kept to 16 bits.  With T their total and s the number of bits that T has
above 16, *mark* k is ``(w_0 + ... + w_k) >> s``.  A number r below T falls on the first cell whose running sum is above
it.  Shifting keeps the order: a mark below ``r >> s`` belongs to a running sum of at most r, and a mark above it to a
running sum above r.  Only where a mark equals ``r >> s`` is the outcome open (for about one draw in 3,000), and the
weights have to be computed.  So marks save time and change no draw.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.foundation.randomness import UInt64Array
from sfumato.space.metric import IndexArray

BITS = 16
Marks = npt.NDArray[np.uint16]


def _shifts(totals: UInt64Array) -> UInt64Array:
    """Return how many bits totals have above :data:`BITS`; one more where rounding to float reaches a power of two."""
    bits: IndexArray = np.frexp(totals.astype(np.float64))[1]
    return np.maximum(bits - BITS, 0).astype(np.uint64)


def marks_of(blocks: UInt64Array) -> Marks:
    """Return the marks of blocks of weights (the last axis).

    >>> marks_of(np.array([[2**40, 2**40, 0, 2**40]], dtype=np.uint64)).tolist()
    [[16384, 32768, 32768, 49152]]
    """
    running = np.cumsum(blocks, axis=-1, dtype=np.uint64)
    running >>= _shifts(running[..., -1])[..., None]
    return running.astype(np.uint16)


def cells_by_marks(marks: Marks, numbers: UInt64Array, totals: UInt64Array) -> tuple[IndexArray, npt.NDArray[np.bool_]]:
    """Return the cell that each number below its block's total falls on, and whether that is sure.

    >>> marks = marks_of(np.array([[2**40, 2**40, 0, 2**40]] * 2, dtype=np.uint64))
    >>> numbers, totals = np.array([2**39, 2**41], dtype=np.uint64), np.array([3 * 2**40] * 2, dtype=np.uint64)
    >>> cells, sure = cells_by_marks(marks, numbers, totals)
    >>> int(cells[0]), sure.tolist()
    (0, [True, False])
    """
    reached = (numbers >> _shifts(totals)).astype(np.uint16)[:, None]
    cells = np.count_nonzero(marks < reached, axis=1)
    return cells, cells == np.count_nonzero(marks <= reached, axis=1)
