"""What only a process of its own can show: pipes, signals, full disks, and what is imported."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = (sys.executable, "-m", "sfumato.cli.app")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.csv"
    path.write_text("text,n\n" + "cold rain and snow,1\n" * 20_000, encoding="utf-8")
    return path


def _arguments(source: Path | str, target: Path | str, space: Path, *more: str) -> list[str]:
    return [*PROGRAM, "privatize", str(source), "-c", "text", "-o", str(target), "-s", str(space), "-q", *more]


def test_from_pipe_to_pipe(tiny_space: Path) -> None:
    run = subprocess.run(
        _arguments("-", "-", tiny_space, "--format", "csv"), input=b"text,n\ncold,1\n", capture_output=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, b"")
    assert run.stdout.startswith(b"text,n\n")
    assert run.stdout.endswith(b",1\n")


def test_a_reader_that_goes_away_ends_the_program_quietly(source: Path, tiny_space: Path) -> None:
    with subprocess.Popen(
        _arguments(source, "-", tiny_space), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr.read() == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_behind_standard_output(source: Path, tiny_space: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        run = subprocess.run(
            _arguments(source, "-", tiny_space), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert run.returncode == 2
    assert run.stderr == "sfumato: No space left on device; make room, and run it again\n"


def test_a_full_disk_behind_a_file_leaves_no_file(source: Path, tiny_space: Path, tmp_path: Path) -> None:
    most = 100_000
    run = subprocess.run(
        _arguments(source, tmp_path / "out.csv", tiny_space),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2
    assert run.stderr == "sfumato: File too large\n"
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_leaves_no_file(tiny_space: Path, tmp_path: Path, number: signal.Signals, code: int) -> None:
    """The input comes through a pipe that stays open, so the program is in the midst of its work."""
    with subprocess.Popen(
        _arguments("-", tmp_path / "out.csv", tiny_space), stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write("text,n\n" + "cold rain,1\n" * 40_000)
        process.stdin.flush()
        limit = time.monotonic() + 60
        while not list(tmp_path.glob(".*.part")) and time.monotonic() < limit:
            time.sleep(0.02)
        assert list(tmp_path.glob(".*.part")), "the output was never begun"
        process.send_signal(number)
        assert process.wait(60) == code
        message = process.stderr.read()
    assert message.count("\n") <= 1
    assert "Traceback" not in message
    assert list(tmp_path.iterdir()) == []


def test_short_commands_import_nothing_heavy() -> None:
    heavy = "{'pyarrow', 'rich', 'scipy', 'pandas'}"
    program = (
        "import sys, typer; known = set(sys.modules); "  # old versions of typer import rich themselves
        "from sfumato.cli.app import main; code = main(['--version']); "
        f"sys.exit(code or ', '.join({heavy} & set(sys.modules) - known) or 0)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("sfumato ")


def test_a_terminal_gets_progress_and_a_pipe_does_not(source: Path, tiny_space: Path, tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    leader, follower = pty.openpty()
    arguments = _arguments(source, tmp_path / "out.csv", tiny_space)
    arguments.remove("-q")
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=follower, env=environment) as process:
        os.close(follower)
        shown = b""
        while True:
            try:
                piece = os.read(leader, 4096)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
        assert process.wait(60) == 0
    os.close(leader)
    assert b"sanitizing" in shown
    assert b"words/s" in shown
