"""A server of our own on the loopback, in a thread of the test."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.latent.calibration import release_once
from sfumato.latent.plan import NoisePlan
from sfumato.latent.service.terms import Terms

PLAN = release_once(epsilon=8.0, clip=1.0, dimension=4)


def terms(plan: NoisePlan = PLAN, **changes: Any) -> Terms:
    return Terms(**{"plan": plan, "classes": ("bad", "good"), **changes})


def examples(count: int, seed: int = 0, dimension: int = 4) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(seed)
    labels = draws.integers(2, size=count)
    vectors = draws.normal(size=(count, dimension)) * 0.1
    vectors[:, 0] += 2.0 * labels - 1
    return vectors, labels


@contextmanager
def running(folder: Path, terms: Terms | None = None, token: str | None = None) -> Iterator[str]:
    """Serve a folder and yield the address."""
    import uvicorn

    from sfumato.latent.service.app import create_app
    from sfumato.latent.service.trainer import Trainer

    if terms is not None:
        Trainer.prepare(folder, terms)
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(Trainer(folder), token), log_level="critical", access_log=False, lifespan="on", ws="none"
        )
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=30)
        listening.close()
