"""A service with budgets, a key and a chat model, over a space of eight words; and bytes sent to it as they are."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from chat_stand_in import StandIn
from server_support import RunningService

from sfumato.ledger import Ledger
from sfumato.server.keys import new_key

WORDS = ("lemon", "walnut", "pear", "chair", "apple", "bench", "plum", "stool")
CONFIG = """
[server]
workers = 2
drain_seconds = 15

[limits]
requests_per_minute = 1000000
burst = 100000
body_bytes = 20000
body_seconds = 1.5

[spaces.tiny]
source = "{space}"

[mechanisms.everyday]
algorithm = "tem"
space = "tiny"
epsilon = 0.5

[noise]
key_file = "noise.key"

[ledger]
url = "{ledger}"
timeout = 30.0

[anonymous]
scopes = ["privatize", "explain", "guarantee", "budget", "metrics", "chat"]
subject = "leaks"

[[keys]]
id = "app"
hash = "{hash}"
scopes = ["privatize", "budget"]
subjects = ["*"]

[chat]
upstream = "{upstream}"
mechanism = "everyday"
models = ["echo", "broken"]
restore = "on-request"
"""


@dataclass
class Setup:
    """A running service, with what it was given."""

    service: RunningService
    ledger: str
    folder: Path
    model: StandIn
    key: str = field(repr=False)

    def charges(self, subject: str) -> int:
        """Return how many charges a subject has."""
        with Ledger.open(self.ledger) as ledger:
            return ledger.budget(subject, "metric").charges


def space_file(folder: Path) -> Path:
    """Write the space."""
    path = folder / "tiny.npz"
    np.savez(path, words=np.array(WORDS), vectors=np.arange(16, dtype=np.float32).reshape(8, 2) % 5)
    return path


def written(folder: Path, space: Path, ledger: str, upstream: str) -> tuple[Path, str]:
    """Write the settings of a service and its budgets; return the file and an API key."""
    key = new_key("app")
    (folder / "noise.key").write_bytes(os.urandom(32))
    config = folder / "sfumato.toml"
    config.write_text(CONFIG.format(space=space, ledger=ledger, hash=key.hash, upstream=upstream))
    with Ledger.open(ledger) as opened:
        opened.create_each(["keyed", "fresh", "leaks"], kind="metric", limit=100_000)
        opened.create("poor", kind="metric", limit=30)
    return config, key.key


def until(met: Callable[[], bool], patience: float = 90.0) -> None:
    """Wait for something."""
    deadline = time.monotonic() + patience
    while not met():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def raw(service: RunningService, *parts: bytes, patience: float = 12.0) -> str:
    """Send bytes as they are, in parts, and return everything that comes back until the connection ends."""
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=patience) as connection:
        received = b""
        for place, part in enumerate(parts):
            if place:
                received += connection.recv(65536)
            connection.sendall(part)
        while part := connection.recv(65536):
            received += part
        return received.decode("latin-1")
