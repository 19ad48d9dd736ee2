"""Docstrings name other objects with Sphinx roles; the site shows them as code."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):`~?(?:[\w.]+\.)?(?P<name>\w+)`")


def without_roles(text: str) -> str:
    """Return the text with every role replaced by the last part of the name it refers to, as code.

    >>> without_roles("see :func:`sfumato.verify` and :attr:`cells`")
    'see `verify` and `cells`'
    """
    return _ROLE.sub(r"`\g<name>`", text)


class RolesToCode(griffe.Extension):
    """Rewrites the docstring of every object that is shown."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Rewrite the docstrings of a package when it has been read."""
        self._rewrite(pkg)

    def _rewrite(self, obj: griffe.Object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = without_roles(obj.docstring.value)
        for member in obj.members.values():
            if isinstance(member, griffe.Object):
                self._rewrite(member)
