"""Validation by keyword: every problem of a call is reported at once, and NaN always fails.

>>> require_positive(epsilon=1.0, gamma=2.0)
>>> require_positive(epsilon=-1.0, gamma=float("nan"))
Traceback (most recent call last):
    ...
sfumato.foundation.errors.ParameterError: epsilon must be a finite number greater than 0, got -1.0; \
gamma must be a finite number greater than 0, got nan
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Mapping

from sfumato.foundation.errors import ParameterError

LARGEST_EPSILON = 1e6
"""Above this a nominal epsilon is a slip of the keyboard: it says nothing about privacy."""
_TOO_LONG_TO_SHOW = 10**40


def _is_real(value: object) -> bool:
    if isinstance(value, bool) or _is_array(value):
        return False
    try:
        return math.isfinite(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False


def _is_array(value: object) -> bool:
    """Return whether a value has a shape; old numpy takes an array of one number for that number."""
    return getattr(value, "shape", ()) != ()


def _require(accepts: Callable[[float], bool], wanted: str, values: Mapping[str, object]) -> None:
    problems = [
        f"{name} must be {wanted}, got {_shown(value)}"
        for name, value in values.items()
        if not (_is_real(value) and accepts(value))  # type: ignore[arg-type]
    ]
    if problems:
        raise ParameterError("; ".join(problems))


def _shown(value: object) -> str:
    """Numbers are shown, anything else only by its type: a mistyped argument may hold private text."""
    if isinstance(value, int) and abs(value) >= _TOO_LONG_TO_SHOW:
        return "a number of more than 40 digits"
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)
    if not (isinstance(value, (str, bytes)) or _is_array(value)):
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            return repr(float(value))  # type: ignore[arg-type]
    return f"a value of type {type(value).__name__}"


def require_positive(**values: object) -> None:
    """Every value is a finite number greater than zero."""
    _require(lambda v: v > 0, "a finite number greater than 0", values)


def require_non_negative(**values: object) -> None:
    """Every value is a finite number, zero or greater."""
    _require(lambda v: v >= 0, "a finite number, 0 or greater", values)


def require_epsilon(**values: object) -> None:
    """Every value is a usable epsilon: positive, finite and not absurdly large."""
    _require(lambda v: 0 < v <= LARGEST_EPSILON, f"greater than 0 and at most {LARGEST_EPSILON:.0e}", values)


def require_probability(**values: object) -> None:
    """Every value lies strictly between 0 and 1."""
    _require(lambda v: 0 < v < 1, "strictly between 0 and 1", values)


def require_type(kind: type, wanted: str, **values: object) -> None:
    """Every value is of a type; ``wanted`` says in plain words of which, and where to get one."""
    problems = [
        f"{name} must be {wanted}, got {_shown(value)}" for name, value in values.items() if not isinstance(value, kind)
    ]
    if problems:
        raise ParameterError("; ".join(problems))


def require_share(**values: object) -> None:
    """Every value lies between 0 and 1, both included."""
    _require(lambda v: 0 <= v <= 1, "between 0 and 1", values)


def require_count(**values: object) -> None:
    """Every value is a whole number, one or greater."""
    _require(lambda v: v >= 1 and v == int(v), "a whole number, 1 or greater", values)


def require_index(**values: object) -> None:
    """Every value is a whole number, zero or greater, that 63 bits hold."""
    _require(lambda v: 0 <= v < 2**63 and v == int(v), "a whole number, 0 or greater and below 2**63", values)


def require_one_of(allowed: Collection[str], **values: object) -> None:
    """Every value is one of the allowed names."""
    problems = []
    for name, value in values.items():
        if value not in allowed:
            shown = repr(value) if isinstance(value, str) and len(value) <= 40 else _shown(value)
            problems.append(f"{name} must be one of {', '.join(sorted(allowed))}; got {shown}")
    if problems:
        raise ParameterError("; ".join(problems))


def gather(*checks: Callable[[], None]) -> None:
    """Run several checks and report all their problems in one error.

    >>> gather(lambda: require_positive(epsilon=0.0), lambda: require_share(mix=2))
    Traceback (most recent call last):
        ...
    sfumato.foundation.errors.ParameterError: epsilon must be a finite number greater than 0, got 0.0; \
mix must be between 0 and 1, got 2
    """
    problems = []
    for check in checks:
        try:
            check()
        except ParameterError as error:
            problems.append(str(error))
    if problems:
        raise ParameterError("; ".join(problems))
