"""The program, run inside this process, and a small space for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli_support import WORDS, Outcome, Program

from sfumato.cli import progress
from sfumato.cli.app import main


@pytest.fixture(scope="session")
def tiny_space(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("space") / "tiny.npz"
    vectors = np.array([[2.0 * (place % 5), 3.0 * (place // 5)] for place in range(len(WORDS))], dtype=np.float32)
    np.savez(path, words=np.array(WORDS), vectors=vectors)
    return path


@pytest.fixture
def program(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Program:
    """Run the program with these arguments and return its exit code and what it printed."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(
        progress, "_PATIENCE_SECONDS", float("inf")
    )  # however slow the machine, a short run says nothing

    def run(*arguments: str | Path) -> Outcome:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return Outcome(code, out, err)

    return run
