"""API keys: long random texts of which the service knows only salted hashes.

A key is 256 bits from the operating system's generator, so a fast hash is enough: there is nothing to be guessed, and
a slow one would let anybody keep the processor busy with wrong keys.  A key names its own entry (``sfu_ID_SECRET``), so
that one hash is computed for each request, whatever the number of keys.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field

from sfumato.foundation.errors import ParameterError
from sfumato.server.settings import ANYONE, AnonymousSettings, KeySettings

_SCHEME = "sha256"
_HASH = re.compile(r"^sha256\$[0-9a-f]{32}\$[0-9a-f]{64}$")
_KEY = re.compile(r"^sfu_([a-z0-9][a-z0-9.-]{0,39})_([A-Za-z0-9_-]{43})$")
_ID = re.compile(r"^[a-z0-9][a-z0-9.-]{0,39}$")
ANONYMOUS = "anonymous"
_NOBODY = f"{_SCHEME}${'0' * 32}${'0' * 64}"


@dataclass(frozen=True)
class NewKey:
    """A key that was just made; it is shown once and never again."""

    key: str = field(repr=False)
    hash: str


def new_key(name: str) -> NewKey:
    """Return a fresh key and what the service is to know of it.

    >>> made = new_key("billing")
    >>> made.key[:12], is_hash(made.hash), matches(made.key, made.hash)
    ('sfu_billing_', True, True)
    """
    if not _ID.fullmatch(name):
        raise ParameterError("a key's name has 1 to 40 characters of a-z, 0-9, dot and hyphen, a letter or digit first")
    key = f"sfu_{name}_{secrets.token_urlsafe(32)}"
    return NewKey(key, _hashed(key, secrets.token_hex(16)))


def is_hash(text: str) -> bool:
    """Return whether a text has the form of a hash made by :func:`new_key`."""
    return _HASH.fullmatch(text) is not None


def matches(key: str, hashed: str) -> bool:
    """Return whether a key is the one that was hashed, in a time that does not depend on how far they agree."""
    return hmac.compare_digest(_hashed(key, hashed.split("$")[1]), hashed)


def _hashed(key: str, salt: str) -> str:
    return f"{_SCHEME}${salt}${hashlib.sha256(salt.encode() + key.encode()).hexdigest()}"


@dataclass(frozen=True)
class Caller:
    """Who makes a request, and what they may do."""

    id: str
    scopes: frozenset[str]
    subject: str | None = field(repr=False, default=None)
    subjects: frozenset[str] = field(repr=False, default=frozenset())
    mechanisms: frozenset[str] = frozenset()
    policies: frozenset[str] = frozenset()
    requests_per_minute: float | None = None

    def may_name(self, subject: str) -> bool:
        """Return whether this caller may speak for a subject."""
        return subject == self.subject or subject in self.subjects or ANYONE in self.subjects

    def may_use(self, mechanism: str) -> bool:
        """Return whether this caller may use a mechanism."""
        return not self.mechanisms or mechanism in self.mechanisms

    def may_choose(self, policy: str) -> bool:
        """Return whether this caller may use a policy."""
        return not self.policies or policy in self.policies


class Keyring:
    """Finds the caller that a key belongs to."""

    def __init__(self, keys: Iterable[KeySettings], anonymous: AnonymousSettings) -> None:
        self._hashes = {key.id: key.hash for key in keys}
        self._callers = {
            key.id: Caller(
                key.id, frozenset(key.scopes), key.subject, frozenset(key.subjects), frozenset(key.mechanisms),
                frozenset(key.policies), key.requests_per_minute,
            )
            for key in keys
        }  # fmt: skip
        self.anonymous = Caller(
            ANONYMOUS, frozenset(anonymous.scopes), anonymous.subject, mechanisms=frozenset(anonymous.mechanisms),
            policies=frozenset(anonymous.policies),
        )  # fmt: skip

    def find(self, key: str) -> Caller | None:
        """Return the caller with this key, if there is one."""
        parts = _KEY.fullmatch(key)
        name = parts.group(1) if parts else ""
        valid = matches(key, self._hashes.get(name, _NOBODY)) if parts else False
        return self._callers.get(name) if valid else None
