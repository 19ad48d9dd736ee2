"""Names of subjects, and their pseudonyms.

A ledger keeps names as they are given, or, when it is opened with a key, only their HMAC-SHA-256 under that key.  A
plain hash would not do: names are few enough to be tried one after the other.  Whoever loses the key loses the
budgets of all subjects, which is why a ledger remembers which key it was made with and refuses to be opened with
another.
"""

from __future__ import annotations

import hashlib
import hmac

from sfumato.foundation.errors import ParameterError

_LONGEST = 500
_LEAST_KEY_BYTES = 16


class Subjects:
    """Turns names into what is stored.

    >>> plain, keyed = Subjects(None), Subjects(b"sixteen bytes or more")
    >>> plain.stored("ada"), len(keyed.stored("ada")), keyed.check == Subjects(b"another key, sixteen").check
    ('ada', 64, False)
    """

    def __init__(self, key: bytes | None) -> None:
        if key is not None and len(key) < _LEAST_KEY_BYTES:
            raise ParameterError(f"a key for pseudonyms has at least {_LEAST_KEY_BYTES} bytes, got {len(key)}")
        self._key = key

    @property
    def check(self) -> str:
        """What the ledger remembers of the key; empty without one."""
        return "" if self._key is None else _digest(self._key, b"check")

    def stored(self, subject: str) -> str:
        """Return what stands for a subject in the tables."""
        if not isinstance(subject, str) or not 0 < len(subject) <= _LONGEST or "\0" in subject:
            raise ParameterError(f"a subject is a text of 1 to {_LONGEST} characters")
        try:
            name = subject.encode()
        except UnicodeEncodeError:
            raise ParameterError("a subject is a text that can be written in UTF-8") from None
        return subject if self._key is None else _digest(self._key, b"subject\n" + name)


def _digest(key: bytes, message: bytes) -> str:
    return hmac.new(key, message, hashlib.sha256).hexdigest()
