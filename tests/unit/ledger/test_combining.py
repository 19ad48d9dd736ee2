"""Many threads, one transaction: everybody gets the own answer, and nobody waits for ever."""

from __future__ import annotations

import gc
import multiprocessing
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from sfumato.ledger.combining import Combiner

PATIENCE = 30.0


def _in_threads(work: Callable[[int], None], count: int) -> None:
    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads), "a thread waits for ever"


def test_everybody_gets_the_own_answers_and_calls_are_shared() -> None:
    calls: list[int] = []

    def answer(numbers: Sequence[int]) -> list[int]:
        calls.append(len(numbers))
        time.sleep(0.002)
        return [number * number for number in numbers]

    combiner = Combiner(answer)
    wrong: list[int] = []

    def ask(thread: int) -> None:
        for turn in range(20):
            numbers = list(range(thread, thread + turn % 3))
            if combiner.ask(numbers) != [number * number for number in numbers]:
                wrong.append(thread)

    _in_threads(ask, 32)
    assert wrong == []
    assert sum(calls) == sum(turn % 3 for turn in range(20)) * 32
    assert len(calls) < 32 * 20


def test_no_more_than_a_portion_at_once_but_always_somebody() -> None:
    sizes: list[int] = []
    gate = threading.Event()

    def answer(numbers: Sequence[int]) -> list[int]:
        gate.wait(PATIENCE)
        sizes.append(len(numbers))
        return list(numbers)

    combiner = Combiner(answer)
    with ThreadPoolExecutor(9) as pool:
        waiting = [pool.submit(combiner.ask, range(200)) for _ in range(8)]
        waiting.append(pool.submit(combiner.ask, range(2000)))
        time.sleep(0.1)
        gate.set()
        assert sum(len(one.result(PATIENCE)) for one in waiting) == 8 * 200 + 2000
    assert all(size <= 512 or size == 2000 for size in sizes)


def test_an_error_reaches_those_it_is_about_and_the_line_goes_on() -> None:
    def answer(numbers: Sequence[int]) -> list[int]:
        if -1 in numbers:
            raise ValueError("no")
        return list(numbers)

    combiner = Combiner(answer)
    with pytest.raises(ValueError, match="no"):
        combiner.ask([-1])
    assert combiner.ask([1]) == [1]


class _Stop(BaseException):
    """As an interruption from the keyboard."""


def test_the_work_of_an_interrupted_thread_is_taken_over() -> None:
    entered, go_on = threading.Event(), threading.Event()
    turns: list[list[int]] = []

    def answer(numbers: Sequence[int]) -> list[int]:
        turns.append(list(numbers))
        if len(turns) == 1:
            return list(numbers)
        if len(turns) == 2:
            entered.set()
            go_on.wait(PATIENCE)
            raise _Stop
        return list(numbers)

    combiner = Combiner(answer)
    assert combiner.ask([0]) == [0]
    outcomes: dict[int, object] = {}

    def ask(number: int) -> None:
        try:
            outcomes[number] = combiner.ask([number])
        except _Stop:
            outcomes[number] = "stopped"

    first = threading.Thread(target=ask, args=(1,), daemon=True)
    first.start()
    assert entered.wait(PATIENCE)
    others = [threading.Thread(target=ask, args=(number,), daemon=True) for number in (2, 3)]
    for thread in others:
        thread.start()
    time.sleep(0.05)
    go_on.set()
    for thread in (first, *others):
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert outcomes == {1: "stopped", 2: [2], 3: [3]}
    assert combiner.ask([4]) == [4]


def test_tickets_of_an_interrupted_batch_are_answered_later() -> None:
    """The thread at work is stopped with the questions of others in its hands."""
    blocked, release = threading.Event(), threading.Event()
    turns: list[list[int]] = []

    def answer(numbers: Sequence[int]) -> list[int]:
        turns.append(list(numbers))
        if numbers[0] == 0:
            blocked.set()
            release.wait(PATIENCE)
        elif len(turns) == 2:
            raise _Stop
        return list(numbers)

    combiner = Combiner(answer)
    outcomes: dict[int, object] = {}

    def ask(number: int) -> None:
        try:
            outcomes[number] = combiner.ask([number])
        except _Stop:
            outcomes[number] = "stopped"

    threads = [threading.Thread(target=ask, args=(0,), daemon=True)]
    threads[0].start()
    assert blocked.wait(PATIENCE)
    for number in (1, 2, 3):
        threads.append(threading.Thread(target=ask, args=(number,), daemon=True))
        threads[-1].start()
        time.sleep(0.05)  # they stand in line in this order
    release.set()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert outcomes == {0: [0], 1: "stopped", 2: [2], 3: [3]}
    assert turns[1:] == [[1, 2, 3], [2, 3]]


def test_a_thread_that_leaves_the_line_does_not_hold_it_up(monkeypatch: pytest.MonkeyPatch) -> None:
    combiner: Combiner[int, int] = Combiner(list)
    wait = threading.Event.wait
    monkeypatch.setattr(threading.Event, "wait", lambda event, timeout=None: (_ for _ in ()).throw(_Stop))
    with pytest.raises(_Stop):
        combiner.ask([1])
    monkeypatch.setattr(threading.Event, "wait", wait)
    assert combiner.ask([2]) == [2]


def _ask_in_child(combiner: Combiner[int, int], answers: multiprocessing.Queue[list[int]]) -> None:
    answers.put(combiner.ask([5]))


def test_a_forked_process_does_not_wait_for_threads_it_does_not_have() -> None:
    blocked, release = threading.Event(), threading.Event()

    def answer(numbers: Sequence[int]) -> list[int]:
        if numbers[0] == 0:
            blocked.set()
            release.wait(PATIENCE)
        return list(numbers)

    combiner = Combiner(answer)
    worker = threading.Thread(target=combiner.ask, args=([0],), daemon=True)
    worker.start()
    assert blocked.wait(PATIENCE)
    forking = multiprocessing.get_context("fork")
    answers: multiprocessing.Queue[list[int]] = forking.Queue()
    child = forking.Process(target=_ask_in_child, args=(combiner, answers))
    child.start()
    try:
        assert answers.get(timeout=PATIENCE) == [5]
    finally:
        child.join(PATIENCE)
        release.set()
        worker.join(PATIENCE)
    assert child.exitcode == 0


def test_combiners_are_not_kept_alive() -> None:
    from sfumato.ledger import combining

    gc.collect()
    before = len(combining._EACH)
    combiner: Combiner[int, int] | None = Combiner(list)
    assert len(combining._EACH) == before + 1
    combiner = None
    gc.collect()
    assert len(combining._EACH) == before
    assert combiner is None
