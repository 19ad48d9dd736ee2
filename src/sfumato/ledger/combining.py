"""Charges of many threads in one transaction.

A transaction costs a flush of the disk, whatever is in it.  Threads that charge at the same time therefore put their
requests on a list; one of them carries out the whole list while the others wait for their outcome.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")
_MOST_AT_ONCE = 512


@dataclass(eq=False)
class _Ticket(Generic[Q, A]):
    questions: Sequence[Q]
    called: threading.Event = field(default_factory=threading.Event)
    """Set when the ticket is done, or when it is its thread's turn to work."""
    done: bool = False
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
        self._waiting: list[_Ticket[Q, A]] = []
        self._busy = False
        self._lock = threading.Lock()

    def ask(self, questions: Sequence[Q]) -> list[A]:
        """Return an answer for each question; an error is raised in every thread whose questions it was about."""
        ticket: _Ticket[Q, A] = _Ticket(questions)
        with self._lock:
            self._waiting.append(ticket)
            works = not self._busy
            self._busy = True
        if not works:
            try:
                ticket.called.wait()
            except BaseException:
                self._abandon(ticket)
                raise
        if not ticket.done:
            self._work()
        if ticket.error is not None:
            raise ticket.error
        return list(ticket.answers)

    def _work(self) -> None:
        """Carry out what waits, this thread's own ticket first in line, and call the next thread to work."""
        with self._lock:
            tickets = self._take()
        try:
            self._carry_out(tickets)
        except BaseException:
            # This thread was told to stop: what was not its own is for the next one.
            with self._lock:
                self._waiting = tickets[1:] + self._waiting
            raise
        finally:
            with self._lock:
                self._call_next()

    def _call_next(self) -> None:
        self._busy = bool(self._waiting)
        if self._waiting:
            self._waiting[0].called.set()

    def _abandon(self, ticket: _Ticket[Q, A]) -> None:
        """Leave the line: this thread was told to stop while it waited."""
        with self._lock:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
                if ticket.called.is_set():
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
