"""Charge, then release: the only place where budget is spent on running something."""

from sfumato.release.gate import Gate, ReleaseTally
from sfumato.release.prices import PriceList
from sfumato.release.single import Released, ReleasedBeforeError, release
from sfumato.release.texts import ReleasedTexts, TextRelease
from sfumato.release.vectors import VectorPayment

__all__ = [
    "Gate",
    "PriceList",
    "ReleaseTally",
    "Released",
    "ReleasedBeforeError",
    "ReleasedTexts",
    "TextRelease",
    "VectorPayment",
    "release",
]
