"""What the tests of the program share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

WORDS = ("cold", "cool", "mild", "warm", "hot", "rain", "snow", "sun", "wind", "storm")


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    code: int
    out: str
    err: str


Program = Callable[..., Outcome]
