"""Training without a promise, to compare with: as it is, or on sentences whose entities were masked.

>>> PlainPlan(slots=100, rate=0.1, steps=20).guarantee().statement()
'There is no privacy guarantee. The model was trained on the sentences as they are.'
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from sfumato.foundation.checks import gather, require_count, require_positive, require_share
from sfumato.foundation.guarantee import Guarantee, NoGuarantee, Unit


@dataclass(frozen=True, kw_only=True)
class PlainPlan:
    """Steps over randomly chosen sentences, without clipping and noise."""

    slots: int
    rate: float
    steps: int
    masked: bool = False
    """De-identification: every token of an entity was replaced by a mask before training."""

    def __post_init__(self) -> None:
        """Check all fields at once."""
        gather(
            lambda: require_count(slots=self.slots, steps=self.steps),
            lambda: require_share(rate=self.rate),
            lambda: require_positive(rate=self.rate),
        )

    @property
    def method(self) -> str:
        """The name of the method."""
        return "masked" if self.masked else "none"

    @property
    def denominator(self) -> float:
        """The expected number of sentences in a step."""
        return self.rate * self.slots

    @property
    def deviation(self) -> float:
        """There is no noise."""
        return 0.0

    def epsilon(self, steps: int | None = None) -> float:
        """Return infinity: nothing is promised; 0 before the first step."""
        return 0.0 if steps == 0 else math.inf

    def within(self, epsilon: float) -> PlainPlan:
        """Return this plan: no budget can bound it."""
        return self

    def guarantee(self, steps: int | None = None) -> Guarantee:
        """Return that nothing is promised, and why."""
        why = (
            "Entities that were found were masked; what was overlooked, and everything else in the sentences, is not "
            "protected"
            if self.masked
            else "The model was trained on the sentences as they are"
        )
        return NoGuarantee(mechanism=self.method, unit=Unit.RECORD, neighbours="none", notes=(why,))

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"method": self.method, **dataclasses.asdict(self)}
