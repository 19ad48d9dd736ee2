"""Threads, processes and sudden death: never one unit too many, none lost, and the history always adds up."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from sfumato.ledger import Cost, Ledger, OverdraftError

ONE = Cost.pure("0.001")
CROWD = Path(__file__).with_name("crowd.py")
UNITS = 1_000


def crowd(*arguments: object) -> Any:
    command = [sys.executable, str(CROWD), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def adds_up(ledger: Ledger, charges: int) -> None:
    """Check that history, balance and chain agree."""
    assert ledger.verify().passed
    history = list(ledger.history("ada"))
    assert [charge.number for charge in history] == list(range(1, charges + 1))
    budget = ledger.budget("ada", "pure")
    assert budget.charges == charges
    assert budget.spent == sum(charge.amount for charge in history) == charges * ONE.amount


def test_64_threads_spend_a_budget_to_the_last_unit(ledger: Ledger) -> None:
    ledger.create("ada", kind="pure", limit=UNITS * ONE.amount)
    confirmed: list[int] = []
    errors: list[BaseException] = []
    together = threading.Barrier(64)

    def work() -> None:
        together.wait()
        try:
            while True:
                confirmed.append(ledger.charge("ada", ONE).number)
        except OverdraftError:
            pass
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sorted(confirmed) == list(range(1, UNITS + 1))
    adds_up(ledger, UNITS)


def test_8_processes_spend_a_budget_to_the_last_unit(ledger: Ledger, address: str) -> None:
    ledger.create("ada", kind="pure", limit=UNITS * ONE.amount)
    confirmed = crowd("spend", address, 8, 8)
    assert len(confirmed) == len(set(confirmed)) == UNITS
    assert {charge.key for charge in ledger.history()} == set(confirmed)
    adds_up(ledger, UNITS)


def test_a_hundred_processes_killed_while_they_charge(ledger: Ledger, address: str) -> None:
    ledger.create("ada", kind="pure", limit=10_000)
    outcome = crowd("kill", address, 100, 1)
    assert outcome["in_the_middle"] >= 60, "the processes died while nothing was happening"
    assert outcome["times_the_chain_was_broken"] == 0
    written = [charge.key for charge in ledger.history()]
    assert len(written) == len(set(written))
    assert set(outcome["confirmed"]) <= set(written), "what was confirmed is lost"
    assert set(written) == set(outcome["asked"]), "what was asked again was charged once"
    adds_up(ledger, len(written))


def test_charges_of_many_subjects_in_unlike_orders_do_not_lock_up(ledger: Ledger) -> None:
    from sfumato.ledger import Request

    names = [f"user {number}" for number in range(20)]
    ledger.create_each(names, kind="pure", limit=1)
    errors: list[BaseException] = []

    def work(shift: int) -> None:
        try:
            for turn in range(10):
                order = names[turn + shift :] + names[: turn + shift]
                outcomes = ledger.charge_each([Request(name, [ONE]) for name in order[:: 1 if shift % 2 else -1]])
                assert all(outcome.accepted for outcome in outcomes)
                ledger.charge_all([Request(name, [ONE]) for name in order])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(shift,)) for shift in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert {budget.charges for budget in ledger.budgets()} == {8 * 10 * 2}
    assert ledger.verify().passed


def test_one_key_in_many_threads_is_charged_once(ledger: Ledger) -> None:
    ledger.create("ada", kind="pure", limit=1)
    charges = []
    together = threading.Barrier(16)

    def work() -> None:
        together.wait()
        charges.append(ledger.charge("ada", ONE, key="the same"))

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {charge.hash for charge in charges} == {charges[0].hash}
    assert sorted(charge.replayed for charge in charges) == [False] + [True] * 15
    adds_up(ledger, 1)


def _charge_in_child(ledger: Ledger, times: int) -> None:
    for _ in range(times):
        ledger.charge("ada", ONE)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_ledger_survives_a_fork_on_both_sides(ledger: Ledger) -> None:
    ledger.create("ada", kind="pure", limit=1)
    ledger.charge("ada", ONE)
    children = [
        multiprocessing.get_context("fork").Process(target=_charge_in_child, args=(ledger, 5)) for _ in range(3)
    ]
    for child in children:
        child.start()
    for _ in range(5):
        ledger.charge("ada", ONE)
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    ledger.charge("ada", ONE)
    adds_up(ledger, 1 + 5 + 3 * 5 + 1)
