"""Many processes and threads that charge one subject, and processes that are killed while they do.

A program of its own, so that it can fork: ``python crowd.py spend ADDRESS PROCESSES THREADS`` or ``python crowd.py
kill ADDRESS TIMES SEED``.  It prints what was confirmed, as JSON.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable

from sfumato.ledger import Cost, Ledger, OverdraftError

ONE = Cost.pure("0.001")
SUBJECT = "ada"
THREADS_OF_A_VICTIM = 3


def in_child(work: Callable[[int], None]) -> tuple[int, int]:
    """Fork a process that does ``work`` with the writing end of a pipe; return its number and the reading end."""
    reading, writing = os.pipe()
    number = os.fork()
    if number:
        os.close(writing)
        return number, reading
    os.close(reading)
    code = 1
    try:
        work(writing)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def charge_until_refused(address: str, process: int, threads: int, writing: int) -> None:
    """Charge one unit at a time in every thread, telling each confirmed key, until nothing is left."""
    errors: list[BaseException] = []

    def work(thread: int) -> None:
        number = 0
        try:
            while True:
                key = f"{process}:{thread}:{number}"
                ledger.charge(SUBJECT, ONE, key=key)
                os.write(writing, f"{key}\n".encode())
                number += 1
        except OverdraftError:
            pass
        except BaseException as error:
            errors.append(error)

    with Ledger.open(address, create=False, timeout=120) as ledger:
        crowd = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
        for thread in crowd:
            thread.start()
        for thread in crowd:
            thread.join()
    if errors:
        raise errors[0]


def spend(address: str, processes: int, threads: int) -> list[str]:
    """Let all of them spend the budget; return the keys of the charges that were confirmed."""
    children = [
        in_child(lambda writing, process=process: charge_until_refused(address, process, threads, writing))  # type: ignore[misc]
        for process in range(processes)
    ]
    confirmed: list[str] = []

    def read(end: int) -> None:
        with os.fdopen(end) as stream:
            confirmed.extend(stream.read().split())

    readers = [threading.Thread(target=read, args=(end,)) for _, end in children]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child, _ in children]
    if any(codes):
        raise SystemExit(f"processes ended with {codes}")
    return confirmed


def victim(address: str, round_: int, doubtful: list[str], writing: int) -> None:
    """Charge for ever; begin with the keys of which the last victim did not hear."""

    def work(thread: int) -> None:
        number = 0
        while True:
            key = f"{round_}:{thread}:{number}"
            os.write(writing, f"asked {key}\n".encode())
            ledger.charge(SUBJECT, ONE, key=key)
            os.write(writing, f"done {key}\n".encode())
            number += 1

    with Ledger.open(address, create=False, timeout=120) as ledger:
        for key in doubtful:
            ledger.charge(SUBJECT, ONE, key=key)
            os.write(writing, f"done {key}\n".encode())
        crowd = [threading.Thread(target=work, args=(thread,)) for thread in range(THREADS_OF_A_VICTIM)]
        for thread in crowd:
            thread.start()
        for thread in crowd:
            thread.join()


def kill(address: str, times: int, seed: int) -> dict[str, object]:
    """Kill one process after the other; return the keys that were asked for and confirmed."""
    pick = random.Random(seed)
    asked: set[str] = set()
    done: set[str] = set()
    in_the_middle = problems = 0
    for round_ in range(times):
        doubtful = sorted(asked - done)
        child, reading = in_child(lambda writing: victim(address, round_, doubtful, writing))  # noqa: B023
        # One of ten dies while it opens the ledger, the others while they charge.
        if pick.random() < 0.9:
            select.select([reading], [], [], 60)
        time.sleep(pick.uniform(0, 0.04))
        os.kill(child, signal.SIGKILL)
        with os.fdopen(reading) as stream:
            lines = [line.split() for line in stream.read().splitlines()]
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if ended != -signal.SIGKILL:
            raise SystemExit(f"a process ended by itself, with {ended}")
        asked |= {key for what, key in lines if what == "asked"}
        done |= {key for what, key in lines if what == "done"}
        in_the_middle += bool(asked - done)
        if round_ % 5 == 4:
            with Ledger.open(address, create=False) as ledger:
                problems += not ledger.verify().passed
    with Ledger.open(address, create=False) as ledger:
        for key in sorted(asked - done):
            ledger.charge(SUBJECT, ONE, key=key)
    return {
        "asked": sorted(asked),
        "confirmed": sorted(done),
        "in_the_middle": in_the_middle,
        "times_the_chain_was_broken": problems,
    }


if __name__ == "__main__":
    what, where, *numbers = sys.argv[1:]
    outcome = {"spend": spend, "kill": kill}[what](where, *map(int, numbers))  # type: ignore[operator]
    print(json.dumps(outcome))
