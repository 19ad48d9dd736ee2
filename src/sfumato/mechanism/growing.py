"""Arrays that grow at their end without being copied each time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


class Growing:
    """Hands out views of a buffer with room behind them; what was handed out before never changes.

    >>> growing = Growing(np.array([1, 2]))
    >>> before, after = growing.array, growing.extended([np.array([3]), np.array([4, 5])])
    >>> before.tolist(), after.tolist()
    ([1, 2], [1, 2, 3, 4, 5])
    """

    def __init__(self, start: npt.NDArray[Any]) -> None:
        self._buffer = start
        self.array = start

    def extended(self, parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """Return the array followed by the parts, and keep that."""
        used = len(self.array)
        needed = used + sum(map(len, parts))
        if needed > len(self._buffer):
            self._buffer = np.empty((max(needed, used + used // 2), *self.array.shape[1:]), dtype=self.array.dtype)
            self._buffer[:used] = self.array
        for part in parts:
            self._buffer[used : used + len(part)] = part
            used += len(part)
        self.array = self._buffer[:used]
        return self.array
