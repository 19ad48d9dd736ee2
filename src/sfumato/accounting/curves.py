"""Figures as data: epsilon against steps, noise against epsilon, one line for each accountant."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sfumato.accounting.accountants import ACCOUNTANTS
from sfumato.accounting.base import Accountant
from sfumato.accounting.events import Event
from sfumato.foundation.checks import require_probability
from sfumato.foundation.errors import MissingExtraError

_DRAWN = ("basic", "advanced", "optimal", "zcdp", "rdp", "gdp", "clt", "pld")


@dataclass(frozen=True)
class Line:
    """One accountant's line."""

    name: str
    sound: bool
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class Figure:
    """Lines with their axes; rendering lives elsewhere."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain data; :meth:`from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Figure:
        """Read back what :meth:`to_json` wrote.

        >>> figure = Figure("t", "x", "y", (Line("pld", True, (1.0,), (2.0,)),))
        >>> Figure.from_json(figure.to_json()) == figure
        True
        """
        lines = tuple(Line(line["name"], line["sound"], tuple(line["x"]), tuple(line["y"])) for line in data["lines"])
        return cls(data["title"], data["x_label"], data["y_label"], lines)


def epsilon_against_steps(event: Event, steps: Sequence[int], delta: float) -> Figure:
    """Return epsilon after each number of steps, by every accountant that knows the event.

    >>> from sfumato.accounting.events import GaussianEvent
    >>> figure = epsilon_against_steps(GaussianEvent(sigma=10.0), [1, 4], delta=1e-5)
    >>> "gdp" in [line.name for line in figure.lines]
    True
    """
    require_probability(delta=delta)
    lines = []
    for one in _known(event):
        points = _points(steps, lambda count, one=one: one.epsilon(event * int(count), delta))  # type: ignore[misc]
        lines.append(_line(one, points))
    return Figure(f"Privacy loss at delta {delta:g}", "steps", "epsilon", _without_empty(lines))


def noise_against_epsilon(make_event: Callable[[float], Event], noise: Sequence[float], delta: float) -> Figure:
    """Return the noise each accountant asks for, as a function of epsilon.

    The curve is traced from the noise to the epsilon and drawn with its axes exchanged, which needs no calibration.
    """
    require_probability(delta=delta)
    lines = []
    for one in _known(make_event(float(noise[0]))):
        points = _points(noise, lambda sigma, one=one: one.epsilon(make_event(sigma), delta))  # type: ignore[misc]
        lines.append(_line(one, [(epsilon, sigma) for sigma, epsilon in reversed(points)]))
    return Figure(f"Noise needed at delta {delta:g}", "epsilon", "noise multiplier", _without_empty(lines))


def spread(low: float, high: float, count: int) -> list[float]:
    """Return numbers in equal ratios from ``low`` to ``high``.

    >>> [round(x, 9) for x in spread(1.0, 100.0, 3)]
    [1.0, 10.0, 100.0]
    """
    return [low * (high / low) ** (i / (count - 1)) for i in range(count)]


def _known(event: Event) -> list[Accountant]:
    return [ACCOUNTANTS[name] for name in _DRAWN if ACCOUNTANTS[name].supports(event)]


def _points(inputs: Sequence[float], value: Callable[[float], float]) -> list[tuple[float, float]]:
    """Return finite points only; none at all where the accountant's package is not installed."""
    try:
        points = [(float(x), value(x)) for x in inputs]
    except MissingExtraError:
        return []
    return [(x, y) for x, y in points if math.isfinite(y)]


def _line(one: Accountant, points: list[tuple[float, float]]) -> Line:
    return Line(one.name, one.sound, tuple(x for x, _ in points), tuple(y for _, y in points))


def _without_empty(lines: list[Line]) -> tuple[Line, ...]:
    return tuple(line for line in lines if line.x)
