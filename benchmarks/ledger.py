"""Charges per second on PostgreSQL (loopback, every commit flushed to disk) and SQLite, as the history grows.

Writes ``results/ledger.json`` and, from it, the table of ``docs/ledger.md``; with ``--table`` the table is made again from
the saved figures. The ledgers live in a temporary folder, which is removed afterwards; with ten million lines of history it
takes about 7 GB. ``--rows N`` makes a shorter history. Debian's ``postgresql`` must be installed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import resource
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from setting import RESULTS, save
from sfumato.ledger import Cost, Ledger, Request
from sfumato.ledger.chain import next_link

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from postgres_server import PostgresServer

SUBJECTS = 1000
HOT = "user 0"
"""The subject that everybody charges in the scenes of one subject; half of the history is its own."""
ONE = Cost.pure("0.001")
SECONDS, REPEATS = 3.0, 3
BATCH = 200
PAGE = Path(__file__).parent.parent / "docs" / "ledger.md"
MARKERS = ("<!-- rates -->", "<!-- end of rates -->")
COLUMNS = "budget_id, number, amount, delta, releases, key, fingerprint, purpose, charged_at, hash"


def names() -> list[str]:
    """Return the subjects."""
    return [f"user {number}" for number in range(SUBJECTS)]


def make(address: str, rows: int, load: Callable[[Iterator[tuple[Any, ...]]], None]) -> list[tuple[Any, ...]]:
    """Make a ledger with a history of so many charges, in valid chains; return the final state of every budget."""
    with Ledger.open(address) as ledger:
        ledger.create_each(names(), kind="pure", limit=10**9)
        heads = {budget.number: bytes.fromhex(budget.head) for budget in ledger.budgets()}
        hot = ledger.budget(HOT, "pure").number
    pick = random.Random(rows)
    now = int(time.time() * 1_000_000)
    final: list[tuple[Any, ...]] = []

    def history() -> Iterator[tuple[Any, ...]]:
        for budget, head in heads.items():
            count = rows // 2 if budget == hot else rows // 2 // (SUBJECTS - 1)
            link = head
            for number in range(1, count + 1):
                key = f"{pick.getrandbits(128):032x}"
                link = next_link(link, number, 1_000_000, 0, 1, key, "", "tem", now + number, "")
                yield budget, number, 1_000_000, 0, 1, key, "", "tem", now + number, link
            if count:
                final.append((count * 1_000_000, count, link, budget))

    load(history())
    return final


def make_postgres(server: PostgresServer, rows: int) -> str:
    """Fill a database by COPY; its index of keys is made at the end, as it would be after a restoration."""
    import psycopg

    url = server.new_database()

    def load(history: Iterator[tuple[Any, ...]]) -> None:
        with psycopg.connect(url) as connection, connection.cursor() as cursor:
            cursor.execute("ALTER TABLE sfumato_charges DROP CONSTRAINT one_charge_for_a_key")
            with cursor.copy(f"COPY sfumato_charges ({COLUMNS}) FROM STDIN (FORMAT BINARY)") as copy:
                copy.set_types(["int8"] * 5 + ["text"] * 3 + ["int8", "bytea"])
                for row in history:
                    copy.write_row(row)
            cursor.execute("ALTER TABLE sfumato_charges ADD CONSTRAINT one_charge_for_a_key UNIQUE (budget_id, key)")

    final = make(url, rows, load)
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        cursor.executemany("UPDATE sfumato_budgets SET spent_units = %s, charges = %s, head = %s WHERE id = %s", final)
    server.execute("VACUUM ANALYZE", url)
    server.execute("CHECKPOINT", url)
    return url


def make_sqlite(folder: Path, rows: int) -> str:
    """Fill a file."""
    path = folder / f"history-{rows}.db"

    def load(history: Iterator[tuple[Any, ...]]) -> None:
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -1000000")
        marks = ", ".join("?" * len(COLUMNS.split(",")))
        connection.executemany(f"INSERT INTO sfumato_charges ({COLUMNS}) VALUES ({marks})", history)
        connection.commit()
        connection.close()

    final = make(str(path), rows, load)
    connection = sqlite3.connect(path)
    connection.executemany("UPDATE sfumato_budgets SET spent_units = ?, charges = ?, head = ? WHERE id = ?", final)
    connection.execute("ANALYZE")
    connection.commit()
    connection.close()
    return str(path)


@contextmanager
def ledgers(sizes: list[int]) -> Iterator[dict[str, dict[int, str]]]:
    """Make a ledger of each size on both databases, and remove them afterwards."""
    server = PostgresServer(durable=True)
    with tempfile.TemporaryDirectory(prefix="sfumato-ledger-") as folder:
        try:
            made: dict[str, dict[int, str]] = {"postgresql": {}, "sqlite": {}}
            for rows in sizes:
                for database, maker in (
                    ("postgresql", lambda rows: make_postgres(server, rows)),
                    ("sqlite", lambda rows: make_sqlite(Path(folder), rows)),
                ):
                    start = time.perf_counter()
                    made[database][rows] = maker(rows)
                    print(f"{database}: {rows:,} lines made in {time.perf_counter() - start:.0f} s", flush=True)
            yield made
        finally:
            server.stop()


def crowd(address: str, threads: int, subjects: list[str], seed: int) -> tuple[int, float, float]:
    """Charge in so many threads; return how many charges were confirmed, and from when to when."""
    done = [0] * threads
    with Ledger.open(address, create=False, timeout=60) as ledger:
        ledger.charge(subjects[0], ONE)
        _together.wait()
        start = time.time()

        def work(number: int) -> None:
            pick = random.Random(seed * 1000 + number)
            while time.time() < start + SECONDS:
                ledger.charge(pick.choice(subjects), ONE)
                done[number] += 1

        crowd = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for thread in crowd:
            thread.start()
        for thread in crowd:
            thread.join()
    return sum(done), start, time.time()


def rate(address: str, processes: int, threads: int, subjects: list[str]) -> float:
    """Return confirmed charges per second, from the moment when every process is connected."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes, _meet, (context.Barrier(processes),)) as pool:
        tasks = [(address, threads, subjects, number) for number in range(processes)]
        done, starts, ends = zip(*pool.starmap(crowd, tasks, chunksize=1), strict=True)
    return float(sum(done) / (max(ends) - min(starts)))


