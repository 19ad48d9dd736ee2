"""Run the server until it is asked to end."""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sfumato.foundation.errors import ParameterError
from sfumato.latent import extras
from sfumato.latent.service.app import create_app
from sfumato.latent.service.store import StoreError
from sfumato.latent.service.trainer import Trainer


def serve(
    folder: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    ready: Callable[[str], None] = lambda url: None,
    http: Any = "auto",
) -> None:
    """Serve the task of a folder; ``ready`` is told the address once requests are taken.

    ``http`` is the protocol of connections; the command line gives one that ends those which do not come to the point.

    One process: it trains in one thread and takes vectors in others.  Beyond the loopback a token is asked for, and
    the connection is to be encrypted by a proxy in front.
    """
    if token is None and not is_loopback(host):
        raise ParameterError("listening beyond this machine needs a token: give --token-file, or listen on 127.0.0.1")
    uvicorn = extras.uvicorn()
    trainer = Trainer(folder)
    listening = _listening(host, port)
    name, number = listening.getsockname()[:2]
    if trainer.cut_off:
        logging.getLogger("sfumato.latent").warning("an unfinished group of %d bytes was cut off", trainer.cut_off)

    class Server(uvicorn.Server):  # type: ignore[misc, name-defined]
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                ready(f"http://[{name}]:{number}" if ":" in name else f"http://{name}:{number}")

    config = uvicorn.Config(
        create_app(trainer, token),
        log_level="critical",  # a traceback could hold a request's numbers
        access_log=False,
        http=http,
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="on",
        limit_concurrency=256,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=10,
    )
    Server(config).run(sockets=[listening])


def is_loopback(host: str) -> bool:
    """Return whether an address is reached from this machine only.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("localhost")
    (True, True, False, True)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listening(host: str, port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        reason = os.strerror(error.errno) if error.errno else type(error).__name__
        raise StoreError(f"cannot listen on port {port} of this address: {reason}; choose another --port") from None
    return listening
