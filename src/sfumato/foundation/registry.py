"""Mechanisms by name.

A mechanism's module registers its compiler with :func:`mechanism`; the name carries no version until a behaviour
changes (then the old one stays, as ``tem.v1``).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.foundation.checks import require_count
from sfumato.foundation.errors import ParameterError

_COUNTS = ("threads", "row_memory")
"""Options that say how a mechanism is computed, whatever it is."""
_CALLBACKS = ("tick", "say")


@dataclass(frozen=True)
class Entry:
    """What the registry knows of a mechanism."""

    name: str
    compiler: Callable[..., Any]
    summary: str
    guarantee_kind: str
    sound: bool
    takes_epsilon: bool

    @property
    def options(self) -> dict[str, Any]:
        """Keyword options of the compiler with their defaults."""
        parameters = inspect.signature(self.compiler).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "epsilon"}

    def check_options(self, options: Collection[str]) -> None:
        """Raise where an option is not one of this mechanism's, or its epsilon is missing."""
        known = set(self.options) | ({"epsilon"} if self.takes_epsilon else set())
        unknown = sorted(set(options) - known)
        problems = []
        if unknown:
            shown = ", ".join(sorted(known.difference(_CALLBACKS))) or "none"
            problems.append(f"{self.name} has no option {', '.join(unknown)}; its options are {shown}")
        if self.takes_epsilon and "epsilon" not in options:
            problems.append(f"{self.name} needs epsilon")
        if problems:
            raise ParameterError("; ".join(problems))


_ENTRIES: dict[str, Entry] = {}


def mechanism(
    name: str, *, kind: str, sound: bool = True, takes_epsilon: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a compiler ``(space, *, epsilon, **options) -> Mechanism`` under a name."""

    def register(compiler: Callable[..., Any]) -> Callable[..., Any]:
        if name in _ENTRIES:
            raise ParameterError(f"a mechanism named {name!r} is registered already")
        summary = (inspect.getdoc(compiler) or "").partition("\n")[0]
        parameters = inspect.signature(compiler).parameters

        def may_be_none(option: str) -> bool:
            return option not in parameters or parameters[option].default is None

        @functools.wraps(compiler)
        def compile_plain(space: Any, *rest: Any, **options: Any) -> Any:
            options = {option: _plain(value) for option, value in options.items()}
            counts = {
                option: options[option]
                for option in _COUNTS
                if option in options and not (options[option] is None and may_be_none(option))
            }
            require_count(**counts)
            return compiler(space, *rest, **options)

        _ENTRIES[name] = Entry(name, compile_plain, summary, kind, sound, takes_epsilon)
        return compile_plain

    return register


def _plain(value: Any) -> Any:
    """Return a number of numpy's or an exact one as Python's own, so that it can be computed with and written as JSON."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (Fraction, Decimal)):
        with contextlib.suppress(ValueError, OverflowError):  # what no float can hold is refused as it is
            return float(value)
    return value


def entry(name: str) -> Entry:
    """Return the registered mechanism of that name."""
    if name not in _ENTRIES:
        shown = repr(name) if len(str(name)) <= 40 else "a long name"
        raise ParameterError(f"there is no mechanism {shown}; choose one of {', '.join(sorted(_ENTRIES))}")
    return _ENTRIES[name]


def entries() -> tuple[Entry, ...]:
    """Return every registered mechanism, by name."""
    return tuple(_ENTRIES[name] for name in sorted(_ENTRIES))
