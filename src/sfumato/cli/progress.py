"""Progress on standard error: bars on a terminal, else nothing but the stages of a long preparation."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

_PATIENCE_SECONDS = 10.0
"""Without a terminal, stages are named only after so long: a short run says nothing."""


def error_console() -> Console:
    """Return the console for everything that is not the output itself."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def output_console() -> Console:
    """Return the console of standard output."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def is_shown(quiet: bool) -> bool:
    """Return whether anybody watches."""
    return not quiet and sys.stderr.isatty()


class CompileProgress:
    """Shows the stages of compiling, and the rows done in each."""

    def __init__(self, quiet: bool = False) -> None:
        self.prefix = ""
        """Written before the stage."""
        self._quiet = quiet
        self._start = time.monotonic()
        self._stack = ExitStack()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if is_shown(self._quiet):
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            columns = (
                SpinnerColumn(),
                TextColumn("{task.description}"),
                TextColumn("{task.completed:,.0f} rows"),
                TimeElapsedColumn(),
            )
            self._bar = self._stack.enter_context(Progress(*columns, console=error_console(), transient=True))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def say(self, stage: str) -> None:
        """Begin a stage."""
        if self._bar is None:
            if not self._quiet and time.monotonic() - self._start > _PATIENCE_SECONDS:
                print(f"sfumato: {self.prefix}{stage}", file=sys.stderr, flush=True)
            return
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(self.prefix + stage, total=None)

    def tick(self, rows: int) -> None:
        """Count rows."""
        if self._bar is not None and self._task is not None:
            self._bar.advance(self._task, rows)


class RecordProgress:
    """Shows how much of a file is done, and how fast."""

    def __init__(self, quiet: bool = False) -> None:
        self.prefix = ""
        """Written before the state."""
        self._shown = is_shown(quiet)
        self._stack = ExitStack()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if self._shown:
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            columns = (
                TextColumn("sanitizing"),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("{task.fields[state]}"),
                TimeRemainingColumn(),
            )
            self._bar = self._stack.enter_context(Progress(*columns, console=error_console(), transient=True))
            self._task = self._bar.add_task("sanitizing", total=None, state="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def update(self, done: int, total: int | None, records: int, words: int) -> None:
        """Show the state after a batch."""
        if self._bar is None or self._task is None:
            return
        elapsed = self._bar.tasks[0].elapsed or 0.0
        rate = f", {words / elapsed:,.0f} words/s" if elapsed > 0 else ""
        self._bar.update(self._task, completed=done, total=total, state=f"{self.prefix}{records:,} records{rate}")
