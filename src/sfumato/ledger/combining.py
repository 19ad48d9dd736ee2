"""Charges of many threads in one transaction.

A transaction costs a flush of the disk, whatever is in it.  Threads that charge at the same time therefore put their
requests on a list; one of them carries out the whole list while the others wait for their outcome.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")
_MOST_AT_ONCE = 512


@dataclass(eq=False)
class _Ticket(Generic[Q, A]):
    questions: Sequence[Q]
    called: threading.Event = field(default_factory=threading.Event)
    """Set when the ticket is done, or when it is its thread's turn to work."""
    done: bool = False
    abandoned: bool = False
    """Its thread was told to stop and will not work."""
    answers: Sequence[A] = ()
    error: Exception | None = None


class Combiner(Generic[Q, A]):
    """Answers the questions of many threads together.

    >>> combiner = Combiner(lambda numbers: [2 * number for number in numbers])
    >>> combiner.ask([1, 2])
    [2, 4]
    """

    def __init__(self, answer: Callable[[Sequence[Q]], Sequence[A]]) -> None:
        self._answer = answer
        self._start_anew()
        _EACH.add(self)

    def _start_anew(self) -> None:
        """Forget everybody: after a fork, the threads that waited or worked are not in this process."""
        self._waiting: list[_Ticket[Q, A]] = []
        self._busy = False
        self._lock = threading.Lock()

    def ask(self, questions: Sequence[Q]) -> list[A]:
        """Return an answer for each question; an error is raised in every thread whose questions it was about."""
        ticket: _Ticket[Q, A] = _Ticket(questions)
        try:
            with self._lock:
                self._waiting.append(ticket)
                if not self._busy:
                    self._call_next()
            ticket.called.wait()
            if not ticket.done:
                self._work()
        except BaseException:
            self._abandon(ticket)
            raise
        if ticket.error is not None:
            raise ticket.error
        return list(ticket.answers)

    def _work(self) -> None:
        """Carry out what waits, this thread's own ticket first in line, and call the next thread to work."""
        tickets: list[_Ticket[Q, A]] = []
        try:
            with self._lock:
                tickets = self._take()
            self._carry_out(tickets)
        finally:
            with self._lock:
                # Where this thread was told to stop, what was not its own is for the next one.
                self._waiting = [ticket for ticket in tickets[1:] if not ticket.done] + self._waiting
                self._call_next()

    def _call_next(self) -> None:
        self._waiting = [ticket for ticket in self._waiting if not ticket.abandoned]
        self._busy = bool(self._waiting)
        if self._waiting:
            self._waiting[0].called.set()

    def _abandon(self, ticket: _Ticket[Q, A]) -> None:
        """Leave the line: this thread was told to stop."""
        with self._lock:
            ticket.abandoned = True
            if ticket in self._waiting and ticket.called.is_set():
                self._call_next()

    def _take(self) -> list[_Ticket[Q, A]]:
        count = total = 0
        for ticket in self._waiting:
            total += len(ticket.questions)
            if count and total > _MOST_AT_ONCE:
                break
            count += 1
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken

    def _carry_out(self, tickets: list[_Ticket[Q, A]]) -> None:
        try:
            answers = self._answer([question for ticket in tickets for question in ticket.questions])
        except Exception as error:
            for ticket in tickets:
                ticket.error = error
        else:
            start = 0
            for ticket in tickets:
                ticket.answers = answers[start : start + len(ticket.questions)]
                start += len(ticket.questions)
        for ticket in tickets:
            ticket.done = True
            ticket.called.set()


_EACH: weakref.WeakSet[Combiner[Any, Any]] = weakref.WeakSet()


def _after_fork() -> None:
    for combiner in list(_EACH):
        combiner._start_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
