"""The running service, with several processes and each kind of ledger: charges, crashes, and what is left behind."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")
pytest.importorskip("uvicorn", reason="the extra 'server' is not installed")
pytest.importorskip("sqlalchemy", reason="the extra 'ledger' is not installed")
httpx = pytest.importorskip("httpx", reason="the extra 'server' is not installed")

from chat_stand_in import chat_model  # noqa: E402
from server_support import client, running  # noqa: E402
from service_support import Setup, raw, space_file, until, written  # noqa: E402

from sfumato.ledger import Ledger  # noqa: E402

INVENTED = ("qvorpaxel", "zumbrelith", "wexfordrin", "jillothrax")
"""Words that nobody else says, so that they are found wherever they went."""
KNOWN = ("lemon", "walnut", "pear")
TEXT = f"{INVENTED[0].title()} {KNOWN[0]} {INVENTED[1]} {KNOWN[1]}"
SUBJECTS = ("keyed", "fresh", "poor", "leaks")
ASKED_AT_ONCE = 16


@pytest.fixture(params=["sqlite", "postgresql"])
def setup(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Setup]:
    ledger = str(tmp_path / "budgets.db") if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with chat_model() as model:
        config, key = written(tmp_path, space_file(tmp_path), ledger, model.url)
        with running(config, environment={"TMPDIR": str(temporary)}) as service:
            yield Setup(service, ledger, tmp_path, model, key)


def test_a_run_with_crashes(setup: Setup) -> None:
    """One run for each ledger, as starting a service takes longer than any of this."""
    _no_budget_is_overdrawn(setup)
    _workers_share_one_artifact(setup)
    _killed_workers_lose_no_charge_and_repeat_none(setup)
    _no_word_of_the_input_is_left_anywhere(setup)


def _no_budget_is_overdrawn(setup: Setup) -> None:
    with client(setup.service, setup.key) as http:
        first = http.post("/v1/privatize", json={"text": "lemon pear", "subject": "poor"}).json()["charge"]
        price = float(first["amount"])
        affordable = int(30 / price)

        def ask(_: int) -> int:
            return int(http.post("/v1/privatize", json={"text": "lemon pear", "subject": "poor"}).status_code)

        with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
            codes = list(pool.map(ask, range(affordable + 30)))
        assert sorted(set(codes)) == [200, 402]
        assert codes.count(200) == affordable - 1
        budget = http.get("/v1/budget/poor").json()
    assert budget["charges"] == affordable
    assert 30 - price < float(budget["spent"]) <= 30


def _workers_share_one_artifact(setup: Setup) -> None:
    files = []
    for process in setup.service.workers():
        maps = Path(f"/proc/{process}/maps").read_text()
        mapped = [line.split() for line in maps.splitlines() if "sfumato-handover" in line]
        assert mapped, "the worker has not mapped the artifact"
        assert all(permissions.startswith("r-") for _, permissions, *_ in mapped)
        files.append({(device, inode) for _, _, _, device, inode, *_ in mapped})
    assert len(files) == 2
    assert files[0] == files[1]
    assert len(files[0]) == 1


class Load:
    """Callers that do not give up: each repeats a request until it is answered."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.ending, self.attempts = setup, threading.Event(), 0
        self.answered: dict[str, tuple[str, dict[str, Any]]] = {}
        self.fresh = 0
        self.lock = threading.Lock()

    def run(self, number: int) -> None:
        with client(self.setup.service, self.setup.key) as http:
            count = 0
            while not self.ending.is_set():
                count += 1
                if number % 4 == 0:
                    self._without_key(http)
                else:
                    self._with_key(http, f"caller {number} request {count}")

    def _with_key(self, http: Any, key: str) -> None:
        body = {"text": self.text(key), "subject": "keyed"}
        for _ in range(400):
            try:
                answer = http.post("/v1/privatize", json=body, headers={"idempotency-key": key})
            except httpx.TransportError:
                time.sleep(0.02)
                continue
            assert answer.status_code == 200, answer.text
            found = answer.json()
            with self.lock:
                self.answered[key] = (found["results"][0]["text"], found["charge"])
            return
        raise AssertionError("no answer in the end")

    def _without_key(self, http: Any) -> None:
        with self.lock:
            self.attempts += 1
        try:
            answer = http.post("/v1/privatize", json={"text": TEXT, "subject": "fresh"})
        except httpx.TransportError:
            time.sleep(0.02)
            return
        assert answer.status_code == 200, answer.text
        with self.lock:
            self.fresh += 1

    @staticmethod
    def text(key: str) -> str:
        return " ".join(random.Random(key).choices(("lemon", "pear", "plum", "stool", INVENTED[2]), k=5))


