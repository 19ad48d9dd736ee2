"""Requests per second of the service on the loopback: 100-word texts, with 1, 8 and 64 connections, asked for by wrk.

The same without a ledger, and with budgets in SQLite and in PostgreSQL (both write to disk before they answer).  At the end a
budget that is too small is charged by 64 connections at once: what was answered has to be what was charged, and no more
than the limit.  The health check, which computes nothing, tells what the machine gives the framework alone.

The mechanism comes from a file with the rows of the words that occur, as a service in earnest would have it.

wrk takes processor time from the service it measures, as both run on one machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "system")]

from server_support import RunningService, client, running  # noqa: E402

import sfumato  # noqa: E402
from postgres_server import PostgresServer  # noqa: E402
from setting import save  # noqa: E402
from sfumato.ledger import Ledger  # noqa: E402
from sfumato.mechanism import artifact  # noqa: E402
from throughput import text_like_english  # noqa: E402

CONNECTIONS = (1, 8, 64)
SECONDS = 2
ROUNDS = 4
TEXTS = 50
WORKERS = 2
ENOUGH = 10**8
ROW_BYTES = 22_000
WARM_SECONDS = 4
WORDS = 2500
"""The texts are made of the vocabulary's first words, by Zipf's law."""

CONFIG = """
[server]
workers = {workers}

[limits]
requests_per_minute = 10000000
burst = 1000000

[mechanisms.everyday]
artifact = "{artifact}"

[noise]
key_file = "noise.key"

[anonymous]
scopes = ["privatize", "guarantee", "budget"]
subject = "load"
"""
LUA = """
local bodies, threads = {bodies}, {{}}
function setup(thread) table.insert(threads, thread) end
function init() place, passed, refused, other = 0, 0, 0, 0 end
function request()
  place = place % #bodies + 1
  return wrk.format("POST", "/v1/privatize", {{["content-type"] = "application/json"}}, bodies[place])
end
function response(status)
  if status == 200 then passed = passed + 1 elseif status == 402 then refused = refused + 1 else other = other + 1 end
end
function done(summary, latency)
  local passed, refused, other = 0, 0, 0
  for _, thread in ipairs(threads) do
    passed = passed + thread:get("passed"); refused = refused + thread:get("refused"); other = other + thread:get("other")
  end
  local errors = summary.errors
  io.write(string.format(
    '\\n{{"requests": %d, "microseconds": %d, "p50_ms": %.3f, "p99_ms": %.3f, ' ..
    '"passed": %d, "refused": %d, "other": %d, "broken": %d}}\\n',
    summary.requests, summary.duration, latency:percentile(50) / 1000, latency:percentile(99) / 1000, passed, refused, other,
    errors.connect + errors.read + errors.write + errors.timeout))
end
"""


@contextmanager
def started(folder: Path, stored: Path, ledger: str | None, limit: int = ENOUGH) -> Iterator[RunningService]:
    """Start a service with a fresh budget."""
    folder.mkdir()
    (folder / "noise.key").write_bytes(os.urandom(32))
    config = CONFIG.format(workers=WORKERS, artifact=stored)
    if ledger is not None:
        config += f'\n[ledger]\nurl = "{ledger}"\ntimeout = 30\n'
        with Ledger.open(ledger) as opened:
            opened.create("load", kind="metric", limit=limit)
    (folder / "sfumato.toml").write_text(config)
    with running(folder / "sfumato.toml") as service:
        yield service


def compiled(path: Path) -> Path:
    """Write a mechanism with the rows of the words that occur."""
    mechanism = sfumato.compile("tem", sfumato.Space.load(), epsilon=6.0)
    artifact.save(mechanism, path, row_bytes=WORDS * ROW_BYTES)
    return path


def texts() -> list[str]:
    """Return texts of 100 words."""
    records = text_like_english(sfumato.Space.load().words[:WORDS], TEXTS * 100)
    return [" ".join(records[start : start + 5]) for start in range(0, len(records), 5)]


def asked(service: RunningService, connections: int, script: Path, seconds: float = SECONDS) -> dict[str, Any]:
    """Let wrk ask, and return what it saw."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "-s", str(script), service.url]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
    found["per_second"] = round(found["requests"] / (found.pop("microseconds") / 1e6), 1)
    return found


