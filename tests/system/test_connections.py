"""Connections to the running service: what is sent over them as bytes, how long they are held, and how it ends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")
pytest.importorskip("uvicorn", reason="the extra 'server' is not installed")
pytest.importorskip("sqlalchemy", reason="the extra 'ledger' is not installed")
pytest.importorskip("httpx", reason="the extra 'server' is not installed")

from chat_stand_in import chat_model
from server_support import RunningService, client, running, taken
from service_support import Setup, raw, space_file, until, written


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    folder = tmp_path_factory.mktemp("plain")
    with chat_model() as model:
        config, key = written(folder, space_file(folder), str(folder / "budgets.db"), model.url)
        with running(config, "--workers", "1") as service:
            yield Setup(service, str(folder / "budgets.db"), folder, model, key)


def test_connections_and_endings(plain: Setup) -> None:
    """One service for all of this too; the last part ends it."""
    _requests_that_can_be_read_in_two_ways_are_refused(plain)
    _nobody_holds_a_connection_for_ever(plain)
    _a_head_does_not_fill_the_memory(plain)
    _an_answer_is_passed_on_as_it_comes(plain)
    _the_end_is_gentle(plain)


def _requests_that_can_be_read_in_two_ways_are_refused(plain: Setup) -> None:
    body = b'{"text": "lemon"}'
    head = b"POST /v1/privatize HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    hidden = b"GET /v1/budget/leaks HTTP/1.1\r\nhost: x\r\n\r\n"
    length, chunked = b"content-length: %d\r\n" % len(body), b"transfer-encoding: chunked\r\n"
    for more in (
        length + chunked,
        chunked + length,
        length + b"content-length: 3\r\n",
        b"transfer-encoding: chunked, identity\r\n",
        b"content-length: -1\r\n",
        b"content-length : 4\r\n",
        b" folded: line\r\n" + length,
    ):
        answer = raw(plain.service, head + more + b"\r\n" + body + hidden)
        assert answer.startswith("HTTP/1.1 400"), (more, answer[:200])
        assert answer.count("HTTP/1.1 ") == 1, (more, answer)
        assert "lemon" not in answer


def _nobody_holds_a_connection_for_ever(plain: Setup) -> None:
    """Each way at once, as each has to wait: with a head or a body that does not come, and by not reading."""
    whole = b"GET /health/live HTTP/1.1\r\nhost: x\r\n"
    slow = b"POST /v1/privatize HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{"
    ways = {
        "no head": (b"",),
        "half a head": (whole[:30],),
        "a slow body": (slow,),
        "an empty line after a request": (whole + b"\r\n", b"\r\n"),
        "a body nobody waits for": (whole + b"content-length: 1000\r\n\r\n", b"x"),
    }
    with ThreadPoolExecutor(len(ways) + 1) as pool:
        unread = pool.submit(_not_reading, plain.service)
        answers = dict(zip(ways, pool.map(lambda parts: raw(plain.service, *parts), ways.values()), strict=True))
    assert answers["no head"] == answers["half a head"] == ""
    assert answers["a slow body"].startswith("HTTP/1.1 408")
    assert answers["an empty line after a request"].count("HTTP/1.1 200") == 1
    assert answers["a body nobody waits for"].count("HTTP/1.1 200") == 1
    assert unread.result() < 30


def _not_reading(service: RunningService) -> float:
    """Ask again and again and read nothing; return how many seconds it took until the service ended the connection."""
    host, port = service.url.removeprefix("http://").split(":")
    asked = b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n" * 50
    start = time.monotonic()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(30)
        connection.connect((host, int(port)))
        try:
            while True:
                connection.sendall(asked)
        except (BrokenPipeError, ConnectionResetError):
            pass
    return time.monotonic() - start


def _a_head_does_not_fill_the_memory(plain: Setup) -> None:
    trailers = b"POST /v1/x HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: "
    for begin in (b"GET /health/live HTTP/1.1\r\nx: ", b"GET /", trailers):
        assert taken(plain.service.url, begin, at_most=20_000_000) < 20_000_000


def _an_answer_is_passed_on_as_it_comes(plain: Setup) -> None:
    plain.model.go_on.clear()
    asked = {"messages": [{"role": "user", "content": "lemon pear plum"}], "stream": True}
    with client(plain.service) as http, http.stream("POST", "/v1/chat/completions", json=asked) as answer:
        assert json.loads(answer.headers["sfumato-guarantee"])["protected_words"] == 3
        lines = (line for line in answer.iter_lines() if line)
        first = next(lines)
        assert json.loads(first[6:])["choices"][0]["delta"]["content"]
        plain.model.go_on.set()  # only now does the model go on: what was read had been passed on at once
        rest = list(lines)
    assert rest[-1] == "data: [DONE]"
    assert len(rest) == 3
    plain.model.go_on.clear()
    with client(plain.service) as http, http.stream("POST", "/v1/chat/completions", json=asked) as answer:
        next(answer.iter_lines())
    plain.model.go_on.set()
    with client(plain.service) as http:  # a caller who goes away leaves the service as it was
        assert http.post("/v1/privatize", json={"text": "lemon"}).status_code == 200


def _the_end_is_gentle(plain: Setup) -> None:
    plain.model.go_on.clear()
    seen = len(plain.model.seen)
    asked = {"messages": [{"role": "user", "content": "lemon pear plum"}], "stream": True}

    def ask() -> str:
        with client(plain.service) as http:
            return str(http.post("/v1/chat/completions", json=asked).text)

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask)
        until(lambda: len(plain.model.seen) > seen)
        plain.service.process.send_signal(signal.SIGTERM)
        until(lambda: not _reachable(plain.service))
        assert not answer.done()
        plain.model.go_on.set()
        assert answer.result().endswith("data: [DONE]\n\n")
    assert plain.service.stop() == 0
    assert plain.service.events[-1]["event"] == "ended"


def test_a_service_that_still_compiles_ends_when_asked(tmp_path: Path) -> None:
    config = tmp_path / "sfumato.toml"
    config.write_text('[mechanisms.slow]\nalgorithm = "tem"\nepsilon = 5.4321\n[anonymous]\nscopes = ["guarantee"]\n')
    command = [sys.executable, "-m", "sfumato.cli.app", "serve", "--config", str(config), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stderr is not None
        while "compiling" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()


def _reachable(service: RunningService) -> bool:
    host, port = service.url.removeprefix("http://").split(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True
