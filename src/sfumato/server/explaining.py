"""What may become of a text: shown to its owner, and nothing is drawn from it.

The probabilities are those of the table.  For mechanisms without a table they are estimated from draws with a public key:
they are figures about public words, and no release of the text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sfumato.accounting.documents import document_composition
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism.base import UNKNOWN, Mechanism, TableMechanism
from sfumato.policy import Document, find_identifiers
from sfumato.policy.spans import covered
from sfumato.sanitize import Sanitizer
from sfumato.space.metric import FloatArray, IndexArray

_DRAWS = 200
_ESTIMATED_WORDS = 64
"""Draws take a thousand times as long as a look into a table; more words would keep a processor busy for minutes."""
_SHOWN_CANDIDATES = 50


@dataclass(frozen=True)
class Prospect:
    """What may come out for one word of the space."""

    word: str = field(repr=False)
    unchanged: float
    distance: float
    candidates: list[tuple[str, float, float]] = field(repr=False)
    """Word, probability and distance; the most probable first."""
    others: float


@dataclass(frozen=True)
class Explanation:
    """What may become of a text."""

    pieces: list[str] = field(repr=False)
    fates: list[str]
    places: list[int | None]
    """For each word of the text its place among the prospects."""
    prospects: list[Prospect] = field(repr=False)
    exact: bool

    @property
    def protected(self) -> int:
        """How many words are drawn."""
        return sum(fate not in ("kept", "identifier") for fate in self.fates)

    def mean(self, name: str) -> float | None:
        """Return the mean of a figure over the words that have a prospect."""
        found = [getattr(self.prospects[place], name) for place in self.places if place is not None]
        return float(np.mean(found)) if found else None


def explain(sanitizer: Sanitizer, text: str, *, top: int, most_words: int) -> Explanation:
    """Return what may become of each word; beyond ``most_words`` distinct words, the rest is not looked up."""
    exact = isinstance(sanitizer.mechanism, TableMechanism)
    most_words = most_words if exact else min(most_words, _ESTIMATED_WORDS)
    document = Document(text)
    mask = sanitizer.policy.protects(document)
    settled = np.zeros_like(mask)
    if sanitizer.identifiers is not None:
        settled = covered(document, [(found.start, found.end) for found in find_identifiers(text)])
    prospects: list[Prospect] = []
    place_of: dict[int, int] = {}
    fates: list[str] = []
    places: list[int | None] = []
    for token, protects, done in zip(document.tokens, mask.tolist(), settled.tolist(), strict=True):
        fate, place = _fate(sanitizer, token, protects, done), None
        if fate == "drawn":
            position = sanitizer.position_of(token)
            if position not in place_of and len(prospects) < most_words:
                place_of[position] = len(prospects)
                prospects.append(prospect(sanitizer.mechanism, position, min(top, _SHOWN_CANDIDATES)))
            place = place_of.get(position)
            fate = "drawn" if place is not None else "unlooked"
        fates.append(fate)
        places.append(place)
    return Explanation(document.pieces, fates, places, prospects, exact)


def _fate(sanitizer: Sanitizer, token: str, protects: bool, settled: bool) -> str:
    if settled:
        return "identifier"
    if not protects:
        return "kept"
    if sanitizer.digits is not None and token.isdecimal():
        return "number"
    position = sanitizer.position_of(token)
    inputs = getattr(sanitizer.mechanism, "inputs", None)
    outside = position == UNKNOWN or (inputs is not None and not np.isin(position, inputs))
    if outside:
        return "kept" if sanitizer.oov == "keep" and position == UNKNOWN else "unknown"
    return "drawn"


def prospect(mechanism: Mechanism, position: int, top: int) -> Prospect:
    """Return what may come out for one word of the space."""
    space = mechanism.space
    cells, chances = _distribution(mechanism, position)
    distances = space.distances(np.array([position]), cells)[0]
    count = min(top, len(cells))
    order = np.argsort(-chances, kind="stable")[:count]
    shown = [(space.words[cells[i]], float(chances[i]), float(distances[i])) for i in order.tolist() if chances[i] > 0]
    return Prospect(
        space.words[position],
        float(chances[cells == position].sum()),
        float(chances @ distances),
        shown,
        max(0.0, float(1 - chances[order].sum())),
    )


def _distribution(mechanism: Mechanism, position: int) -> tuple[IndexArray, FloatArray]:
    if isinstance(mechanism, TableMechanism):
        row = mechanism.row(mechanism.space.words[position])
        return row.cells, row.probabilities
    drawn = mechanism.sample(np.full(_DRAWS, position), RunKey.from_seed(0).record(position, "explanation"))
    cells, counts = np.unique(drawn, return_counts=True)
    return cells, counts / _DRAWS


def composition(sanitizer: Sanitizer, words: int) -> dict[str, Any] | None:
    """Return what the promise about a word comes to for a text with so many protected words."""
    found = document_composition(sanitizer.guarantee, words)
    return None if found is None else found.to_json()
