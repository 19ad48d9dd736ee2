"""Every error this library raises on purpose.

::

    SfumatoError
    ├── ParameterError        a number, name or option is outside its domain (also a ValueError)
    ├── SpaceError            words and vectors do not make a usable space
    │   └── SpaceFileError    a file of words and vectors cannot be read (names the line)
    ├── DataError             the user's data cannot be read or written as asked (names the row)
    ├── CertificationError    a mechanism's claim cannot be proved at the requested parameters
    ├── UnsoundError          an unsound mechanism was asked for without saying so
    ├── CompositionError      unlike guarantees were added (also a TypeError)
    ├── BudgetError           a budget does not allow the release
    └── MissingExtraError     an optional dependency is not installed (also an ImportError)

A message names positions and parameters, never words of the input, and says what to do next.
"""

from __future__ import annotations


class SfumatoError(Exception):
    """Root of every error raised on purpose by this library."""


class ParameterError(SfumatoError, ValueError):
    """A parameter is outside its domain."""


class SpaceError(SfumatoError):
    """Words and vectors do not make a usable space."""


class SpaceFileError(SpaceError):
    """A file of words and vectors cannot be read."""


class DataError(SfumatoError):
    """The user's data cannot be read or written as asked."""


class CertificationError(SfumatoError):
    """A claim about a mechanism cannot be proved at the requested parameters."""


class UnsoundError(SfumatoError):
    """A mechanism whose published guarantee is false was asked for without ``allow_unsound``."""


class CompositionError(SfumatoError, TypeError):
    """Guarantees of different kinds, units or metrics cannot be added."""


class BudgetError(SfumatoError):
    """A budget does not allow the release."""


class MissingExtraError(SfumatoError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"this needs the package {package!r}: pip install 'sfumato[{extra}]'")
