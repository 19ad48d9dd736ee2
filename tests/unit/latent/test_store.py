"""What was accepted is there after a crash, whole, and only once."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from sfumato.foundation.errors import DataError
from sfumato.latent.service.store import Batch, ReusedBatchError, StoreError, StoreFullError, VectorStore


def batch(number: int, count: int = 3, dimension: int = 2) -> Batch:
    draws = np.random.default_rng(number)
    vectors = draws.normal(size=(count, dimension)).astype(np.float32)
    return Batch(number, vectors, draws.integers(5, size=count).astype(np.int32))


def same(found: list[Batch], wanted: list[Batch]) -> bool:
    return len(found) == len(wanted) and all(
        one.encoded() == two.encoded() for one, two in zip(found, wanted, strict=True)
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "vectors"


def filled(path: Path, count: int = 4) -> list[Batch]:
    batches = [batch(number + 1) for number in range(count)]
    store = VectorStore(path, 2)
    for one in batches:
        assert store.append(one)
    store.close()
    return batches


def test_what_was_kept_is_there_after_opening_anew(path: Path) -> None:
    batches = filled(path)
    store = VectorStore(path, 2)
    assert same(list(store.batches()), batches)
    assert store.count == 12
    vectors, labels = store.arrays()
    assert (vectors == np.concatenate([one.vectors for one in batches])).all()
    assert labels.tolist() == [label for one in batches for label in one.labels]
    store.close()


def test_a_batch_that_is_sent_again_is_kept_once_even_after_a_restart(path: Path) -> None:
    batches = filled(path)
    store = VectorStore(path, 2)
    assert not store.append(batches[2])
    with pytest.raises(ReusedBatchError, match="another batch"):
        store.append(Batch(batches[2].number, batches[2].vectors + 1, batches[2].labels))
    assert store.count == 12
    store.close()


def test_nothing_is_accepted_before_it_is_flushed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = VectorStore(path, 2)
    flushed: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        flushed.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(os, "fsync", fsync)
    for number in range(1, 4):
        store.append(batch(number))
        assert flushed[-1] == path.stat().st_size
        assert len(flushed) == number
    store.close()


def test_a_crash_at_any_byte_of_the_last_group_loses_nothing_else(path: Path) -> None:
    batches = filled(path, 3)
    whole = path.read_bytes()
    start = len(whole) - len(whole) // 3
    for end in range(start, len(whole)):
        path.write_bytes(whole[:end])
        store = VectorStore(path, 2)
        assert same(list(store.batches()), batches[:2])
        assert store.cut_off == end - start
        assert store.append(batches[2])  # the sender, who got no answer, sends it again
        assert same(list(store.batches()), batches)
        store.close()


def test_a_group_of_zeros_at_the_end_is_cut_off(path: Path) -> None:
    """What a file system may leave behind after a loss of power."""
    batches = filled(path)
    with path.open("ab") as file:
        file.write(bytes(5000))
    store = VectorStore(path, 2)
    assert store.cut_off == 5000
    assert same(list(store.batches()), batches)
    store.close()


@pytest.mark.parametrize("place", [3, 10, 30, 60])
def test_damage_to_what_was_accepted_is_not_passed_over(path: Path, place: int) -> None:
    filled(path)
    content = bytearray(path.read_bytes())
    content[place] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(DataError, match="damaged at byte 0"):
        VectorStore(path, 2)
    assert path.read_bytes() == bytes(content)


def test_many_threads_lose_nothing(path: Path) -> None:
    store = VectorStore(path, 2)
    batches = [batch(number + 1, count=1) for number in range(320)]
    outcomes: list[bool] = []

    def send(some: list[Batch]) -> None:
        outcomes.extend(store.append(one) for one in some)

    # Every batch is sent by two threads at once, and kept by one of them.
    threads = [threading.Thread(target=send, args=(batches[place % 16 :: 16],)) for place in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [False] * 320 + [True] * 320
    assert store.count == 320
    store.close()
    again = VectorStore(path, 2)
    assert sorted(one.number for one in again.batches()) == list(range(1, 321))
    again.close()


def test_a_full_disk_refuses_and_keeps_what_was_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = filled(path)
    store = VectorStore(path, 2)
    real = os.write
    written: list[int] = []

    def write(descriptor: int, data: memoryview) -> int:
        if written:
            raise OSError(28, "No space left on device")
        written.append(real(descriptor, data[:20]))
        return written[0]

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(StoreFullError, match="nothing of this batch was kept"):
        store.append(batch(9))
    monkeypatch.undo()
    assert same(list(store.batches()), batches)
    assert store.append(batch(9))
    assert store.count == 15
    store.close()


def test_the_greatest_number_of_vectors_is_kept_to(path: Path) -> None:
    store = VectorStore(path, 2, most=5)
    store.append(batch(1))
    with pytest.raises(StoreFullError, match="5 vectors are the most"):
        store.append(batch(2))
    assert store.append(batch(3, count=2))
    store.close()


def test_one_server_at_a_time_and_one_dimension(path: Path) -> None:
    filled(path)
    store = VectorStore(path, 2)
    with pytest.raises(StoreError, match="another server"):
        VectorStore(path, 2)
    store.close()
    with pytest.raises(StoreError, match="2 numbers each, the terms say 3"):
        VectorStore(path, 3)