def measured(services: dict[str, RunningService], script: Path) -> dict[str, dict[str, Any]]:
    """Return the best of some rounds for each service and each number of connections; in a round, all take turns."""
    for service in services.values():
        asked(service, 8, script, WARM_SECONDS)
    runs: dict[str, dict[str, list[dict[str, Any]]]] = {
        name: {str(count): [] for count in CONNECTIONS} for name in services
    }
    for _ in range(ROUNDS):
        for count in CONNECTIONS:
            for name, service in services.items():
                run = asked(service, count, script)
                assert run["other"] == run["broken"] == run["refused"] == 0, run
                runs[name][str(count)].append(run)
    return {name: {count: _best(of_count) for count, of_count in found.items()} for name, found in runs.items()}


def _best(runs: list[dict[str, Any]]) -> dict[str, Any]:
    best = max(runs, key=lambda run: run["per_second"])
    least = min(runs, key=lambda run: run["p99_ms"])
    return {
        "per_second": best["per_second"], "p50_ms": min(run["p50_ms"] for run in runs), "p99_ms": least["p99_ms"],
        "per_second_runs": [run["per_second"] for run in runs], "p99_ms_runs": [run["p99_ms"] for run in runs],
    }  # fmt: skip


def overdraft(folder: Path, stored: Path, ledger: str, script: Path, price: float) -> dict[str, Any]:
    """Return what became of a budget that pays for 100 texts, asked for more often by 64 connections at once."""
    limit = int(100.5 * price)
    with started(folder, stored, ledger, limit=limit) as service:
        found = asked(service, 64, script, 3 * SECONDS)
    with Ledger.open(ledger) as opened:
        budget = opened.budget("load", "metric")
        verified = opened.verify().passed
    # Answers that were on their way when wrk ended were charged, but not counted by it.
    assert float(budget.spent) <= limit
    assert budget.charges == 100
    assert found["passed"] == 100
    assert verified
    return {
        "limit_in_texts": 100, "charges": budget.charges, "answered": found["passed"], "refused": found["refused"],
        "chain_verified": verified,
    }  # fmt: skip


def _verified(ledger: str) -> dict[str, Any]:
    """Return how much was charged, where every balance and every link of the history agrees with it."""
    with Ledger.open(ledger) as opened:
        budget = opened.budget("load", "metric")
        assert opened.verify().passed
        assert budget.spent <= budget.limit
        return {"charges": budget.charges, "chain_verified": True}


def main() -> None:
    """Measure, print and save."""
    figures: dict[str, Any] = {"workers": WORKERS, "words_per_text": 100, "seconds": SECONDS}
    server = PostgresServer(durable=True)
    try:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            bodies = [json.dumps({"text": text}) for text in texts()]
            stored = compiled(folder / "everyday.sfm")
            script, health = folder / "load.lua", folder / "health.lua"
            script.write_text(LUA.format(bodies="{" + ", ".join(f"[==[{body}]==]" for body in bodies) + "}"))
            health.write_text(LUA.format(bodies='{""}').replace('"POST", "/v1/privatize"', '"GET", "/health/live"'))
            ledgers = {"none": None, "sqlite": str(folder / "budgets.db"), "postgresql": server.new_database()}
            with ExitStack() as stack:
                services = {
                    name: stack.enter_context(started(folder / name, stored, ledger))
                    for name, ledger in ledgers.items()
                }
                figures["ledgers"] = measured(services, script)
                figures["health_check"] = _best([asked(services["none"], 8, health) for _ in range(ROUNDS)])
                with client(services["sqlite"]) as http:
                    price = float(http.post("/v1/privatize", json={"text": texts()[0]}).json()["charge"]["amount"])
                figures["charges"] = {name: _verified(ledger) for name, ledger in ledgers.items() if ledger is not None}
            for name, ledger in (("sqlite", str(folder / "small.db")), ("postgresql", server.new_database())):
                figures[f"overdraft_{name}"] = overdraft(folder / f"small-{name}", stored, ledger, script, price)
                print(f"overdraft, {name}: {figures[f'overdraft_{name}']}")
    finally:
        server.stop()
    print("saved", save("service", figures).name)


if __name__ == "__main__":
    main()