def _meet(barrier: Any) -> None:
    global _together
    _together = barrier


_together: Any = None
"""Where the processes of a scene wait for each other."""


def batches(address: str) -> float:
    """Return charges per second in batches, each of them one transaction, as a file's records are charged."""
    pick, subjects = random.Random(0), names()
    done, start = 0, time.perf_counter()
    with Ledger.open(address, create=False) as ledger:
        while time.perf_counter() - start < SECONDS:
            outcomes = ledger.charge_each([Request(pick.choice(subjects), [ONE]) for _ in range(BATCH)])
            done += sum(outcome.accepted for outcome in outcomes)
    return done / (time.perf_counter() - start)


SCENES: dict[str, Callable[[str], float]] = {
    "1 thread, 1 subject": lambda address: rate(address, 1, 1, [HOT]),
    "64 threads, 1 subject": lambda address: rate(address, 1, 64, [HOT]),
    "64 threads, 1,000 subjects": lambda address: rate(address, 1, 64, names()),
    "8 processes of 8 threads, 1 subject": lambda address: rate(address, 8, 8, [HOT]),
    "8 processes of 8 threads, 1,000 subjects": lambda address: rate(address, 8, 8, names()),
    f"1 thread, batches of {BATCH}, 1,000 subjects": batches,
}


def measure(scene: str, made: dict[int, str]) -> list[dict[str, float]]:
    """Return the rate of a scene at every length of history; lengths take turns, so that all see the same machine."""
    rates: dict[int, list[float]] = {rows: [] for rows in made}
    for _ in range(REPEATS):
        for rows, address in made.items():
            rates[rows].append(SCENES[scene](address))
    figures = [{"rows": rows, "charges_per_second": max(found), "least": min(found)} for rows, found in rates.items()]
    print(scene, json.dumps(figures), flush=True)
    return figures


def verified(address: str) -> dict[str, Any]:
    """Verify a whole ledger and say how long it took, and the memory at its peak (of this process)."""
    start = time.perf_counter()
    with Ledger.open(address, create=False) as ledger:
        found = ledger.verify()
    return {
        "passed": found.passed,
        "charges": found.charges,
        "seconds": time.perf_counter() - start,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def table() -> str:
    """Return the saved rates as a Markdown table."""
    data = json.loads((RESULTS / "ledger.json").read_text())
    sizes = [figure["rows"] for figure in next(iter(data["rates"]["postgresql"].values()))]
    lines = [
        f"| database | who charges | {' | '.join(f'{rows:,} lines of history' for rows in sizes)} |",
        "|---|---|" + "---:|" * len(sizes),
    ]
    for database, scenes in data["rates"].items():
        for scene, figures in scenes.items():
            rates = " | ".join(f"{figure['charges_per_second']:,.0f}" for figure in figures)
            lines.append(f"| {database} | {scene} | {rates} |")
    checks = ", ".join(
        f"{check['charges']:,} charges in {check['seconds']:.0f} s with {check['peak_megabytes']:.0f} MB of memory "
        f"({database})"
        for database, check in data["verification"].items()
    )
    return "\n".join(
        [
            f"Charges per second, each flushed to disk (best of {data['repeats']} times {data['seconds']:g} s):",
            "",
            *lines,
            "",
            f"`verify` takes time in proportion to the history: {checks}. PostgreSQL on the loopback of the same machine; "
            f"{data['machine']}, commit {data['commit']}; `python benchmarks/ledger.py`.",
        ]
    )


def write_page() -> None:
    """Put the table into the documentation."""
    text = PAGE.read_text()
    before, rest = text.split(MARKERS[0])
    after = rest.split(MARKERS[1])[1]
    PAGE.write_text(f"{before}{MARKERS[0]}\n{table()}\n{MARKERS[1]}{after}")


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="lines of the longest history")
    parser.add_argument("--table", action="store_true", help="only write the table again")
    given = parser.parse_args()
    if not given.table:
        measure_everything(given.rows)
    write_page()


def measure_everything(longest: int) -> None:
    """Make the ledgers, measure every scene and save the figures."""
    with ledgers([0, longest // 10, longest]) as made:
        figures = {
            database: {scene: measure(scene, addresses) for scene in SCENES} for database, addresses in made.items()
        }
        checks = {database: verified(addresses[longest]) for database, addresses in made.items()}
    save("ledger", {"seconds": SECONDS, "repeats": REPEATS, "rates": figures, "verification": checks})


if __name__ == "__main__":
    main()
