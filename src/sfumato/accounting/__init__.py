"""Adding up losses: over the words of a document, and over releases.

Events say what happened, accountants say what it comes to:

>>> from sfumato.accounting import GaussianEvent, SampledGaussianEvent, accountant, gaussian_noise_for
>>> run = SampledGaussianEvent(sigma=1.0, rate=0.01) * 1000
>>> accountant("rdp").epsilon(run, delta=1e-5) < 2.11
True
>>> round(gaussian_noise_for(epsilon=1.0, delta=1e-5), 6)
3.730632

The names below are fetched when they are first used, so that importing this package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.accounting.accountants import ACCOUNTANTS, Comparison, ComparisonRow, accountant, compare
    from sfumato.accounting.base import Accountant
    from sfumato.accounting.calibration import gaussian_noise_for, noise_for, releases_within
    from sfumato.accounting.events import (
        ApproximateEvent,
        BoundedRangeEvent,
        ConcentratedEvent,
        Event,
        GaussianEvent,
        LaplaceEvent,
        MixtureOfGaussiansEvent,
        PureEvent,
        SampledGaussianEvent,
        compose,
    )

_HOMES = {
    "sfumato.accounting.accountants": ("ACCOUNTANTS", "Comparison", "ComparisonRow", "accountant", "compare"),
    "sfumato.accounting.base": ("Accountant",),
    "sfumato.accounting.calibration": ("gaussian_noise_for", "noise_for", "releases_within"),
    "sfumato.accounting.events": (
        "ApproximateEvent",
        "BoundedRangeEvent",
        "ConcentratedEvent",
        "Event",
        "GaussianEvent",
        "LaplaceEvent",
        "MixtureOfGaussiansEvent",
        "PureEvent",
        "SampledGaussianEvent",
        "compose",
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "ACCOUNTANTS",
    "Accountant",
    "ApproximateEvent",
    "BoundedRangeEvent",
    "Comparison",
    "ComparisonRow",
    "ConcentratedEvent",
    "Event",
    "GaussianEvent",
    "LaplaceEvent",
    "MixtureOfGaussiansEvent",
    "PureEvent",
    "SampledGaussianEvent",
    "accountant",
    "compare",
    "compose",
    "gaussian_noise_for",
    "noise_for",
    "releases_within",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)
