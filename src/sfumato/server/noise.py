"""Noise that a repeated request gets again.

A caller that repeats a request under the same idempotency key must get the same answer: fresh noise would be a second
release of the same text.  No answer is stored for that; the noise follows from a secret of the service, the caller, the
key **and the text with everything else that was asked for**.  The same key with another text therefore gets independent
noise (and, where there is a ledger, is refused), so that no two texts ever share noise.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

from sfumato.foundation.randomness import RunKey


@dataclass(frozen=True)
class Repeatable:
    """What one idempotency key of one caller comes to; none of it can be traced back to the key or the text."""

    run_key: RunKey = field(repr=False)
    ledger_key: str
    """Stands for the idempotency key in the ledger."""
    fingerprint: str
    """Stands for what was asked for."""


class NoiseKey:
    """Derives the noise of requests from the secret of the service.

    >>> noise = NoiseKey(b"s" * 32)
    >>> one, again = noise.repeatable("app", "key 1", ["a text"]), noise.repeatable("app", "key 1", ["a text"])
    >>> other = noise.repeatable("app", "key 1", ["another text"])
    >>> one == again, one.ledger_key == other.ledger_key, one.fingerprint == other.fingerprint
    (True, True, False)
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = hashlib.sha256(b"sfumato service noise\0" + secret).digest()

    def repeatable(self, caller: str, key: str, parts: list[str]) -> Repeatable:
        """Return what belongs to a key of a caller and to what was asked for, given as texts."""
        asked = self._digest("asked", [caller, key, *parts])
        return Repeatable(
            RunKey(self._digest("noise", [asked.hex()])),
            self._digest("ledger key", [caller, key]).hex(),
            self._digest("fingerprint", [asked.hex()]).hex(),
        )

    def _digest(self, label: str, parts: list[str]) -> bytes:
        digest = hmac.new(self._secret, label.encode(), hashlib.sha256)
        for part in parts:
            encoded = part.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
        return digest.digest()
