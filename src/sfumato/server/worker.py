"""One process of the service, started by the supervisor: ``python -m sfumato.server.worker FILE SOCKET RATES READY PARENT``.

The arguments are inherited descriptors.  ``PARENT`` is the end of a pipe that closes when the supervisor is gone, in whatever
way; a worker never outlives it.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading

import uvicorn

import sfumato  # noqa: F401  (registers the mechanisms)
from sfumato.server import handover, logs
from sfumato.server.app import create_app, create_state
from sfumato.server.protocol import punctual

_SWITCH_SECONDS = 0.0005
"""How long a thread that draws may hold the others up; the interpreter's own five milliseconds are as long as a request."""


class _Server(uvicorn.Server):
    """Says when it takes requests."""

    ready: int

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            os.write(self.ready, b"+")


def main(arguments: list[str]) -> int:
    """Serve until asked to end."""
    file, listening, rates, ready, parent = map(int, arguments)
    sys.setswitchinterval(_SWITCH_SECONDS)
    found = handover.read(file)
    settings = found.settings
    logs.set_up(settings.server.log_level)
    state = create_state(settings, found.catalogue(), secret=found.secret, rate_file=rates)
    config = uvicorn.Config(
        create_app(state, lambda: server.should_exit),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        http=punctual(settings.limits.body_seconds),
        ws="none",
        lifespan="on",
        limit_concurrency=settings.limits.concurrent,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=max(1, round(settings.server.drain_seconds)),
    )
    server = _Server(config)
    server.ready = ready
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    # The server hands signals on when it has ended; it has done what they ask for by then.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    server.run(sockets=[socket.socket(fileno=listening)])
    return 0


def _end_with(parent: int) -> None:
    os.read(parent, 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
