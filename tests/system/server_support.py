"""A service of our own for tests: started as its users start it, on a free port of the loopback."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

_PATIENCE_SECONDS = 120.0

SMALL = """
[spaces.small]
words = 600

[mechanisms.everyday]
algorithm = "tem"
space = "small"
epsilon = 6
epsilons = [1, 3, 12]
tunings = ["best", "published"]
"""


class RunningService:
    """``sfumato serve`` in a process of its own, with its log."""

    def __init__(self, config: Path, *arguments: str, environment: dict[str, str] | None = None) -> None:
        self._lines: list[str] = []
        self._changed = threading.Condition()
        # Standard error goes through a pipe, read by a thread, so that the test sees what an operator would.
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sfumato.cli.app", "serve", "--config", str(config), "--port", "0", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **(environment or {})},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.url = str(self.wait_for("listening")["url"]).rstrip("/")

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._changed:
                self._lines.append(line)
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    @property
    def log(self) -> str:
        """Everything that was logged so far."""
        with self._changed:
            return "".join(self._lines)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The lines of the log."""
        return [json.loads(line) for line in self.log.splitlines() if line.startswith("{")]

    def wait_for(self, event: str, count: int = 1) -> dict[str, Any]:
        """Return the event of that name once there are so many of them."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            found = [one for one in self.events if one["event"] == event]
            if len(found) >= count:
                return found[-1]
            if not self._reader.is_alive() or time.monotonic() > deadline:
                self.stop()
                raise AssertionError(f"no event {event!r}; the log: {self.log[-3000:]}")
            with self._changed:
                self._changed.wait(0.2)

    def workers(self) -> list[int]:
        """Return the process ids of the workers."""
        listed = subprocess.run(
            ["ps", "-o", "pid=,args=", "--ppid", str(self.process.pid)], capture_output=True, text=True, check=False
        ).stdout
        return [int(line.split()[0]) for line in listed.splitlines() if "sfumato.server.worker" in line]

    def stop(self, patience: float = 40.0) -> int:
        """Ask the service to end and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self._reader.join(5)
        return code


@contextlib.contextmanager
def running(config: Path, *arguments: str, environment: dict[str, str] | None = None) -> Iterator[RunningService]:
    """Run a service for as long as the block."""
    service = RunningService(config, *arguments, environment=environment)
    try:
        yield service
    finally:
        service.stop()


def client(service: RunningService, key: str | None = None) -> httpx.Client:
    """Return a client that knows nothing of the environment."""
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    return httpx.Client(base_url=service.url, headers=headers, timeout=30.0, trust_env=False)


def taken(url: str, begin: bytes, at_most: int) -> int:
    """Send something that never ends; return after how many bytes the service ended the connection."""
    host, port = url.removeprefix("http://").split(":")
    sent = 0
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(begin)
        try:
            while sent < at_most:
                sent += connection.send(b"a" * 65_536)
        except (BrokenPipeError, ConnectionResetError):
            pass
    return sent
