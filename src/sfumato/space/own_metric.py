"""A user's own distance: a function of two arrays of vectors, checked for the axioms of a metric on samples."""

from __future__ import annotations

import contextlib
import secrets
import threading
import weakref
from dataclasses import dataclass

import numpy as np

from sfumato.foundation.errors import SpaceError
from sfumato.space.metric import BlockFunction, DistanceFunction, FloatArray, Profile, Rows

_HALF_ULP = 2.0**-53
_lock = threading.Lock()
_tokens: dict[int, tuple[weakref.ref[DistanceFunction], str]] = {}
"""By a function's identity, since an object may say of itself that it equals another one."""


def token_of(function: DistanceFunction) -> str:
    """Return what stands for a user's function in digests: no two functions have the same, in any two processes.

    Name and code do not tell what a function computes, so the token is random.  It stays for as long as this very
    object is there.

    >>> def one(a, b): ...
    >>> def other(a, b): ...
    >>> token_of(one) == token_of(one), token_of(one) == token_of(other)
    (True, False)
    """
    number = id(function)

    def forget(gone: weakref.ref[DistanceFunction]) -> None:
        if number in _tokens and _tokens[number][0] is gone:
            del _tokens[number]

    with _lock:
        known = _tokens.get(number)
        if known is not None and known[0]() is function:
            return known[1]
        token = secrets.token_hex(16)
        # Of some objects it is not told when they go, and others may come to lie in their place: a new token every time.
        with contextlib.suppress(TypeError):
            _tokens[number] = (weakref.ref(function, forget), token)
        return token


@dataclass(frozen=True, eq=False)
class OwnFunction:
    """Distances by a user's function of two arrays of vectors."""

    name: str
    points: FloatArray
    function: DistanceFunction

    def __len__(self) -> int:
        return len(self.points)

    def block(self, rows: Rows, columns: Rows) -> FloatArray:
        """Return the user's distances."""
        a, b = self.points[rows], self.points[columns]
        distances = np.array(self.function(a, b), dtype=np.float64)
        if distances.shape != (len(a), len(b)):
            raise SpaceError(
                f"the metric function returned an array of shape {distances.shape} for {len(a)} x {len(b)} points; "
                "it must return one distance for each pair"
            )
        if not np.isfinite(distances).all() or (distances < 0).any():
            raise SpaceError("the metric function returned a distance that is negative or not finite")
        return distances

    def prepare(self, profile: Profile) -> BlockFunction:
        """Return a function that computes ``profile(distance)`` in blocks."""
        return lambda rows, columns: profile(self.block(rows, columns))

    def error(self, distance: float) -> float:
        """Return a small relative error: what the function returns is taken to be the metric."""
        return 8 * _HALF_ULP * distance


def check_axioms(name: str, function: DistanceFunction, points: FloatArray, sample: int = 200) -> bool:
    """Check a user's function on sampled points for zero self-distance, symmetry and the triangle inequality.

    Returns whether every triple was checked (few points) and not only a sample.
    """
    count = len(points)
    chosen = (
        np.arange(count) if count <= sample else np.sort(np.random.default_rng(0).choice(count, sample, replace=False))
    )
    distances = OwnFunction(name, points[chosen], function).block(slice(None), slice(None))
    slack = 1e-9 * max(float(distances.max(initial=0.0)), 1e-300)
    problem = None
    if (np.abs(np.diag(distances)) > slack).any():
        problem = "the distance of a vector to itself is not 0"
    elif (np.abs(distances - distances.T) > slack).any():
        problem = "it is not symmetric"
    else:
        for middle in range(len(chosen)):
            if (distances > distances[:, middle][:, None] + distances[middle][None, :] + slack).any():
                problem = "the triangle inequality fails"
                break
    if problem:
        raise SpaceError(f"the metric function is not a metric: {problem} (checked on {len(chosen)} words)")
    return count <= sample
