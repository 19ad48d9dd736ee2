"""Canaries: a made-up secret is put into the training text, and the trained model is asked how likely it thinks it.

Exposure (Carlini et al. 2019) of a secret among N equally likely ones is ``log2 N - log2 rank``, where the rank is one
more than the number of secrets that the model thinks more likely.  Here it is exact: the chance of each of the 10**n
digit strings is the product of the chances of its digits, and strings with a common beginning share its evaluation, so
a model is asked about 111,111 prefixes for six digits and not about a million strings.

A model that never saw the secret gives it a uniformly random rank, and exposure a mean of ``1 / ln 2 = 1.4427`` bits, not
0 (:func:`mean_without_leak` is the exact mean for N secrets).  Ties are told: a model that thinks all secrets equally
likely gives every one rank 1 by the definition, so the worst rank among equals is reported, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.foundation.checks import gather, require_count, require_non_negative
from sfumato.foundation.errors import ParameterError

Floats = npt.NDArray[np.float64]
NextDigits = Callable[[list[str]], npt.ArrayLike]
"""For each prefix of digits, the logarithms of the chances of the ten next digits."""

_AT_ONCE = 10_000
LONGEST = 7
"""A table of 10**7 numbers is what is kept in memory."""


@dataclass(frozen=True)
class Exposure:
    """How far a model betrays a secret."""

    candidates: int
    rank: int
    """One more than the number of secrets that are thought more likely."""
    worst_rank: int
    """The rank where all that are thought equally likely come first."""
    mean_without_leak: float

    @property
    def exposure(self) -> float:
        """Bits by which a guesser's work is reduced, by the rank as it is defined."""
        return math.log2(self.candidates) - math.log2(self.rank)

    @property
    def least_exposure(self) -> float:
        """The same by the worst rank among equals."""
        return math.log2(self.candidates) - math.log2(self.worst_rank)


def mean_without_leak(candidates: int) -> float:
    """Return the mean exposure of a secret whose rank is uniformly random.

    >>> round(mean_without_leak(10**6), 4), round(mean_without_leak(10), 4)
    (1.4427, 1.1428)
    """
    from scipy.special import gammaln

    require_count(candidates=candidates)
    return float(math.log2(candidates) - gammaln(candidates + 1) / math.log(2) / candidates)


def all_strings(next_digits: NextDigits, digits: int) -> Floats:
    """Return the logarithm of the chance of every string of so many digits, in the order of the numbers they write.

    >>> fair = lambda prefixes: np.full((len(prefixes), 10), -np.log(10))
    >>> len(all_strings(fair, 3)), round(float(np.exp(all_strings(fair, 3)).sum()), 9)
    (1000, 1.0)
    """
    require_count(digits=digits)
    if digits > LONGEST:
        raise ParameterError(f"exact exposure keeps a number for every string: give at most {LONGEST} digits")
    total = np.zeros(1)
    for length in range(digits):
        prefixes = [f"{number:0{length}d}" if length else "" for number in range(10**length)]
        parts = []
        for start in range(0, len(prefixes), _AT_ONCE):
            part = prefixes[start : start + _AT_ONCE]
            found = np.asarray(next_digits(part), dtype=np.float64)
            if found.shape != (len(part), 10) or np.isnan(found).any():
                raise ParameterError(
                    "a model gives ten logarithms of chances for each prefix, and none that is not a number"
                )
            parts.append(found)
        total = (total[:, None] + np.concatenate(parts)).ravel()
    return total


def exposure(chances: npt.ArrayLike, secret: str) -> Exposure:
    """Return how far a secret stands out among the chances of all strings of its length.

    >>> found = exposure(np.log([0.05, 0.05, 0.4, 0.05, 0.05, 0.2, 0.05, 0.05, 0.05, 0.05]), "5")
    >>> found.rank, found.worst_rank, round(found.exposure, 3)
    (2, 2, 2.322)
    """
    table = np.asarray(chances, dtype=np.float64)
    if not (secret.isascii() and secret.isdecimal()) or len(table) != 10 ** len(secret):
        raise ParameterError(f"a secret of n digits needs the chances of all 10**n strings, and there are {len(table)}")
    own = table[int(secret)]
    return Exposure(len(table), 1 + int((table > own).sum()), int((table >= own).sum()), mean_without_leak(len(table)))


def insert(texts: Sequence[str], canary: str, copies: int, seed: int) -> list[str]:
    """Return the texts with so many copies of a canary as texts of their own, at places that follow from a seed.

    >>> insert(["a", "b"], "My ID is 1.", 1, seed=0)
    ['a', 'b', 'My ID is 1.']
    """
    gather(lambda: require_non_negative(copies=copies, seed=seed))
    rng = np.random.default_rng([17, seed])
    found = list(texts)
    for _ in range(copies):
        found.insert(int(rng.integers(0, len(found) + 1)), canary)
    return found
