"""How frequent words are, from public sources: what an attacker knows before seeing anything.

The prior of an attack must not be counted from the text that is attacked: an attacker does not have it, and the figure
would itself be a release.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version

import numpy as np
import numpy.typing as npt

from sfumato.foundation.errors import MissingExtraError, ParameterError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Prior:
    """The chance of every word before anything is seen, and where it was taken from."""

    chances: Floats = field(repr=False)
    source: str
    """In plain words, for reports and guarantees."""


def uniform_prior(words: Sequence[str]) -> Prior:
    """Return the prior of an attacker who knows the vocabulary only.

    >>> uniform_prior(["a", "b"]).chances.tolist()
    [0.5, 0.5]
    """
    if not words:
        raise ParameterError("a prior needs at least one word")
    return Prior(np.full(len(words), 1.0 / len(words)), f"every one of the {len(words)} words equally likely")


def frequency_prior(words: Sequence[str], language: str = "en") -> Prior:
    """Return word frequencies of a language from the library ``wordfreq`` (extra ``experiments``).

    A word that the library does not know is given the least frequency that it knows of the others, so that no word is
    thought impossible.
    """
    try:
        library = importlib.import_module("wordfreq")
    except ImportError as error:
        raise MissingExtraError("wordfreq", "experiments") from error
    if not words:
        raise ParameterError("a prior needs at least one word")
    if language not in library.available_languages():
        raise ParameterError(
            "there are no word frequencies for that language; give one that wordfreq lists, such as en"
        )
    known = library.get_frequency_dict(language)
    found = np.array([known.get(word, 0.0) for word in words])
    if not (found > 0).any():
        raise ParameterError("none of the words has a known frequency; give another language, or use a uniform prior")
    missing = int((found == 0).sum())
    found[found == 0] = found[found > 0].min()
    source = (
        f"word frequencies of wordfreq {version('wordfreq')} ({language}) over the {len(words)} protected words of the "
        f"vocabulary; {missing} unknown ones have the least of them"
    )
    return Prior(found / found.sum(), source)
