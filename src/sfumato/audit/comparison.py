"""The same words through several mechanisms, side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sfumato.audit.deniability import Deniability, deniability
from sfumato.foundation.guarantee import Guarantee
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism.base import Mechanism
from sfumato.sanitize import Sanitizer


@dataclass(frozen=True)
class Compared:
    """One mechanism's part of a comparison."""

    name: str
    text: str = field(repr=False)
    guarantee: Guarantee
    deniability: Deniability

    @property
    def certified(self) -> float | None:
        """The certified epsilon, for guarantees that have one."""
        value = getattr(self.guarantee, "certified", None)
        return None if value is None or math.isinf(value) else float(value)

    def to_json(self) -> dict[str, Any]:
        """Return plain data, with the text that came out."""
        return {
            "name": self.name,
            "text": self.text,
            "certified": self.certified,
            "kind": self.guarantee.kind,
            "sound": self.guarantee.sound,
            **self.deniability.to_json(),
        }


def compare(
    text: str, mechanisms: Sequence[tuple[str, Mechanism]], *, key: RunKey | None = None, words: int = 200
) -> list[Compared]:
    """Put a text through each of the named mechanisms and set their figures beside it.

    >>> import sfumato
    >>> line = sfumato.Space.from_arrays(list("abc"), [[0.0], [1.0], [2.0]])
    >>> tem = sfumato.compile("tem", line, epsilon=1.0)
    >>> [compared.certified <= 1.0 for compared in compare("a b", [("tem", tem)])]
    [True]
    """
    results = []
    for name, mechanism in mechanisms:
        sanitized = Sanitizer(mechanism)(text, key)
        results.append(Compared(name, sanitized.text, mechanism.guarantee, deniability(mechanism, words=words)))
    return results
