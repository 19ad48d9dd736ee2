"""Starts the processes of the service, keeps them running and ends them gently."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from sfumato.foundation.errors import SfumatoError
from sfumato.server import handover, logs
from sfumato.server.app import noise_secret, open_ledger
from sfumato.server.buckets import new_file
from sfumato.server.catalogue import Catalogue, compiled
from sfumato.server.settings import Settings
from sfumato.server.state import rates

_LOOK_SECONDS = 0.2
_QUICK_SECONDS = 5.0
_MOST_QUICK_DEATHS = 5
_GRACE_SECONDS = 5.0


class StartError(SfumatoError):
    """The service cannot start or go on."""


class _AskedToEndError(BaseException):
    """Raised where a long computation is to be given up."""


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    started: float


class Supervisor:
    """Runs workers until it is asked to end."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._workers: list[_Worker] = []
        self._ending = False
        self._preparing = False
        self._quick_deaths = 0
        self._figures = tempfile.mkdtemp(prefix="sfumato-metrics-")

    def run(self) -> int:
        """Compile, listen, start the workers and watch them; return an exit code."""
        logs.set_up(self._settings.server.log_level)
        before = {number: signal.signal(number, self._end) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            with self._listening() as listening:
                self._preparing = True
                self._prepare()
                self._preparing = False
                self._parent, self._held = os.pipe()
                self._ready_read, self._ready = os.pipe()
                for _ in range(self._settings.server.workers):
                    self._workers.append(self._started(listening))
                self._wait_until_ready(listening)
                self._watch(listening)
            return 0
        except _AskedToEndError:
            return 0
        finally:
            self._preparing = False
            self._end_workers()
            shutil.rmtree(self._figures, ignore_errors=True)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _listening(self) -> socket.socket:
        server = self._settings.server
        family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            # Connections inherit it: the system gives those up whose other side takes nothing, also while they are closed.
            listening.setsockopt(
                socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * self._settings.limits.body_seconds)
            )
        try:
            listening.bind((server.host, server.port))
        except OSError as error:
            listening.close()
            reason = error.strerror or type(error).__name__
            raise StartError(f"cannot listen on {server.host}, port {server.port}: {reason}") from None
        return listening

    def _prepare(self) -> None:
        settings = self._settings
        if settings.noise.key_file is None:
            logs.event("no noise key: repeated requests get other noise after a restart", logging.WARNING)
        offers = compiled(settings, lambda line: logs.event("compiling", what=line))
        Catalogue(settings, offers)
        ledger = open_ledger(settings)  # makes its tables, before many want to
        if ledger is not None:
            ledger.close()
        self._file = handover.written(handover.Handover(settings, offers, noise_secret(settings)))
        self._rates = new_file(len(rates(settings)))

    def _started(self, listening: socket.socket) -> _Worker:
        descriptors = (self._file, listening.fileno(), self._rates, self._ready, self._parent)
        process = subprocess.Popen(
            [sys.executable, "-m", "sfumato.server.worker", *map(str, descriptors)],
            stdin=subprocess.DEVNULL,
            pass_fds=descriptors,
            env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": self._figures},
            start_new_session=True,  # an interruption from the keyboard reaches the supervisor alone
        )
        return _Worker(process, time.monotonic())

    def _wait_until_ready(self, listening: socket.socket) -> None:
        waiting = len(self._workers)
        while waiting and not self._ending:
            readable, _, _ = select.select([self._ready_read], [], [], _LOOK_SECONDS)
            if readable:
                waiting -= len(os.read(self._ready_read, waiting))
            if any(worker.process.poll() is not None for worker in self._workers):
                raise StartError("a worker ended before it took requests; its reason is in the log")
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        if not self._ending:
            logs.event("listening", url=f"http://{shown}:{port}/", workers=len(self._workers))

    def _watch(self, listening: socket.socket) -> None:
        while not self._ending:
            time.sleep(_LOOK_SECONDS)
            if self._ending:
                break
            for place, worker in enumerate(self._workers):
                code = worker.process.poll()
                if code is None:
                    continue
                logs.event("worker ended", logging.ERROR, code=code)
                self._forget(worker)
                lived = time.monotonic() - worker.started
                self._quick_deaths = self._quick_deaths + 1 if lived < _QUICK_SECONDS else 0
                if self._quick_deaths >= _MOST_QUICK_DEATHS:
                    raise StartError("workers end again and again; their reason is in the log")
                self._workers[place] = self._started(listening)

    def _forget(self, worker: _Worker) -> None:
        """Drop what a dead process said it was doing; what it counted stays."""
        for file in Path(self._figures).glob(f"gauge_live*_{worker.process.pid}.db"):
            file.unlink(missing_ok=True)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._ending = True
        if self._preparing:
            raise _AskedToEndError

    def _end_workers(self) -> None:
        for worker in self._workers:
            with contextlib.suppress(ProcessLookupError):
                worker.process.terminate()
        deadline = time.monotonic() + self._settings.server.drain_seconds + _GRACE_SECONDS
        for worker in self._workers:
            try:
                worker.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
        if self._workers:
            logs.event("ended")


def serve(settings: Settings) -> int:
    """Run the service until it is asked to end."""
    return Supervisor(settings).run()
