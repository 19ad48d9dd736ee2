"""The chain of hashes that makes the history append-only in fact.

Each budget has a chain of its own, so that charges of unlike subjects need not wait for each other.  A link is the
hash of the link before and of everything the charge says; the first link hashes the budget's own terms.  A charge
that is altered, removed or put in between breaks its chain; so does a limit that is raised.  (Whoever may rewrite the
whole database can also rewrite the chains: against that, note the digest of ``budget verify``, or its anchors, in
another place.)
"""

from __future__ import annotations

import hashlib
import json

_TERMS, _LINK = b"sfumato budget v1\n", b"sfumato charge v1\n"


def first_link(
    ledger: str, subject: str, kind: str, limit_units: int, limit_delta_units: int, created_at: int, scope: str = ""
) -> bytes:
    """Return the hash of a budget's terms; ``scope`` is the one it was made with, empty where the first charge says it.

    >>> first_link("l", "a", "pure", 1, 0, 0) != first_link("l", "a", "pure", 2, 0, 0)
    True
    """
    said = [scope] if scope else []
    return _hash(_TERMS, [ledger, subject, kind, limit_units, limit_delta_units, created_at, *said])


def next_link(
    previous: bytes,
    number: int,
    amount: int,
    delta: int,
    releases: int,
    key: str,
    fingerprint: str,
    purpose: str,
    charged_at: int,
    scope: str,
) -> bytes:
    """Return the hash of a charge that follows ``previous``."""
    return _hash(_LINK + previous, [number, amount, delta, releases, key, fingerprint, purpose, charged_at, scope])


def _hash(prefix: bytes, values: list[str | int]) -> bytes:
    return hashlib.sha256(prefix + json.dumps(values, separators=(",", ":")).encode()).digest()
