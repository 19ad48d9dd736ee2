"""A chat model for tests: a server on the loopback that says back what it was asked, slowly where a test wants it."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class StandIn:
    """What the stand-in saw, and how it is to behave."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.go_on = threading.Event()
        """A streamed answer waits for this after its first word."""
        self.url = ""


def _handler(model: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            model.seen.append(asked)
            said = asked["messages"][-1]["content"]
            if asked["model"] == "broken":
                self._send(
                    500, json.dumps({"error": {"message": f"cannot answer {said}"}}).encode(), "application/json"
                )
            elif asked.get("stream"):
                self._stream(said)
            else:
                message = {"role": "assistant", "content": said}
                choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
                answer = {"object": "chat.completion", "model": asked["model"], "choices": choices}
                self._send(200, json.dumps(answer).encode(), "application/json")

        def _send(self, status: int, content: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _stream(self, said: str) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            self.close_connection = True
            for place, word in enumerate(said.split(" ")):
                delta = {"index": 0, "delta": {"content": word if place == 0 else f" {word}"}, "finish_reason": None}
                self.wfile.write(b"data: " + json.dumps({"choices": [delta]}).encode() + b"\n\n")
                self.wfile.flush()
                if place == 0:
                    model.go_on.wait(20)
            self.wfile.write(b"data: [DONE]\n\n")

        def log_message(self, *arguments: Any) -> None:
            """Say nothing."""

    return Handler


@contextlib.contextmanager
def chat_model() -> Iterator[StandIn]:
    """Run a stand-in for as long as the block."""
    model = StandIn()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(model))
    server.daemon_threads = True
    model.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield model
    finally:
        model.go_on.set()
        server.shutdown()
        thread.join()
        server.server_close()
