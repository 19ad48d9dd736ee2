"""Private sentences as a table of slots, with who wrote them and what they mention by number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.foundation.errors import ParameterError
from sfumato.training.neural.batch import Batch
from sfumato.training.plan import PublishedPlan, TrainingPlan, UserPlan
from sfumato.training.plans import AnyPlan
from sfumato.training.sentences import Sentence


@dataclass(frozen=True, repr=False)
class TrainingData:
    """One row for each slot."""

    batch: Batch
    users: npt.NDArray[np.intp]
    """The number of each slot's user, from 0 without gaps."""
    entities: tuple[tuple[int, ...], ...]
    """The numbers of each slot's entities; without a known one, it is an entity of its own."""

    def __len__(self) -> int:
        return len(self.batch)

    def __repr__(self) -> str:
        return f"TrainingData({len(self)} slots, {self.user_count} users, {self.entity_count} entities)"

    @classmethod
    def of(cls, sentences: Sequence[Sentence], batch: Batch) -> TrainingData:
        """Return the data of sentences that were encoded as ``batch``."""
        if len(batch) != len(sentences):
            raise ParameterError(f"the batch has {len(batch)} rows for {len(sentences)} sentences")
        users: dict[str, int] = {}
        entities: dict[str, int] = {}
        user_of = [users.setdefault(sentence.user, len(users)) for sentence in sentences]
        entities_of = tuple(
            tuple(sorted(entities.setdefault(name, len(entities)) for name in sorted(sentence.entities)))
            for sentence in sentences
        )
        return cls(batch, np.array(user_of, dtype=np.intp), entities_of)

    @property
    def user_count(self) -> int:
        """How many users there are."""
        return int(self.users.max()) + 1 if len(self.users) else 0

    @property
    def entity_count(self) -> int:
        """How many known entities there are."""
        return 1 + max((number for one in self.entities for number in one), default=-1)

    def slots_of(self, user: int) -> npt.NDArray[np.intp]:
        """Return the slots of a user."""
        return np.flatnonzero(self.users == user)

    def emptied(self, user: int | None = None, entity: int | None = None) -> TrainingData:
        """Return the neighbour in which the sentences of a user and those that mention an entity have no words."""
        gone = [
            place
            for place in range(len(self))
            if self.users[place] == user or (entity is not None and entity in self.entities[place])
        ]
        ids = self.batch.ids.clone()
        ids[gone] = self.batch.pad
        return TrainingData(Batch(ids, self.batch.labels, self.batch.pad), self.users, self.entities)

    def require_fits(self, plan: AnyPlan, *, part: bool = False) -> None:
        """Raise where these data are not what a plan's guarantee speaks of; ``part``: they are a client's share."""
        problems = []
        wanted, found, what = _size(self, plan)
        if (found > wanted) if part else (found != wanted):
            problems.append(f"the plan is for {wanted} {what}, the data have {found}")
        if isinstance(plan, TrainingPlan):
            most_user = int(np.bincount(self.users).max()) if len(self) else 0
            counts = Counter(number for one in self.entities for number in one)
            most_entity = max(counts.values(), default=0)
            if most_user > plan.per_user:
                problems.append(f"a user has {most_user} sentences, the plan allows {plan.per_user}")
            if most_entity > plan.per_entity:
                problems.append(f"an entity is in {most_entity} sentences, the plan allows {plan.per_entity}")
        if problems:
            raise ParameterError("; ".join(problems) + "; use limit_incidence and make the plan for what it keeps")


def _size(data: TrainingData, plan: AnyPlan) -> tuple[int, int, str]:
    if isinstance(plan, (UserPlan, PublishedPlan)):
        return plan.users, data.user_count, "users"
    slots: int = plan.slots  # type: ignore[union-attr]
    return slots, len(data), "slots"
