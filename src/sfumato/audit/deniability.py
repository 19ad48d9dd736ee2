"""How far a mechanism changes words: the figures by which mechanisms are compared.

For a word w (Feyisetan et al. 2020): ``N_w`` is the probability that w comes out unchanged, and ``S_w`` the least number of
words that together hold all but ``eta`` of the probability.  Tables give both exactly; mechanisms without a table are
sampled, with draws that follow from a fixed public key, since nothing private is involved.  A word shows at most as many
others as it is drawn times, so that the spread is then a lower bound.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from sfumato.foundation.checks import gather, require_count, require_probability
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism.base import Mechanism, TableMechanism
from sfumato.space import Space
from sfumato.space.metric import FloatArray, IndexArray


@dataclass(frozen=True)
class Deniability:
    """Means over some input words."""

    words: int
    unchanged: float
    """Mean N_w: the probability that a word stays as it is."""
    spread: float
    """Mean S_w: how many words share all but eta of the probability; see :attr:`spread_is_lower_bound`."""
    distance: float
    """Mean distance from a word to its replacement."""
    exact: bool
    """Whether the figures come from the table, rather than from draws."""
    draws: int | None = field(default=None, repr=False)
    """How many times each word was drawn; None where that differs, or nothing was drawn."""

    @property
    def spread_is_lower_bound(self) -> bool:
        """Whether the spread says only how many words it is at least: draws show no more words than there are draws."""
        return not self.exact

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {**asdict(self), "spread_is_lower_bound": self.spread_is_lower_bound}


def deniability(
    mechanism: Mechanism, *, words: int = 200, eta: float = 0.05, draws: int = 1000, ids: IndexArray | None = None
) -> Deniability:
    """Return the figures over ``words`` inputs chosen with a fixed seed, or over given ones.

    >>> import sfumato
    >>> line = Space.from_arrays(list("abc"), [[0.0], [1.0], [2.0]])
    >>> figures = deniability(sfumato.compile("tem", line, epsilon=1.0, tuning="published"))
    >>> round(figures.unchanged, 3), figures.spread, figures.exact
    (0.488, 3.0, True)
    """
    gather(lambda: require_count(words=words, draws=draws), lambda: require_probability(eta=eta))
    if ids is None:
        inputs = getattr(mechanism, "inputs", np.arange(len(mechanism.space)))
        chosen = min(words, len(inputs))
        ids = np.sort(np.random.default_rng(0).choice(inputs, chosen, replace=False))
    exact = isinstance(mechanism, TableMechanism)
    figures = [_of_table(mechanism, i, eta) if exact else _of_draws(mechanism, i, eta, draws) for i in ids.tolist()]
    unchanged, spread, distance = np.mean(figures, axis=0).tolist()
    return Deniability(len(ids), unchanged, spread, distance, exact, None if exact else int(draws))


FEWEST_OCCURRENCES = 30
"""A word of a text that occurs less often than this says too little of what it turns into."""


def observed_deniability(
    before: IndexArray, after: IndexArray, space: Space, *, words: int = 200, eta: float = 0.05
) -> Deniability | None:
    """Return the figures over the most frequent words of a text, from what became of each occurrence.

    ``before`` and ``after`` are places in the vocabulary, token by token.  None where no word occurs often enough.  A word
    shows at most as many replacements as it has occurrences, so the spread is a lower bound.

    >>> line = Space.from_arrays(list("abc"), [[0.0], [1.0], [2.0]])
    >>> observed_deniability(np.zeros(40, dtype=int), np.arange(40) % 2, line)
    Deniability(words=1, unchanged=0.5, spread=2.0, distance=0.5, exact=False)
    """
    gather(lambda: require_count(words=words), lambda: require_probability(eta=eta))
    known = after >= 0
    before, after = before[known], after[known]
    ids, counts = np.unique(before, return_counts=True)
    frequent = ids[np.argsort(-counts, kind="stable")][: min(words, int((counts >= FEWEST_OCCURRENCES).sum()))]
    figures = []
    for word in frequent.tolist():
        cells, times = np.unique(after[before == word], return_counts=True)
        figures.append(_figures(space, word, cells, times / times.sum(), eta))
    if not figures:
        return None
    unchanged, spread, distance = np.mean(figures, axis=0).tolist()
    return Deniability(len(figures), unchanged, spread, distance, False)


def _of_table(mechanism: Mechanism, word: int, eta: float) -> tuple[float, float, float]:
    assert isinstance(mechanism, TableMechanism)
    row = mechanism.row(mechanism.space.words[word])
    return _figures(mechanism.space, word, row.cells, row.probabilities, eta)


def _of_draws(mechanism: Mechanism, word: int, eta: float, draws: int) -> tuple[float, float, float]:
    drawn = mechanism.sample(np.full(draws, word), RunKey.from_seed(0).record(word, "comparison"))
    cells, counts = np.unique(drawn, return_counts=True)
    return _figures(mechanism.space, word, cells, counts / draws, eta)


def _figures(space: Space, word: int, cells: IndexArray, chances: FloatArray, eta: float) -> tuple[float, float, float]:
    distances = space.distances(np.array([word]), cells)[0]
    from_most_likely = np.cumsum(np.sort(chances)[::-1])
    spread = int(np.searchsorted(from_most_likely, 1 - eta)) + 1
    return float(chances[cells == word].sum()), float(min(spread, len(cells))), float(chances @ distances)
