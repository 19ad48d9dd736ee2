"""Text privacy with differential privacy.

>>> import sfumato
>>> space = sfumato.Space.from_arrays(["cold", "cool", "warm", "hot"], [[0.0], [1.0], [3.0], [4.0]])
>>> mechanism = sfumato.compile("tem", space, epsilon=1.0)
>>> sfumato.verify(mechanism).passed
True
>>> sanitizer = sfumato.Sanitizer(mechanism)
>>> sanitizer("cold").text in space.words
True
"""

from __future__ import annotations

from typing import Any

from sfumato import policy as policies
from sfumato.audit.verification import VerifyResult, verify
from sfumato.foundation.checks import require_type
from sfumato.foundation.errors import SfumatoError
from sfumato.foundation.guarantee import Guarantee
from sfumato.foundation.randomness import RunKey
from sfumato.foundation.registry import Entry, entries, entry
from sfumato.mechanism import baselines as _baselines  # noqa: F401  (registers random and identity)
from sfumato.mechanism import custext as _custext  # noqa: F401
from sfumato.mechanism import exponential as _exponential  # noqa: F401  (registers tem and santext)
from sfumato.mechanism import gumbel as _gumbel  # noqa: F401  (registers truncated-gumbel)
from sfumato.mechanism import laplace as _laplace  # noqa: F401  (registers laplace and vickrey)
from sfumato.mechanism import mahalanobis as _mahalanobis  # noqa: F401
from sfumato.mechanism import santext_plus as _santext_plus  # noqa: F401
from sfumato.mechanism.base import Mechanism
from sfumato.policy import Policy
from sfumato.sanitize import SanitizedBatch, SanitizedText, Sanitizer
from sfumato.space import Space

__version__ = "0.1.0"

__all__ = [
    "Guarantee",
    "Mechanism",
    "Policy",
    "RunKey",
    "SanitizedBatch",
    "SanitizedText",
    "Sanitizer",
    "SfumatoError",
    "Space",
    "VerifyResult",
    "__version__",
    "compile",
    "mechanisms",
    "policies",
    "verify",
]


def compile(name: str, space: Space | None = None, **options: Any) -> Mechanism:
    """Compile the mechanism of that name over a space (default: the space in the package).

    >>> space = Space.from_arrays(["a", "b"], [[0.0], [1.0]])
    >>> compile("santext", space, epsilon=1.0).guarantee.epsilon
    1.0
    """
    compiler = entry(name)
    compiler.check_options(options)
    space = Space.load() if space is None else space
    require_type(Space, "a Space, such as sfumato.Space.load()", space=space)
    result: Mechanism = compiler.compiler(space, **options)
    return result


def mechanisms() -> tuple[Entry, ...]:
    """Return every registered mechanism with its summary and options.

    >>> [m.name for m in mechanisms() if m.name in ("tem", "santext")]
    ['santext', 'tem']
    """
    return entries()
