"""Policies from settings."""

from __future__ import annotations

from functools import reduce
from operator import and_, or_
from pathlib import Path

from sfumato import policy as policies
from sfumato.policy import Policy
from sfumato.server.settings import PolicySettings


def made(settings: PolicySettings) -> Policy:
    """Return the policy that protects any of what the settings name, less what they keep.

    >>> made(PolicySettings(protect=["numbers"])).protects(policies.Document("room 7")).tolist()
    [False, True]
    """
    makers = {
        "everything": policies.everything,
        "numbers": policies.numbers,
        "identifiers": policies.identifiers,
    }
    protecting = [makers[name]() for name in settings.protect]
    if settings.protect_words_file is not None:
        protecting.append(policies.protect_words(_words(settings.protect_words_file)))
    if settings.protect_patterns:
        protecting.append(policies.protect_pattern(*settings.protect_patterns))
    if settings.entities is not None:
        protecting.append(policies.named_entities(settings.entities.pipeline, settings.entities.categories or None))
    if settings.presidio:
        protecting.append(policies.presidio(settings.presidio))
    keeping = []
    if settings.keep_words_file is not None:
        keeping.append(policies.keep_words(_words(settings.keep_words_file)))
    if settings.keep_stop_words:
        keeping.append(policies.stop_words(*settings.keep_stop_words))
    return reduce(and_, keeping, reduce(or_, protecting or [policies.everything()]))


def _words(path: Path) -> list[str]:
    return [word for word in (line.strip() for line in path.read_text(encoding="utf-8").splitlines()) if word]
