"""The program ``sfumato``: its commands, and what becomes of errors.

An error is one line on standard error and an exit code: 2 for something to be mended by the user, 70 for a defect of
this program, 130 and 143 for an interruption, 141 for a reader of our output that went away.  A message never holds
words of the input; of foreign exceptions, whose messages might, only the type is shown.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Annotated, Any

import typer

import sfumato
from sfumato.cli import (
    account,
    artifact,
    audit,
    budget,
    compare,
    experiment,
    explain,
    latent,
    mechanisms,
    privatize,
    serve,
    spaces,
    train,
    verification,
)
from sfumato.cli.argument_help import command_of
from sfumato.foundation.errors import SfumatoError

USAGE, DEFECT, INTERRUPTED, BROKEN_PIPE, TERMINATED = 2, 70, 130, 141, 143
_ADVICE = {
    errno.ENOENT: "check how its path is written",
    errno.EACCES: "change its permissions, or choose another place",
    errno.EROFS: "choose another place",
    errno.ENOSPC: "make room, and run it again",
}
"""What to do about errors of the operating system."""

# Typer has brought its own copy of click since 0.26: the class is found by name, wherever it lives.
_USAGE_ERRORS: tuple[type[Exception], ...] = tuple(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)

app = typer.Typer(
    name="sfumato",
    help="Text privacy with differential privacy: texts that may be seen, with a guarantee that can be checked.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("privatize")(privatize.privatize)
app.command("compile")(artifact.compile_command)
app.command("explain")(explain.explain)
app.command("compare")(compare.compare_command)
app.command("verify")(verification.verify)
app.command("audit")(audit.audit)
app.command("mechanisms")(mechanisms.mechanisms)
app.command("serve")(serve.serve)
app.command("train")(train.train)
app.add_typer(spaces.app, name="space")
app.add_typer(account.app, name="account")
app.add_typer(budget.app, name="budget")
app.add_typer(latent.app, name="latent")
app.add_typer(experiment.app, name="experiment")


class _Terminated(BaseException):
    """The process was asked to end."""


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sfumato {sfumato.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Text privacy with differential privacy: texts that may be seen, with a guarantee that can be checked."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        with _ended_by_exception():
            given = privatize.with_sample_count(sys.argv[1:] if arguments is None else arguments)
            code = command_of(app)(args=given, prog_name="sfumato", standalone_mode=False)
            sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BaseException as error:
        if os.environ.get("SFUMATO_DEBUG"):
            traceback.print_exc()
        code, message = _outcome(error)
        if isinstance(error, (OSError, SystemExit)):
            _abandon_output()
        if message:
            # A reader that went away from standard error as well leaves nobody to tell.
            with contextlib.suppress(OSError):
                print(f"sfumato: {' '.join(message.split())}", file=sys.stderr)
        return code


def _outcome(error: BaseException) -> tuple[int, str]:
    """Return the exit code and the line for an error."""
    if isinstance(error, SfumatoError):
        return USAGE, str(error)
    if isinstance(error, _USAGE_ERRORS):
        context = getattr(error, "ctx", None)
        command = "sfumato" if context is None else context.command_path
        return USAGE, f"{error.format_message()} (see {command} --help)"  # type: ignore[attr-defined]
    if isinstance(error, (KeyboardInterrupt, typer.Abort)):
        return INTERRUPTED, "interrupted"
    if isinstance(error, _Terminated):
        return TERMINATED, "asked to end"
    if isinstance(error, (SystemExit, BrokenPipeError)):
        return BROKEN_PIPE, ""  # typer ends the process on a broken pipe
    if isinstance(error, OSError):
        what = error.strerror or f"reading or writing failed ({type(error).__name__})"
        advice = _ADVICE.get(error.errno or 0)
        what = f"{what}; {advice}" if advice else what
        return USAGE, f"{error.filename}: {what}" if isinstance(error.filename, (str, os.PathLike)) else what
    if isinstance(error, MemoryError):
        return USAGE, "not enough memory; use fewer words of the space (--space-words) or a smaller --max-record-chars"
    hint = "please report it; SFUMATO_DEBUG=1 shows the traceback, which may hold words of the input"
    return DEFECT, f"unexpected {type(error).__name__}; {hint}"


@contextlib.contextmanager
def _ended_by_exception() -> Iterator[None]:
    """Let a request to end unwind the stack, so that no unfinished file is left."""

    def end(number: int, frame: FrameType | None) -> None:
        raise _Terminated

    try:
        before: Any = signal.signal(signal.SIGTERM, end)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _abandon_output() -> None:
    """Send what is left for standard output nowhere: flushing it at the end would fail once more."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        return
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())
