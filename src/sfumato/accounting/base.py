"""What an accountant is: a pure function from events to a guarantee."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

from sfumato.accounting.events import Event, Release
from sfumato.accounting.rounding import up
from sfumato.accounting.search import least
from sfumato.foundation.checks import gather, require_non_negative, require_probability
from sfumato.foundation.errors import ParameterError
from sfumato.foundation.guarantee import ApproximateGuarantee, Unit

_SMALLEST_LOG_DELTA = math.log(1e-300)


class Accountant(ABC):
    """Adds up events.  Accountants have no state: the same events always give the same guarantee."""

    name: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    """Where the theorem is."""
    sound: ClassVar[bool] = True
    unsound_because: ClassVar[str] = ""
    handles: ClassVar[tuple[type[Release], ...]]
    """The kinds of release it knows."""
    ignores_sampling: ClassVar[bool] = False
    """It counts a sampled release as if every record took part: a valid bound, but a loose one."""

    @abstractmethod
    def _epsilon(self, event: Event, delta: float) -> float:
        """Return epsilon for checked arguments; inf where this accountant has no finite bound."""

    def supports(self, event: Event) -> bool:
        """Return whether this accountant knows all kinds of release in the event."""
        return all(isinstance(release, self.handles) for release, _ in event.parts)

    def epsilon(self, event: Event, delta: float) -> float:
        """Return an epsilon such that the event is (epsilon, delta)-private; inf where there is no finite bound."""
        require_probability(delta=delta)
        self._require_support(event)
        return up(max(self._epsilon(event, delta), 0.0))

    def delta(self, event: Event, epsilon: float) -> float:
        """Return a delta such that the event is (epsilon, delta)-private; 1 where there is no better bound."""
        require_non_negative(epsilon=epsilon)
        self._require_support(event)
        return min(up(self._delta(event, epsilon)), 1.0)

    def guarantee(
        self, event: Event, delta: float, *, unit: Unit, neighbours: str, mechanism: str = "composition"
    ) -> ApproximateGuarantee:
        """Return the guarantee of an event at ``delta``; what is protected is for the caller to say."""
        return ApproximateGuarantee(
            mechanism=mechanism,
            unit=unit,
            neighbours=neighbours,
            releases=event.releases,
            epsilon=self.epsilon(event, delta),
            delta=delta,
            arithmetic="float64",
            sound=self.sound,
            unsound_because=self.unsound_because,
            notes=(f"Added up over {event.releases} releases by {self.title}",),
        )

    def _delta(self, event: Event, epsilon: float) -> float:
        """Search the least delta whose epsilon is small enough; overridden where there is a formula."""

        def private(log_delta: float) -> bool:
            return self._epsilon(event, math.exp(log_delta)) <= epsilon

        if private(_SMALLEST_LOG_DELTA):
            return math.exp(_SMALLEST_LOG_DELTA)
        # The logarithm is negative, so that "least" looks for the least -log at which the bound stops holding.
        return math.exp(least(private, _SMALLEST_LOG_DELTA, 0.0, tolerance=1e-12))

    def _require_support(self, event: Event) -> None:
        unknown = sorted({type(r).__name__ for r, _ in event.parts if not isinstance(r, self.handles)})
        if unknown:
            raise ParameterError(
                f"the {self.name} accountant does not know {', '.join(unknown)}; it knows "
                f"{', '.join(sorted(kind.__name__ for kind in self.handles))}; 'best' picks one that fits"
            )


def checked_pair(epsilon: float, delta: float) -> None:
    """Raise where (epsilon, delta) is not a guarantee to aim for."""
    gather(lambda: require_non_negative(epsilon=epsilon), lambda: require_probability(delta=delta))
