"""Sanitizers from names and numbers, for libraries that want plain settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.foundation.registry import entry
from sfumato.sanitize.sanitizer import Sanitizer
from sfumato.space import Space


def build_sanitizer(
    mechanism: str,
    epsilon: float | None,
    *,
    space: Space | None = None,
    mechanism_options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Sanitizer:
    """Compile the mechanism and put a sanitizer around it.

    >>> space = Space.from_arrays(["cold", "warm"], [[0.0], [3.0]])
    >>> build_sanitizer("tem", 2.0, space=space, oov="mask").oov
    'mask'
    """
    options = {**(mechanism_options or {})}
    if epsilon is not None:
        options["epsilon"] = epsilon
    compiler = entry(mechanism)
    compiler.check_options(options)
    return Sanitizer(compiler.compiler(Space.load() if space is None else space, **options), **settings)
