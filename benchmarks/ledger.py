"""Charges per second on PostgreSQL (loopback, every commit flushed to disk) and SQLite, as the history grows.

Writes ``results/ledger.json`` and, from it, the table of ``docs/ledger.md``; with ``--table`` the table is made again from
the saved figures. The ledgers live in a temporary folder, which is removed afterwards; with ten million lines of history it
takes about 5 GB. ``--rows N`` makes a shorter history. Debian's ``postgresql`` must be installed.

Making ten million lines takes far longer than measuring with them. ``--folder F --step make`` makes the ledgers and leaves
their server running; ``--step postgresql``, ``sqlite`` and ``verify`` measure, each by itself, and ``--step finish`` saves the
figures and removes everything.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
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


def make_ledgers(folder: Path, sizes: list[int]) -> None:
    """Make a ledger of each size on both databases; the server goes on running."""
    server = PostgresServer(durable=True)
    try:
        made: dict[str, dict[int, str]] = {"postgresql": {}, "sqlite": {}}
        megabytes: dict[str, dict[int, float]] = {"postgresql": {}, "sqlite": {}}
        for rows in sizes:
            start = time.perf_counter()
            made["postgresql"][rows] = url = make_postgres(server, rows)
            size = server.execute(f"SELECT pg_database_size('{url.rsplit('/', 1)[1]}')")[0][0]
            megabytes["postgresql"][rows] = size / 1e6
            print(f"postgresql: {rows:,} lines made in {time.perf_counter() - start:.0f} s", flush=True)
            start = time.perf_counter()
            made["sqlite"][rows] = path = make_sqlite(folder, rows)
            megabytes["sqlite"][rows] = Path(path).stat().st_size / 1e6
            print(f"sqlite: {rows:,} lines made in {time.perf_counter() - start:.0f} s", flush=True)
    except BaseException:
        server.stop()
        raise
    state = {"server": server.process_number, "cluster": str(server.folder), "made": made, "megabytes": megabytes}
    note(folder, "ledgers", state)


def remove(folder: Path) -> None:
    """Stop the server that :func:`make_ledgers` left running and remove everything."""
    state = noted(folder, "ledgers")
    os.kill(state["server"], signal.SIGQUIT)
    while Path(state["cluster"], "data", "postmaster.pid").exists():
        time.sleep(0.1)
    shutil.rmtree(state["cluster"])
    shutil.rmtree(folder)


def note(folder: Path, name: str, what: Any) -> None:
    """Keep the outcome of a step for the later ones; the addresses in it hold a password."""
    path = folder / f"{name}.json"
    path.touch(0o600)
    path.write_text(json.dumps(what))


def noted(folder: Path, name: str) -> Any:
    """Return the outcome of an earlier step."""
    return json.loads((folder / f"{name}.json").read_text())


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


def measure(scene: str, made: dict[str, str]) -> list[dict[str, float]]:
    """Return the rate of a scene at every length of history; lengths take turns, so that all see the same machine."""
    rates: dict[str, list[float]] = {rows: [] for rows in made}
    for _ in range(REPEATS):
        for rows, address in made.items():
            rates[rows].append(SCENES[scene](address))
    figures = [
        {"rows": int(rows), "charges_per_second": max(found), "least": min(found)} for rows, found in rates.items()
    ]
    print(scene, json.dumps(figures), flush=True)
    return figures


def verified(address: str) -> dict[str, Any]:
    """Verify a whole ledger; say how long it took, on the clock and on this process's processor, and its peak of memory."""
    start, worked = time.perf_counter(), time.process_time()
    with Ledger.open(address, create=False) as ledger:
        found = ledger.verify()
    return {
        "passed": found.passed,
        "charges": found.charges,
        "seconds": time.perf_counter() - start,
        "processor_seconds": time.process_time() - worked,
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
        f"{check['charges']:,} charges in {check['processor_seconds']:.0f} s of processor time and "
        f"{check['peak_megabytes']:.0f} MB of memory ({database})"
        for database, check in data["verification"].items()
    )
    return "\n".join(
        [
            f"Charges per second, each flushed to disk (best of {data['repeats']} times {data['seconds']:g} s):",
            "",
            *lines,
            "",
            f"The longest history is {sizes_of(data)} on disk. `verify` takes time in proportion to the history: {checks}. "
            f"PostgreSQL on the loopback of the same machine; {data['machine']}, commit {data['commit']}; "
            "`python benchmarks/ledger.py`.",
        ]
    )


def sizes_of(data: dict[str, Any]) -> str:
    """Say how large the longest history is on each database."""
    return " and ".join(
        f"{max(sizes.values()) / 1000:.1f} GB ({database})" for database, sizes in data["megabytes"].items()
    )


def write_page() -> None:
    """Put the table into the documentation."""
    text = PAGE.read_text()
    before, rest = text.split(MARKERS[0])
    after = rest.split(MARKERS[1])[1]
    PAGE.write_text(f"{before}{MARKERS[0]}\n{table()}\n{MARKERS[1]}{after}")


def measure_rates(folder: Path, database: str) -> None:
    """Measure every scene on one database."""
    addresses = noted(folder, "ledgers")["made"][database]
    note(folder, database, {scene: measure(scene, addresses) for scene in SCENES})


def verify_longest(folder: Path) -> None:
    """Verify the longest history of each database, in a process of its own so that its memory is its own."""
    checks = {}
    for database, addresses in noted(folder, "ledgers")["made"].items():
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            checks[database] = pool.apply(verified, (addresses[max(addresses, key=int)],))
        print(database, json.dumps(checks[database]), flush=True)
    note(folder, "verify", checks)


def finish(folder: Path) -> None:
    """Save the figures of all steps, and remove what they were measured with."""
    figures = {
        "seconds": SECONDS,
        "repeats": REPEATS,
        "rates": {database: noted(folder, database) for database in ("postgresql", "sqlite")},
        "verification": noted(folder, "verify"),
        "megabytes": noted(folder, "ledgers")["megabytes"],
    }
    save("ledger", figures)
    remove(folder)


STEPS: dict[str, Callable[[Path], None]] = {
    "postgresql": lambda folder: measure_rates(folder, "postgresql"),
    "sqlite": lambda folder: measure_rates(folder, "sqlite"),
    "verify": verify_longest,
    "finish": finish,
}


def main() -> None:
    """Measure everything, or take one step of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="lines of the longest history")
    parser.add_argument("--table", action="store_true", help="only write the table again")
    parser.add_argument("--folder", type=Path, help="where the ledgers are, between the steps")
    parser.add_argument("--step", choices=["make", *STEPS], help="take one step of the measurement")
    given = parser.parse_args()
    if (given.folder is None) != (given.step is None):
        parser.error("--folder and --step go together")
    if given.step:
        take(given.folder, given.step, given.rows)
    elif not given.table:
        measure_everything(given.rows)
    if given.step in (None, "finish"):
        write_page()


def take(folder: Path, step: str, rows: int) -> None:
    """Take one step."""
    if step == "make":
        folder.mkdir(exist_ok=True)
        make_ledgers(folder, [0, rows // 10, rows])
    else:
        STEPS[step](folder)


def measure_everything(rows: int) -> None:
    """Take all steps, one after the other, in a temporary folder."""
    folder = Path(tempfile.mkdtemp(prefix="sfumato-ledger-"))
    try:
        for step in ("make", *STEPS):
            take(folder, step, rows)
    finally:
        if (folder / "ledgers.json").exists():
            remove(folder)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
