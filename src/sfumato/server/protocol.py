"""HTTP/1.1 on a connection, with limits to what happens before and beside a request.

Whoever reaches the port can open connections, and there are so many of them at most.  Without these limits they could be held
for ever, or fill the memory, before anything could ask for a key: with a head that never ends, with a body that nobody
waits for any more, with empty lines between requests, or by not reading what was asked for.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 65_536
"""Most bytes of a head, and beside the body what may stand between its parts and after it; what comes at once may be more."""
_FRAME_BYTES = 9
"""So many bytes may come for each byte of a body: those of a body that is sent byte by byte."""


class PunctualProtocol(HttpToolsProtocol):
    """Ends connections on which a request has not come in time, or an answer is not taken.

    Between requests, the time to keep connections open counts.
    """

    seconds = 20.0

    _waiting: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None
    _coming = False
    """Whether a request has begun to come, and not come to its end."""
    _beside = 0
    """How many bytes came that belong to no body."""

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait(self.seconds)

    def data_received(self, data: bytes) -> None:
        """Take in what came, and be sure that something is waited for."""
        self._beside += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._coming and self._beside > MOST_HEAD_BYTES:
            self.send_400_response("The head of the request is too long.")
        elif not self._coming and (self.cycle is None or self.cycle.response_complete):
            self._wait(self.seconds)  # an empty line, say: it ended the time to keep the connection open

    def on_message_begin(self) -> None:
        """Wait for the rest of the head; where it was waited for already, that counts on."""
        super().on_message_begin()
        self._coming, self._beside = True, 0
        self._wait(self.seconds)

    def on_headers_complete(self) -> None:
        """Wait for the body, longer than the application does: it answers that a body is late."""
        self._wait_no_longer()
        self._wait(2 * self.seconds)
        self._beside = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Do not count it, nor what frames it."""
        self._beside = max(0, self._beside - _FRAME_BYTES * len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait no longer."""
        self._coming = False
        self._wait_no_longer()
        super().on_message_complete()

    def pause_writing(self) -> None:
        """Wait for the other side to take what was written."""
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(self.seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on."""
        self._go_on()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._wait_no_longer()
        self._go_on()
        super().connection_lost(exc)

    def _wait(self, seconds: float) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(seconds, self._end)

    def _wait_no_longer(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _go_on(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _end(self) -> None:
        self._waiting = None
        if self.pipeline:
            self._wait(self.seconds)  # what was sent ahead is not read on before its turn
        elif not self.transport.is_closing():
            self.transport.close()


def punctual(seconds: float) -> type[PunctualProtocol]:
    """Return the protocol with a limit of so many seconds."""
    return type("Protocol", (PunctualProtocol,), {"seconds": seconds})
