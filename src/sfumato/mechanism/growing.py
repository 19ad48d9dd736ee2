"""Arrays that grow at their end without being copied each time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


class Growing:
    """Hands out views of a buffer with room behind them; what was handed out before never changes.

    >>> growing = Growing(np.array([1, 2]))
    >>> before = growing.array
    >>> growing.append(np.array([3, 4]))
    >>> before.tolist(), growing.array.tolist()
    ([1, 2], [1, 2, 3, 4])
    """

    def __init__(self, start: npt.NDArray[Any]) -> None:
        self._buffer = start
        self.array = start

    def reserve(self, more: int) -> None:
        """Make room for so many entries more; memory is taken as they are written."""
        used = len(self.array)
        if used + more > len(self._buffer):
            self._buffer = np.empty((used + max(more, used // 2), *self.array.shape[1:]), dtype=self.array.dtype)
            self._buffer[:used] = self.array

    def append(self, part: npt.NDArray[Any]) -> None:
        """Put entries at the end."""
        self.reserve(len(part))
        used = len(self.array)
        self._buffer[used : used + len(part)] = part
        self.array = self._buffer[: used + len(part)]