def _killed_workers_lose_no_charge_and_repeat_none(setup: Setup) -> None:
    load = Load(setup)
    with ThreadPoolExecutor(8) as pool:
        callers = [pool.submit(load.run, number) for number in range(8)]
        try:
            for kill in range(1, 4):
                until(lambda: len(setup.service.workers()) == 2)
                before = len(load.answered)
                until(lambda least=before + 60: len(load.answered) >= least)  # in the middle of work
                os.kill(random.choice(setup.service.workers()), signal.SIGKILL)
                setup.service.wait_for("worker ended", kill)
        finally:
            load.ending.set()
        for caller in callers:
            caller.result()
    assert len(load.answered) >= 180
    with Ledger.open(setup.ledger) as ledger:
        history = list(ledger.history("keyed"))
        assert len(history) == len(load.answered)  # none is missing, none is there twice
        numbers = {charge["number"] for _, charge in load.answered.values()}
        assert numbers == {charge.number for charge in history}
        assert load.fresh <= ledger.budget("fresh", "metric").charges <= load.attempts
        assert ledger.verify().passed
    with client(setup.service, setup.key) as http:
        for key in random.Random(7).sample(sorted(load.answered), 25):
            body = {"text": load.text(key), "subject": "keyed"}
            again = http.post("/v1/privatize", json=body, headers={"idempotency-key": key}).json()
            assert again["results"][0]["text"] == load.answered[key][0]
            assert again["charge"]["replayed"] is True
            assert again["charge"]["number"] == load.answered[key][1]["number"]
    assert setup.charges("keyed") == len(load.answered)


def _no_word_of_the_input_is_left_anywhere(setup: Setup) -> None:
    said: list[str] = []
    with client(setup.service, setup.key) as http:
        for number in range(3):
            answer = http.post(
                "/v1/privatize",
                json={"text": TEXT, "subject": "leaks"},
                headers={"idempotency-key": f"k{number} {INVENTED[3]}"},
            )
            assert answer.status_code == 200
            said.append(str(answer.headers))
        reused = {"idempotency-key": f"k1 {INVENTED[3]}"}
        failed = http.post("/v1/privatize", json={"text": f"{TEXT} pear", "subject": "leaks"}, headers=reused)
        assert failed.status_code == 409
        said += [failed.text, str(failed.headers)]
    with client(setup.service) as http:
        assert http.post("/v1/explain", json={"text": TEXT}).status_code == 200
        asked = {"messages": [{"role": "user", "content": TEXT}], "sfumato_restore": True}
        answered = http.post("/v1/chat/completions", json=asked)
        assert answered.status_code == 200
        assert not _words_in(json.dumps(setup.model.seen), INVENTED)
        said.append(str(answered.headers))
        for failed in _failures(http):
            assert failed.status_code >= 400
            said += [failed.text, str(failed.headers)]
        said.append(http.get("/metrics").text)
    said += [raw(setup.service, f"GET /{INVENTED[0]} HTTP/9 {INVENTED[1]}\r\n\r\n".encode())]
    setup.service.stop()
    said.append(setup.service.log)
    said += [path.read_bytes().decode("latin-1") for path in setup.folder.rglob("*") if path.is_file()]
    said += [str(path) for path in setup.folder.rglob("*")]
    if "://" in setup.ledger:
        said.append(_every_row(setup.ledger))
    for text in said:
        assert not _words_in(text, (*INVENTED, *KNOWN)), text[:500]
    assert '"event": "request"' in setup.service.log
    assert sum(len(text) for text in said) > 20_000


def _words_in(text: str, words: tuple[str, ...]) -> list[str]:
    return [word for word in words if re.search(rf"\b{word}\b", text, re.IGNORECASE)]


def _failures(http: Any) -> Iterator[Any]:
    """Yield the answers to requests that fail in all ways there are, each with words in it."""
    one, two = INVENTED[0], INVENTED[1]
    json_type = {"content-type": "application/json"}
    for path in ("/v1/privatize", "/v1/explain", "/v1/chat/completions"):
        for content in (f'{{"text": "{TEXT}', f'{{"{one}": "{TEXT}"}}', f'{{"text": ["{TEXT}"]}}', f'"{TEXT}"', ""):
            yield http.post(path, content=content.encode() + b"\xff" * (len(content) % 2), headers=json_type)
        yield http.post(path, content=TEXT.encode(), headers={"content-type": f"text/{one}"})
        yield http.post(path, json={"text": TEXT, "texts": [TEXT], "messages": [{"role": one, "content": TEXT}]})
        yield http.post(path, json={"text": TEXT * 1000, "messages": [{"role": "user", "content": TEXT * 1000}]})
    for more in ({"mechanism": one}, {"policy": one}, {"tuning": one}, {"epsilon": one}, {"subject": one}, {one: two}):
        yield http.post("/v1/privatize", json={"text": TEXT, **more})
    yield http.post("/v1/privatize", json={"text": TEXT}, headers={"authorization": f"Bearer sfu_{one}_{two}"})
    yield http.post("/v1/privatize", json={"text": TEXT}, headers={"idempotency-key": one * 60})
    yield http.post("/v1/privatize", json={"text": TEXT}, headers={"idempotency-key": f"k1 {INVENTED[3]}"})
    message = {"role": "user", "content": TEXT}
    for stream in (False, True):
        yield http.post("/v1/chat/completions", json={"messages": [message], "model": "broken", "stream": stream})
    yield http.post("/v1/chat/completions", json={"messages": [message], "model": one})
    yield http.post("/v1/chat/completions", json={"messages": [{**message, "name": one}], "user": two})
    yield http.get(f"/v1/budget/{one}")
    yield http.get(f"/{one}/{two}?{one}={two}")
    yield http.get("/v1/guarantee", params={"mechanism": one, two: one})
    yield http.request(one.upper(), f"/v1/{two}", headers={one: two})


def _every_row(url: str) -> str:
    import psycopg

    with psycopg.connect(url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        rows = [str(connection.execute(f'SELECT * FROM "{name}"').fetchall()) for (name,) in tables]
    assert len(rows) >= 3
    return "\n".join(rows)
