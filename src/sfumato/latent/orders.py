"""Which sentences or queries are sent, and in which order: what amplification and up-sampling assume of an owner."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sfumato.foundation.checks import gather, require_count
from sfumato.foundation.errors import ParameterError


def secret_sample(
    records: int,
    batch: int,
    labels: npt.ArrayLike | None = None,
    below: Callable[[int], int] = secrets.randbelow,
) -> list[int]:
    """Return which sentences take part in a round, in a random order: what ``secretly_sampled`` assumes.

    With ``labels`` every label gives ``batch / records`` of its own sentences, rounded down: how many there are of each is
    then fixed, a sentence hides among those of its label, and none takes part more often than the promise counts on.

    >>> sum(place < 4 for place in secret_sample(6, 3, labels=[0, 0, 0, 0, 1, 1]))
    2
    >>> len(secret_sample(6, 3)), secret_sample(3, 1, labels=[0, 0, 1])
    (3, [])
    """
    gather(lambda: require_count(records=records, batch=batch))
    if batch > records:
        raise ParameterError(f"a batch of {batch} cannot be taken from {records} records")
    given = np.zeros(records, dtype=np.int64) if labels is None else np.asarray(labels)
    if given.shape != (records,):
        raise ParameterError(f"there are {records} records and labels of shape {given.shape}; give one for each")
    chosen: list[int] = []
    for label in np.unique(given):
        places = np.flatnonzero(given == label)
        order = _permutation(len(places), below)
        chosen += places[order[: len(places) * batch // records]].tolist()
    return [chosen[place] for place in _permutation(len(chosen), below)]


def mixed_order(queries: int, fictitious: int, below: Callable[[int], int] = secrets.randbelow) -> list[int]:
    """Return the sound order: a uniformly random permutation, every query once.

    >>> sorted(mixed_order(2, 3))
    [0, 1, 2, 3, 4]
    """
    gather(lambda: require_count(queries=queries), lambda: require_count(fictitious=fictitious + 1))
    return _permutation(queries + fictitious, below)


def published_order(queries: int, fictitious: int, below: Callable[[int], int] = secrets.randbelow) -> list[int]:
    """Return the published order of sending: draw from all queries until every true one has come up.

    Numbers below ``queries`` are true queries.  A true query is sent about as often as the harmonic number of ``queries``
    (each time with fresh noise), so this up-sampling makes privacy worse; the tests measure it.
    """
    gather(lambda: require_count(queries=queries), lambda: require_count(fictitious=fictitious + 1))
    missing = set(range(queries))
    order = []
    while missing:
        drawn = below(queries + fictitious)
        order.append(drawn)
        missing.discard(drawn)
    return order


def _permutation(count: int, below: Callable[[int], int]) -> list[int]:
    """Return the numbers up to ``count`` in a uniformly random order (Fisher and Yates)."""
    order = list(range(count))
    for last in range(count - 1, 0, -1):
        other = below(last + 1)
        order[last], order[other] = order[other], order[last]
    return order
