"""Which rows of an array are equal, without sorting the rows themselves where they are many."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

IndexArray = npt.NDArray[np.intp]
_ROWS_AT_ONCE = 4096


def distinct_rows(array: npt.NDArray[Any]) -> tuple[IndexArray, IndexArray]:
    """Return the first row of each kind, and the kind of every row; rows are compared byte by byte.

    Rows with unlike sums are unlike.  Only where sums agree are rows compared.

    >>> first, kinds = distinct_rows(np.array([[1, 2], [3, 4], [1, 2]]))
    >>> sorted(first.tolist()), int(kinds[0] == kinds[2])
    ([0, 1], 1)
    """
    sums = _sums(array)
    _, first, kinds = np.unique(sums, return_index=True, return_inverse=True)
    kinds = kinds.ravel()
    if len(first) < len(array) and not _all_equal(array, first[kinds]):
        whole = array.view(np.dtype((np.void, array.dtype.itemsize * array.shape[1]))).ravel()
        _, first, kinds = np.unique(whole, return_index=True, return_inverse=True)
    return first, kinds.ravel()


def _sums(array: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Return for every row a sum of its parts times odd numbers, modulo 2**64."""
    size = array.dtype.itemsize * array.shape[1]
    width = next(width for width in (8, 4, 2, 1) if size % width == 0)
    data = np.frombuffer(array, dtype=f"u{width}").reshape(len(array), -1)
    factors = np.random.default_rng(0).integers(0, 2**64, data.shape[1], dtype=np.uint64) | np.uint64(1)
    sums = np.empty(len(array), dtype=np.uint64)
    for start in range(0, len(array), _ROWS_AT_ONCE):
        sums[start : start + _ROWS_AT_ONCE] = (data[start : start + _ROWS_AT_ONCE] * factors).sum(
            axis=1, dtype=np.uint64
        )
    return sums


def _all_equal(array: npt.NDArray[Any], places: IndexArray) -> bool:
    """Return whether every row is the one at its place, byte by byte."""
    unlike = np.flatnonzero(places != np.arange(len(places)))
    for start in range(0, len(unlike), _ROWS_AT_ONCE):
        some = unlike[start : start + _ROWS_AT_ONCE]
        if not (array[some].view(np.uint8) == array[places[some]].view(np.uint8)).all():
            return False
    return True
