"""HTTP/1.1 on a connection, with a limit to how long the head of a request may take.

Without one, connections that never finish a head would fill the service for ever, before anything could ask for a key.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class PunctualProtocol(HttpToolsProtocol):
    """Ends connections on which a head has not come in time; between requests, the time to keep them open counts."""

    head_seconds = 20.0

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the head of the first request."""
        super().connection_made(transport)
        self._wait()

    def on_message_begin(self) -> None:
        """Wait for the head of a further request."""
        super().on_message_begin()
        if self._waiting is None:
            self._wait()

    def on_headers_complete(self) -> None:
        """Wait no longer."""
        self._wait_no_longer()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._wait_no_longer()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(self.head_seconds, self._end)

    def _wait_no_longer(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _end(self) -> None:
        self._waiting = None
        if not self.transport.is_closing():
            self.transport.close()


def punctual(seconds: float) -> type[PunctualProtocol]:
    """Return the protocol with a limit of so many seconds."""
    return type("Protocol", (PunctualProtocol,), {"head_seconds": seconds})
