"""A copy of a sanitizer that is written the same way whenever and wherever it is pickled.

Libraries that keep results find them again by a digest of the pickled function.  If that changed with what was computed
in between, or from one process to the next, they would draw again: a second release that nobody asked for.  So what can
be computed again is left out, and sets, whose order differs between processes, are written in a fixed order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from functools import cached_property
from typing import Any, TypeVar

from sfumato.policy import Policy

Settled = TypeVar("Settled")
_PACKAGE = __name__.partition(".")[0]
_CONTAINERS = (frozenset, tuple, list, dict)


class _InOrder(frozenset[Any]):
    """A set that is pickled in a fixed order, and comes back as a plain one."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Callable[[Iterable[Any]], frozenset[Any]], tuple[list[Any]]]:
        return frozenset, (sorted(self, key=lambda member: (type(member).__qualname__, repr(member))),)


def settled(thing: Settled) -> Settled:
    """Return a copy that does the same and is always pickled alike; arrays and foreign objects are shared, not copied.

    >>> import pickle
    >>> from sfumato.policy import Document, keep_words
    >>> thawed = pickle.loads(pickle.dumps(settled(keep_words(["the", "of"]))))
    >>> thawed.protects(Document("the sound")).tolist()
    [False, True]
    """
    copied: Settled = _Copy().of(thing)
    return copied


class _Copy:
    """One copy of a graph of objects: what is shared in it stays shared."""

    def __init__(self) -> None:
        self._done: dict[int, Any] = {}

    def of(self, thing: Any) -> Any:
        kind = type(thing)
        is_plain = kind in _CONTAINERS
        if kind is str or not (is_plain or _is_ours(thing)):
            return thing
        if id(thing) not in self._done:
            self._done[id(thing)] = self._plain(thing) if is_plain else self._object(thing)
        return self._done[id(thing)]

    def _plain(self, thing: Any) -> Any:
        if isinstance(thing, dict):
            values = {name: self.of(value) for name, value in thing.items()}
            return values if any(values[name] is not thing[name] for name in thing) else thing
        if isinstance(thing, frozenset):
            return _InOrder(map(self.of, thing))
        members = list(map(self.of, thing))
        same = all(one is other for one, other in zip(members, thing, strict=True))
        return thing if same else type(thing)(members)

    def _object(self, thing: Any) -> Any:
        copy = object.__new__(type(thing))
        self._done[id(thing)] = copy  # an object may lead back to itself
        made_again = _computed_once(type(thing))
        copy.__dict__.update({name: self.of(value) for name, value in vars(thing).items() if name not in made_again})
        return copy


def _is_ours(thing: Any) -> bool:
    """Return whether an object is described by its attributes: one of this package, or somebody's policy."""
    kind = type(thing)
    ours = isinstance(thing, Policy) or kind.__module__.partition(".")[0] == _PACKAGE
    return (
        ours
        and hasattr(thing, "__dict__")
        and not isinstance(thing, (Enum, type, BaseException))
        and not _has_slots(kind)
    )


def _has_slots(kind: type) -> bool:
    return any(vars(parent).get("__slots__") for parent in kind.__mro__)


def _computed_once(kind: type) -> set[str]:
    return {
        name for parent in kind.__mro__ for name, value in vars(parent).items() if isinstance(value, cached_property)
    }
