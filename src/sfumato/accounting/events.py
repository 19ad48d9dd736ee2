"""What happened, in the terms an accountant needs: events are the language between mechanisms and accountants.

A mechanism says which events a run consists of; an accountant turns events into a guarantee.  Events add and repeat,
and every sum has one canonical form in which equal events are counted, so that an accountant cannot treat a thousand
equal releases otherwise than one release a thousand times.

>>> step = SampledGaussianEvent(sigma=1.0, rate=0.01)
>>> epoch = step * 100
>>> epoch + epoch == step * 200 == compose([step] * 200)
True
>>> (LaplaceEvent(scale=2.0) + epoch).releases
101
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from sfumato.foundation.checks import (
    gather,
    require_count,
    require_non_negative,
    require_positive,
    require_probability,
    require_share,
)
from sfumato.foundation.errors import ParameterError


class Event(ABC):
    """One release or several."""

    @property
    @abstractmethod
    def parts(self) -> tuple[tuple[Release, int], ...]:
        """The different releases and how often each of them happened."""

    @property
    def releases(self) -> int:
        """How many releases there were."""
        return sum(times for _, times in self.parts)

    def __add__(self, other: Event) -> Event:
        """Return both, one after the other (the second may depend on what the first gave)."""
        if not isinstance(other, Event):
            return NotImplemented
        return compose([self, other])

    def __mul__(self, times: int) -> Event:
        """Return this event repeated."""
        require_count(times=times)
        return _counted((release, count * int(times)) for release, count in self.parts)

    __rmul__ = __mul__


@dataclass(frozen=True)
class Release(Event):
    """A single release."""

    @property
    def parts(self) -> tuple[tuple[Release, int], ...]:
        """This release, once."""
        return ((self, 1),)


@dataclass(frozen=True)
class Composed(Event):
    """Several releases; made by :func:`compose`, ``+`` and ``*``."""

    counted: tuple[tuple[Release, int], ...]

    @property
    def parts(self) -> tuple[tuple[Release, int], ...]:
        """The different releases and how often each of them happened."""
        return self.counted


def compose(events: Iterable[Event]) -> Event:
    """Return all events as one.

    >>> compose([PureEvent(1.0), PureEvent(2.0), PureEvent(1.0)])
    Composed(counted=((PureEvent(epsilon=1.0), 2), (PureEvent(epsilon=2.0), 1)))
    """
    return _counted(part for event in events for part in event.parts)


def _counted(parts: Iterable[tuple[Release, int]]) -> Event:
    counts: dict[Release, int] = {}
    for release, times in parts:
        counts[release] = counts.get(release, 0) + times
    if not counts:
        raise ParameterError("there is nothing to compose: give at least one event")
    if len(counts) == 1:
        release, times = next(iter(counts.items()))
        if times == 1:
            return release
    return Composed(tuple(sorted(counts.items(), key=lambda part: repr(part[0]))))


@dataclass(frozen=True)
class GaussianEvent(Release):
    """Gaussian noise on a vector; ``sigma`` is its standard deviation over the l2 sensitivity."""

    sigma: float

    def __post_init__(self) -> None:
        require_positive(sigma=self.sigma)


@dataclass(frozen=True)
class SampledGaussianEvent(Release):
    """Gaussian noise on a sum over records, each of which takes part with probability ``rate`` by its own secret coin.

    Neighbours: one record more or fewer, or emptied in its place.  ``sigma`` is the noise over the norm a record is
    clipped to.  The coins must stay secret and be independent of each other: a shuffled pass over the data is not
    this event.
    """

    sigma: float
    rate: float

    def __post_init__(self) -> None:
        gather(lambda: require_positive(sigma=self.sigma, rate=self.rate), lambda: require_share(rate=self.rate))


@dataclass(frozen=True)
class MixtureOfGaussiansEvent(Release):
    """Gaussian noise of standard deviation ``sigma`` on a sum that shifts by a random, secret amount.

    The shift has norm ``sensitivities[i]`` with probability ``probabilities[i]``: the event of one unit that owns
    several records, each of which is sampled by a coin of its own (Choquette-Choo et al. 2024, corollary 4.7).

    >>> MixtureOfGaussiansEvent.of_sampled_group(sigma=8.0, size=2, rate=0.5).probabilities
    (0.25, 0.5, 0.25)
    """

    sigma: float
    sensitivities: tuple[float, ...]
    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "sensitivities", tuple(float(value) for value in self.sensitivities))
        object.__setattr__(self, "probabilities", tuple(float(value) for value in self.probabilities))
        require_positive(sigma=self.sigma)
        if len(self.sensitivities) != len(self.probabilities) or not self.sensitivities:
            raise ParameterError("a mixture needs as many probabilities as sensitivities, and at least one")
        require_non_negative(
            **{f"sensitivities[{i}]": value for i, value in enumerate(self.sensitivities)},
            **{f"probabilities[{i}]": value for i, value in enumerate(self.probabilities)},
        )
        total = math.fsum(self.probabilities)
        if abs(total - 1) > 1e-9:
            raise ParameterError(f"the probabilities of a mixture add up to 1, these to {total!r}")

    @classmethod
    def of_sampled_group(cls, sigma: float, size: int, rate: float) -> MixtureOfGaussiansEvent:
        """Return the event of a unit with ``size`` records of norm 1, each taking part with probability ``rate``."""
        gather(lambda: require_count(size=size), lambda: require_share(rate=rate))
        return cls(sigma, tuple(range(size + 1)), _binomial(size, rate))

    @property
    def greatest_shift(self) -> float:
        """The largest sensitivity that has a chance."""
        return max((c for c, p in zip(self.sensitivities, self.probabilities, strict=True) if p > 0), default=0.0)


def _binomial(size: int, rate: float) -> tuple[float, ...]:
    """Return the chances of 0 ... ``size`` heads, each from its neighbour on the side of the most likely one.

    >>> _binomial(3, 0.5), len(_binomial(5000, 0.01))
    ((0.125, 0.375, 0.375, 0.125), 5001)
    """
    top = min(int((size + 1) * rate), size)
    weights = [0.0] * (size + 1)
    weights[top] = 1.0
    for k in range(top, size):
        weights[k + 1] = weights[k] * (size - k) / (k + 1) * (rate / (1 - rate))
    for k in range(top, 0, -1):
        weights[k - 1] = weights[k] * k / (size - k + 1) * ((1 - rate) / rate)
    total = math.fsum(weights)
    return tuple(weight / total for weight in weights)


@dataclass(frozen=True)
class LaplaceEvent(Release):
    """Laplace noise; ``scale`` is its scale over the l1 sensitivity."""

    scale: float

    def __post_init__(self) -> None:
        require_positive(scale=self.scale)


@dataclass(frozen=True)
class PureEvent(Release):
    """Any release that is epsilon-differentially private."""

    epsilon: float

    def __post_init__(self) -> None:
        require_non_negative(epsilon=self.epsilon)


@dataclass(frozen=True)
class BoundedRangeEvent(Release):
    """A release whose log-ratios, over all outputs, lie in an interval of length ``eta`` (which must contain 0).

    The exponential family P(y|x) ~ exp(-rate d(x, y)) has eta = 2 rate d(x, x'): the normalising constants shift all
    log-ratios alike (Durfee and Rogers 2019).  It follows that the release is eta-private, and eta^2/8-concentrated
    (Cesar and Rogers 2021), a quarter of what eta-privacy alone gives.

    >>> BoundedRangeEvent.of_exponential_family(rate=1.5, distance=2.0).eta
    6.0
    """

    eta: float

    def __post_init__(self) -> None:
        require_non_negative(eta=self.eta)

    @classmethod
    def of_exponential_family(cls, rate: float, distance: float) -> BoundedRangeEvent:
        """Return the event of a word drawn with probability ~ exp(-rate d), for two words ``distance`` apart."""
        require_non_negative(rate=rate, distance=distance)
        return cls(2 * rate * distance)


@dataclass(frozen=True)
class ApproximateEvent(Release):
    """Any release that is (epsilon, delta)-differentially private."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        gather(
            lambda: require_non_negative(epsilon=self.epsilon),
            lambda: require_probability(delta=self.delta),
        )


@dataclass(frozen=True)
class ConcentratedEvent(Release):
    """Any release that is rho-zero-concentrated differentially private."""

    rho: float

    def __post_init__(self) -> None:
        require_non_negative(rho=self.rho)
