"""All accountants by name, the tightest sound one, and all of them side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from sfumato.accounting.base import Accountant
from sfumato.accounting.composition import Advanced, Basic, Optimal
from sfumato.accounting.events import ApproximateEvent, Event, LaplaceEvent, PureEvent, Release
from sfumato.accounting.gdp import CentralLimit, GaussianPrivacy
from sfumato.accounting.pld import LossDistribution
from sfumato.accounting.renyi import Renyi
from sfumato.accounting.zcdp import ZeroConcentrated
from sfumato.foundation.checks import require_one_of, require_probability
from sfumato.foundation.errors import MissingExtraError

_EACH: tuple[Accountant, ...] = (
    Basic(),
    Advanced(),
    Optimal(),
    ZeroConcentrated(),
    Renyi(),
    GaussianPrivacy(),
    CentralLimit(),
    LossDistribution(),
)


_TIGHT = tuple(one for one in _EACH if one.name in ("zcdp", "rdp", "gdp", "pld"))
_ANY_MECHANISM = (PureEvent, ApproximateEvent, LaplaceEvent)
"""Releases known by little more than their epsilon: for them the optimal composition theorem can win."""


class Best(Accountant):
    """The least of the sound bounds; each of them holds, so their least does."""

    name = "best"
    title = "the tightest sound accountant"
    source = "the least of several bounds that all hold"
    handles = Optimal.handles

    def _epsilon(self, event: Event, delta: float) -> float:
        return min(self._bounds(event, lambda one: one.epsilon(event, delta)), default=math.inf)

    def _delta(self, event: Event, epsilon: float) -> float:
        return min(self._bounds(event, lambda one: one.delta(event, epsilon)), default=1.0)

    def _bounds(self, event: Event, bound: Callable[[Accountant], float]) -> Iterator[float]:
        """Ask the accountants that can be the tightest; one whose optional package is missing is left out."""
        candidates = [one for one in _TIGHT if one.supports(event)]
        if not candidates or any(isinstance(release, _ANY_MECHANISM) for release, _ in event.parts):
            candidates.append(ACCOUNTANTS[Optimal.name])
        for one in candidates:
            try:
                yield bound(one)
            except MissingExtraError:
                continue


ACCOUNTANTS: dict[str, Accountant] = {accountant.name: accountant for accountant in (*_EACH, Best())}


def accountant(name: str = "best") -> Accountant:
    """Return the accountant of that name.

    >>> accountant("gdp").sound, accountant("clt").sound
    (True, False)
    """
    require_one_of(ACCOUNTANTS, accountant=name)
    return ACCOUNTANTS[name]


@dataclass(frozen=True)
class ComparisonRow:
    """What one accountant says."""

    accountant: str
    title: str
    epsilon: float | None
    """None where the accountant does not know the event or the package it needs is not installed."""
    sound: bool
    tightest: bool = False
    """Whether this is the least of the sound ones: the figure to use."""
    remark: str = ""


@dataclass(frozen=True)
class Comparison:
    """All accountants on one event, at one delta."""

    delta: float
    releases: int
    rows: tuple[ComparisonRow, ...]

    @property
    def tightest(self) -> ComparisonRow | None:
        """The least of the sound bounds; None where no sound accountant knows the event."""
        return next((row for row in self.rows if row.tightest), None)

    def to_json(self) -> dict[str, Any]:
        """Return plain data; an epsilon that is infinite or unknown is null."""
        rows = [asdict(row) for row in self.rows]
        for row in rows:
            if row["epsilon"] is not None and math.isinf(row["epsilon"]):
                row["epsilon"] = None
        return {"delta": self.delta, "releases": self.releases, "accountants": rows}


def compare(event: Event, delta: float) -> Comparison:
    """Return what every accountant says of an event.

    >>> from sfumato.accounting.events import GaussianEvent
    >>> compare(GaussianEvent(sigma=10.0) * 100, delta=1e-5).tightest.accountant
    'gdp'
    """
    require_probability(delta=delta)
    rows = [_row(one, event, delta) for one in _EACH]
    sound = [row.epsilon for row in rows if row.sound and row.epsilon is not None and math.isfinite(row.epsilon)]
    if sound:
        place = next(i for i, row in enumerate(rows) if row.sound and row.epsilon == min(sound))
        rows[place] = ComparisonRow(**{**asdict(rows[place]), "tightest": True})
    return Comparison(delta=delta, releases=event.releases, rows=tuple(rows))


def _row(one: Accountant, event: Event, delta: float) -> ComparisonRow:
    remark = one.unsound_because
    epsilon: float | None = None
    if not one.supports(event):
        remark = "does not know this kind of release"
    else:
        try:
            epsilon = one.epsilon(event, delta)
        except MissingExtraError as error:
            remark = str(error)
        else:
            if math.isinf(epsilon) and one.sound:
                remark = "no finite bound at this delta"
            elif one.ignores_sampling and any(_is_sampled(release) for release, _ in event.parts):
                remark = "counts every record as taking part in every release"
    return ComparisonRow(one.name, one.title, epsilon, one.sound, remark=remark)


def _is_sampled(release: Release) -> bool:
    return hasattr(release, "rate") or hasattr(release, "probabilities")
