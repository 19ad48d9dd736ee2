"""Incidence limits that hold over all clients without their talking to each other.

>>> sum(share_of_entity("e", client, clients=5, per_entity=3) for client in range(5))
3
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from sfumato.foundation.checks import gather, require_count, require_non_negative
from sfumato.foundation.errors import ParameterError
from sfumato.training.incidence import walk
from sfumato.training.sentences import Sentence


def share_of_entity(entity: str, client: int, *, clients: int, per_entity: int) -> int:
    """Return how many sentences with an entity a client may keep: its places in a public drawing of lots."""
    places = (hashlib.sha256(f"{number}\0{entity}".encode()).digest() for number in range(per_entity))
    return sum(int.from_bytes(place[:8], "little") % clients == client for place in places)


def limit_for_client(
    sentences: Sequence[Sentence], client: int, *, clients: int, per_user: int, per_entity: int
) -> list[Sentence]:
    """Return what one client may train on; each user's sentences are at one client.

    Over all clients together, no entity is kept more than ``per_entity`` times.
    """
    gather(
        lambda: require_count(clients=clients, per_user=per_user, per_entity=per_entity),
        lambda: require_non_negative(client=client),
    )
    if client >= clients:
        raise ParameterError(f"client must be below clients, got {client} of {clients}")
    of_user: Counter[str] = Counter()
    of_entity: Counter[str] = Counter()
    kept = []
    for place in walk(len(sentences), f"client {client}"):
        one = sentences[place]
        if of_user[one.user] >= per_user or any(
            of_entity[name] >= share_of_entity(name, client, clients=clients, per_entity=per_entity)
            for name in one.entities
        ):
            continue
        of_user[one.user] += 1
        of_entity.update(one.entities)
        kept.append(place)
    return [sentences[place] for place in sorted(kept)]
