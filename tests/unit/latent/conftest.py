"""Settings of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """Small matrices gain nothing from more threads, and several tests may share the machine."""
    torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
