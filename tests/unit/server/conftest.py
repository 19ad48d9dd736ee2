"""A service inside the test's own process, over a small space."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

WORDS = ("cold", "cool", "mild", "warm", "hot", "rain", "snow", "sun", "wind", "storm", "the", "was")


@pytest.fixture(scope="session")
def space_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("space") / "tiny.npz"
    vectors = np.array([[2.0 * (place % 5), 3.0 * (place // 5)] for place in range(len(WORDS))], dtype=np.float32)
    np.savez(path, words=np.array(WORDS), vectors=vectors)
    return path


@pytest.fixture
def written(tmp_path: Path, space_file: Path) -> dict[str, Any]:
    """Settings that are right, for a test to change."""
    (tmp_path / "noise.key").write_bytes(os.urandom(32))
    return {
        "spaces": {"tiny": {"source": str(space_file)}},
        "mechanisms": {"everyday": {"algorithm": "tem", "space": "tiny", "epsilon": 0.5, "epsilons": [200.0]}},
        "noise": {"key_file": "noise.key"},
        "anonymous": {"scopes": ["privatize", "explain", "guarantee", "budget", "metrics", "chat"]},
    }


@pytest.fixture
def with_a_key(written: dict[str, Any]) -> dict[str, str]:
    """Add an API key that may do everything for the subject ada; return the header that carries it."""
    from sfumato.server.keys import new_key

    made = new_key("app")
    scopes = ["privatize", "explain", "guarantee", "budget", "metrics", "chat"]
    written["keys"] = [{"id": "app", "hash": made.hash, "scopes": scopes, "subject": "ada"}]
    return {"authorization": f"Bearer {made.key}"}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Start a service with these settings and return a client of it, with the service's state as ``state``."""
    from fastapi.testclient import TestClient

    from sfumato.server.app import create_app, create_state
    from sfumato.server.catalogue import Catalogue, compiled
    from sfumato.server.configuration import checked

    clients = []

    def start(written: dict[str, Any], **options: Any) -> Any:
        settings = checked(written, tmp_path)
        state = create_state(settings, Catalogue(settings, compiled(settings)))
        client = TestClient(create_app(state), **options)
        client.__enter__()
        client.service = state
        clients.append(client)
        return client

    yield start
    for client in clients:
        client.__exit__(None, None, None)
