"""Limits on how many sentences a user and an entity may have in training.

Which slot belongs to which user and mentions which entities (by number, without the words) is taken as public: the
privacy model with a fixed graph (Ganesh et al., *It's My Data Too*, 2025).  The rule below looks at nothing else, so
it makes the same choice whatever the words are, and emptying the sentences of a user and an entity leaves every other
choice as it was.  (Were the choice made anew without them, sentences of others could move up into the places that
became free, and one user could change the training set by far more than its own sentences.)

>>> limited = limit_incidence(
...     [Sentence("u1", ("a",)), Sentence("u1", ("b",)), Sentence("u2", ("c",), frozenset({"x"}))], per_user=1, per_entity=1
... )
>>> len(limited.kept), limited.report.dropped_for_user
(2, 1)
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sfumato.foundation.checks import require_count
from sfumato.training.sentences import Sentence


@dataclass(frozen=True)
class LimitReport:
    """What was dropped; for the owner of the data.  Counts only."""

    sentences: int
    kept: int
    dropped_for_user: int
    """Sentences left out because their user had enough."""
    dropped_for_entity: int
    """Sentences left out because one of their entities had enough (and their user had not)."""
    users: int
    entities: int
    without_entity: int
    """Sentences without a known entity: each is an entity of its own."""
    per_user: int
    per_entity: int
    most_of_a_user: int
    """The largest number of kept sentences of one user; never above ``per_user``."""
    most_of_an_entity: int

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Limited:
    """The sentences that may be trained on, by their places in the list that was given."""

    kept: tuple[int, ...]
    report: LimitReport

    def of(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """Return the kept sentences."""
        return [sentences[place] for place in self.kept]


def limit_incidence(sentences: Sequence[Sentence], *, per_user: int, per_entity: int, order: str = "") -> Limited:
    """Choose sentences so that no user has more than ``per_user`` and no entity more than ``per_entity``.

    The sentences are gone through in an order that follows from their numbers and the public text ``order`` alone; one
    is kept if its user and all its entities still have room.
    """
    require_count(per_user=per_user, per_entity=per_entity)
    of_user: Counter[str] = Counter()
    of_entity: Counter[str] = Counter()
    kept: list[int] = []
    full_user = full_entity = 0
    for place in walk(len(sentences), order):
        sentence = sentences[place]
        if of_user[sentence.user] >= per_user:
            full_user += 1
        elif any(of_entity[entity] >= per_entity for entity in sentence.entities):
            full_entity += 1
        else:
            of_user[sentence.user] += 1
            of_entity.update(sentence.entities)
            kept.append(place)
    report = LimitReport(
        sentences=len(sentences),
        kept=len(kept),
        dropped_for_user=full_user,
        dropped_for_entity=full_entity,
        users=len({sentence.user for sentence in sentences}),
        entities=len({entity for sentence in sentences for entity in sentence.entities}),
        without_entity=sum(not sentence.entities for sentence in sentences),
        per_user=per_user,
        per_entity=per_entity,
        most_of_a_user=max(of_user.values(), default=0),
        most_of_an_entity=max(of_entity.values(), default=0),
    )
    return Limited(tuple(sorted(kept)), report)


def walk(count: int, order: str = "") -> list[int]:
    """Return the numbers below ``count`` in an order that follows from ``order`` alone.

    >>> sorted(walk(5)), walk(5) == walk(5, "another")
    ([0, 1, 2, 3, 4], False)
    """
    return sorted(range(count), key=lambda number: hashlib.sha256(f"{order}\0{number}".encode()).digest())
