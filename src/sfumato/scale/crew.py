"""Worker processes that sanitize batches side by side, with the outcome of a single process.

Batches go round and come back in order.  The noise of a record follows from the run key and the record's number, so who
drew it makes no difference.  Workers share one table: a mechanism that was loaded from a file is mapped by all of them, and
another table is written to a file for that purpose, which is removed when every worker has mapped it.

A worker reads its requests in a thread of its own, so that neither side can wait for the other with a full pipe; it
ends when the pipe is closed, also where this process is killed.
"""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from sfumato.foundation.checks import require_count
from sfumato.foundation.errors import DataError, ParameterError, SfumatoError
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism.base import TableMechanism
from sfumato.sanitize import Sanitizer
from sfumato.sanitize.sanitizer import Counts

T = TypeVar("T")
_WAITING = 2
"""Batches that each worker has at a time."""
ROW_BYTES = 1 << 30
"""Rows that are compiled once for all workers take no more than that; others are compiled where they occur."""


@dataclass(frozen=True)
class Work:
    """The texts of some records, one after the other, and the number of the first."""

    texts: list[str] = field(repr=False)
    width: int
    """Texts of one record."""
    first: int
    """Number of the first text."""
    key: RunKey | None = field(default=None, repr=False)
    """From which the noise follows; None for noise that nobody can repeat."""


@dataclass(frozen=True)
class Done:
    """Texts that may be seen."""

    texts: list[str] = field(repr=False)
    counts: Counts
    longest: int
    """Most words drawn for one record, over all its texts."""


def sanitize_work(sanitizer: Sanitizer, work: Work) -> Done:
    """Sanitize the texts of some records."""
    batch = sanitizer.batch(work.texts, key=work.key, first_record=work.first)
    if sanitizer.public_length is None:
        longest = max((sum(batch.lengths[at : at + work.width]) for at in _places(work)), default=0)
    else:
        # What the longest text had is not to be seen, and padding is drawn like the words it stands for.
        longest = sanitizer.public_length * work.width if work.texts else 0
    return Done(batch.texts, batch.counts, longest)


def _places(work: Work) -> range:
    """Return where the records begin among the texts."""
    return range(0, len(work.texts), work.width)


@dataclass(frozen=True)
class Task(Generic[T]):
    """A batch, and what belongs to it on this side."""

    work: Work
    about: T


class Alone:
    """Does the work in this process."""

    def __init__(self, sanitizer: Sanitizer) -> None:
        self._sanitizer = sanitizer

    def run(self, tasks: Iterable[Task[T]]) -> Iterator[tuple[T, Work, Done]]:
        """Yield what becomes of every task, in order."""
        for task in tasks:
            yield task.about, task.work, sanitize_work(self._sanitizer, task.work)


class Crew:
    """Does the work in several processes; used as a context."""

    def __init__(
        self,
        sanitizer: Sanitizer,
        workers: int,
        row_bytes: int = ROW_BYTES,
        tick: Callable[[int], None] | None = None,
    ) -> None:
        require_count(workers=workers, row_bytes=row_bytes)
        # Spawned, not forked: a copy of a process with threads may stand still, and would carry everything along.
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Connection[Any, Any]] = []
        self._processes = []
        with _equipment(sanitizer, row_bytes, tick) as equipment:
            for _ in range(workers):
                ours, theirs = context.Pipe()
                process = context.Process(target=_work, args=(theirs, equipment), daemon=True)
                process.start()
                theirs.close()
                self._pipes.append(ours)
                self._processes.append(process)
            for pipe in self._pipes:
                _with_worker(pipe.recv)  # it is ready, and needs no file name any more

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(timeout=1 if kind is None else 0)
            if process.is_alive():
                process.terminate()
                process.join()

    def run(self, tasks: Iterable[Task[T]]) -> Iterator[tuple[T, Work, Done]]:
        """Yield what becomes of every task, in order."""
        count = len(self._pipes)
        waiting: deque[tuple[int, Task[T]]] = deque()
        for number, task in enumerate(tasks):
            worker = number % count
            _with_worker(self._pipes[worker].send, task.work)
            waiting.append((worker, task))
            if len(waiting) == _WAITING * count:
                yield self._collect(*waiting.popleft())
        while waiting:
            yield self._collect(*waiting.popleft())

    def _collect(self, worker: int, task: Task[T]) -> tuple[T, Work, Done]:
        answer = _with_worker(self._pipes[worker].recv)
        if isinstance(answer, Done):
            return task.about, task.work, answer
        raise answer


@contextmanager
def _equipment(sanitizer: Sanitizer, row_bytes: int, tick: Callable[[int], None] | None) -> Iterator[bytes]:
    """Yield what a worker makes its sanitizer of; a table is in a file that is there until the context is left."""
    mechanism = sanitizer.mechanism
    # What cannot be removed is a file of public things only.
    with tempfile.TemporaryDirectory(prefix="sfumato-", ignore_cleanup_errors=True) as folder:
        if not isinstance(mechanism, TableMechanism) or mechanism.origin is not None:
            yield _pickled(sanitizer)
            return
        mechanism.origin = _written(mechanism, Path(folder) / "shared.sfm", row_bytes, tick)
        try:
            equipment = _pickled(sanitizer)
        finally:
            mechanism.origin = None
        yield equipment


def _written(
    mechanism: TableMechanism, path: Path, row_bytes: int, tick: Callable[[int], None] | None
) -> tuple[str, str] | None:
    """Write a table to a file; None where it cannot be stored, and every worker gets a copy."""
    from sfumato.mechanism import artifact

    try:
        return str(path), artifact.save(mechanism, path, row_bytes=row_bytes, tick=tick)
    except (ParameterError, OSError):
        return None


def _pickled(sanitizer: Sanitizer) -> bytes:
    try:
        return pickle.dumps(sanitizer)
    except Exception as error:
        raise DataError(
            f"this sanitizer cannot be sent to other processes ({type(error).__name__}); run with one worker"
        ) from None


def _with_worker(action: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return action(*arguments)
    except (EOFError, OSError):
        raise DataError(
            "a worker process has ended, perhaps because memory ran out; use fewer --workers, and --resume"
        ) from None


def _work(pipe: Connection[Any, Any], equipment: bytes) -> None:
    """Answer requests until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that was interrupted closes the pipe
    requests: SimpleQueue[Work | None] = SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, requests), daemon=True).start()
    sanitizer = pickle.loads(equipment)
    del equipment
    pipe.send(None)
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        while (work := requests.get()) is not None:
            answer: Done | Exception
            try:
                answer = sanitize_work(sanitizer, work)
            except SfumatoError as error:
                answer = error
            except Exception as error:
                # The message of a foreign error may hold words of the text.
                answer = DataError(f"a worker process failed: unexpected {type(error).__name__}; please report it")
            try:
                pipe.send(answer)
            except OSError:
                return


def _listen(pipe: Connection[Any, Any], requests: SimpleQueue[Work | None]) -> None:
    try:
        while True:
            requests.put(pipe.recv())
    except (EOFError, OSError):
        requests.put(None)
