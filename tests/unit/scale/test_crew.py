"""Workers share one table, whether it was compiled to a file or not."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from cli_support import WORDS

import sfumato
from sfumato.foundation.randomness import RunKey
from sfumato.sanitize import Sanitizer
from sfumato.scale.crew import Crew, Task, Work

KEY = RunKey.from_seed(3)
TEXTS = [f"{one} {other}" for one in WORDS for other in WORDS]
VECTORS = np.arange(2.0 * len(WORDS)).reshape(-1, 2)


def outcome(crew: Crew) -> list[str]:
    tasks = [Task(Work(TEXTS[at : at + 7], 1, at, KEY), None) for at in range(0, len(TEXTS), 7)]
    return [text for _, _, done in crew.run(tasks) for text in done.texts]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.skipif(sys.platform != "linux", reason="what a process has mapped is read from /proc")
def test_workers_map_one_file_that_is_gone_when_they_have_it(temporary: Path) -> None:
    mechanism = sfumato.compile("tem", sfumato.Space.from_arrays(WORDS, VECTORS), epsilon=0.3)
    sanitizer = Sanitizer(mechanism)
    with Crew(sanitizer, 2) as crew:
        mapped = [Path(f"/proc/{process.pid}/maps").read_text() for process in crew._processes]
        assert all("shared.sfm" in maps for maps in mapped)
        assert list(temporary.iterdir()) == []
        assert outcome(crew) == sanitizer.batch(TEXTS, key=KEY).texts
    assert mechanism.origin is None


def test_a_table_that_cannot_be_stored_is_copied(temporary: Path) -> None:
    space = sfumato.Space.from_arrays(WORDS, VECTORS, metric=city_blocks)
    sanitizer = Sanitizer(sfumato.compile("tem", space, epsilon=0.3, tuning="published"))
    with Crew(sanitizer, 1) as crew:
        assert list(temporary.iterdir()) == []
        assert outcome(crew) == sanitizer.batch(TEXTS, key=KEY).texts


def city_blocks(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.abs(one[:, None] - other[None]).sum(axis=2)
