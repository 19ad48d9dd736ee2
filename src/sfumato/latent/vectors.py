"""Clipping: the step that bounds how far two sentences' vectors can lie apart.

Any two vectors of norm at most C differ by at most 2 C, and by exactly that when they point in opposite directions: the
sensitivity of a clipped sentence vector is 2 C, not C, because a sentence may become any other sentence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sfumato.foundation.checks import gather, require_one_of, require_positive, require_probability
from sfumato.foundation.errors import DataError

FloatArray = npt.NDArray[np.float64]

NORMS = ("l1", "l2")
SHRINK = 1 - 2.0**-40
"""Clipped vectors are this much shorter than C, so that rounding can never make them longer."""


def norms(vectors: npt.ArrayLike, norm: str = "l2") -> FloatArray:
    """Return the norm of each vector (along the last axis)."""
    require_one_of(NORMS, norm=norm)
    array = np.asarray(vectors, dtype=np.float64)
    if norm == "l1":
        return np.asarray(np.abs(array).sum(axis=-1))
    # Scaled by the greatest coordinate, so that squares neither overflow nor vanish.
    greatest = np.abs(array).max(axis=-1, keepdims=True, initial=0.0)
    safe = np.where(greatest > 0, greatest, 1.0)
    return np.asarray(np.sqrt(((array / safe) ** 2).sum(axis=-1)) * greatest[..., 0])


def require_finite(vectors: npt.NDArray[np.floating], what: str = "vector") -> None:
    """Raise where a vector holds NaN or an infinity; its place is named, its content is not."""
    bad = ~np.isfinite(vectors).all(axis=tuple(range(1, vectors.ndim)))
    if bad.any():
        raise DataError(
            f"{what} {int(np.flatnonzero(bad)[0])} is not finite ({int(bad.sum())} in all): "
            "mend the encoder; nothing was released"
        )


def clip(vectors: npt.ArrayLike, bound: float, norm: str = "l2") -> FloatArray:
    """Scale every vector whose norm is above ``bound`` down to it; shorter ones stay as they are.

    The tests measure that no two results are further apart than ``2 * bound``.

    >>> clip([[3.0, 4.0], [0.3, 0.4]], 1.0).round(9).tolist()
    [[0.6, 0.8], [0.3, 0.4]]
    """
    require_positive(clip=bound)
    array = np.asarray(vectors, dtype=np.float64)
    require_finite(array)
    limit = bound * SHRINK
    # Scaled by the greatest coordinate first, where that is large: limit / length could be so small a number that few
    # of its digits are left.
    greatest = np.abs(array).max(axis=-1, keepdims=True, initial=limit)
    scaled, share = array / greatest, limit / greatest
    lengths = norms(scaled, norm)[..., None]
    return np.where(lengths > share, scaled * (limit / np.maximum(lengths, share)), array)


def choose_clip(public_vectors: npt.ArrayLike, *, share: float = 0.5, norm: str = "l2") -> float:
    """Return the clipping norm that leaves a share of PUBLIC vectors unclipped.

    Never give this the owners' vectors: a clipping norm that was fitted to them tells about them.  The median is a good
    start: what counts for the noise is C, and directions survive clipping.

    >>> choose_clip([[1.0], [2.0], [4.0]], share=0.5)
    2.0
    """
    gather(lambda: require_probability(share=share), lambda: require_one_of(NORMS, norm=norm))
    array = np.asarray(public_vectors, dtype=np.float64)
    if array.ndim != 2 or len(array) == 0:
        raise DataError("give public vectors, one row each; there are none")
    require_finite(array)
    chosen = float(np.quantile(norms(array, norm), share))
    if chosen == 0:
        raise DataError("so many public vectors are zero that the clipping norm would be 0; use a larger share")
    return chosen


def paired(first: npt.ArrayLike, second: npt.ArrayLike) -> FloatArray:
    """Return sentence pairs as one vector each, which is clipped and released as a whole."""
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if one.shape != other.shape:
        raise DataError("a pair has two vectors of one size")
    return np.concatenate([one, other], axis=-1)


def pair_features(vectors: npt.ArrayLike) -> FloatArray:
    """Return what a head needs to compare the halves of released pairs: u, v, |u - v| and u v (post-processing).

    >>> pair_features([[1.0, 3.0]]).tolist()
    [[1.0, 3.0, 2.0, 3.0]]
    """
    array = np.asarray(vectors, dtype=np.float64)
    half = array.shape[-1] // 2
    one, other = array[..., :half], array[..., half:]
    return np.concatenate([one, other, np.abs(one - other), one * other], axis=-1)


def greatest_distance(vectors: Sequence[npt.ArrayLike] | npt.NDArray[np.floating], norm: str = "l2") -> float:
    """Return the greatest distance between any two vectors: what the declared sensitivity must bound."""
    array = np.asarray(vectors, dtype=np.float64)
    return max((float(norms(array - row, norm).max()) for row in array), default=0.0)
