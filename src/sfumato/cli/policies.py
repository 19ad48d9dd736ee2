"""A policy from the options of a command."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_, or_
from pathlib import Path

from sfumato import policy as policies
from sfumato.foundation.errors import ParameterError
from sfumato.policy import Policy
from sfumato.scale.lines import TextLines

PROTECT_HELP = (
    "Protect only what this names; may be repeated. One of everything, numbers, identifiers (e-mail, URL, card, IBAN, "
    "phone), words:FILE, pattern:REGEX, entities:PIPELINE[:PERSON+GPE...] (spaCy), presidio[:US_SSN+...]."
)


def policy_of(protect: Sequence[str], keep: Path | None, stop_words: Sequence[str]) -> Policy:
    """Return the policy that protects any of ``protect`` (everything where it is empty), less the words that are kept.

    >>> policy_of(["numbers"], None, []).protects(policies.Document("room 7")).tolist()
    [False, True]
    """
    protected = reduce(or_, [_protecting(one) for one in protect]) if protect else policies.everything()
    kept = [] if keep is None else [policies.keep_words(public_words(keep))]
    if stop_words:
        kept.append(policies.stop_words(*stop_words))
    return reduce(and_, kept, protected)


def _protecting(given: str) -> Policy:
    name, colon, rest = given.partition(":")
    makers: dict[str, tuple[bool, Callable[[str], Policy]]] = {
        "everything": (False, lambda _: policies.everything()),
        "numbers": (False, lambda _: policies.numbers()),
        "identifiers": (False, lambda _: policies.identifiers()),
        "words": (True, lambda file: policies.protect_words(public_words(Path(file)))),
        "pattern": (True, _pattern),
        "entities": (True, _entities),
        "presidio": (False, lambda entities: policies.presidio(entities.split("+") if entities else None)),
    }
    if name not in makers:
        raise ParameterError(f"--protect takes one of {', '.join(makers)}; see sfumato privatize --help")
    needs_more, make = makers[name]
    if needs_more and not rest:
        raise ParameterError(f"--protect {name} needs something behind a colon; see sfumato privatize --help")
    if colon and not needs_more and name != "presidio":
        raise ParameterError(f"--protect {name} takes nothing behind a colon")
    return make(rest)


def _pattern(expression: str) -> Policy:
    try:
        return policies.protect_pattern(expression)
    except re.error as error:
        raise ParameterError(f"--protect pattern: the expression is not valid at position {error.pos}") from None


def _entities(rest: str) -> Policy:
    pipeline, _, categories = rest.partition(":")
    return policies.named_entities(pipeline, categories.split("+") if categories else None)


def public_words(path: Path) -> list[str]:
    """Return the words of a public list, one on each line."""
    with path.open("rb") as stream:
        return [word for word in (line.strip() for line in TextLines(stream)) if word]
