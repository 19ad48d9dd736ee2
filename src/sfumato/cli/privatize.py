"""``sfumato privatize``: a file in, a file that may be seen out, with its guarantee beside it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, BinaryIO, cast

import typer

from sfumato.cli import options as shared
from sfumato.cli import subjects
from sfumato.cli.guarantee_file import guarantee_record
from sfumato.cli.progress import CompileProgress, RecordProgress, error_console, output_console
from sfumato.cli.request import Compiled, MechanismRequest
from sfumato.cli.subjects import Payment
from sfumato.cli.summary import print_summary
from sfumato.foundation.checks import gather, require_count, require_one_of
from sfumato.foundation.errors import DataError
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism.digits import digits
from sfumato.sanitize import Sanitizer
from sfumato.sanitize.consistency import Consistency
from sfumato.sanitize.identifiers import IdentifierReplacer
from sfumato.sanitize.sanitizer import OUT_OF_VOCABULARY
from sfumato.scale import (
    FORMATS,
    PendingFile,
    Reader,
    ReadOptions,
    RunSummary,
    checked_target,
    format_of,
    open_reader,
    open_writer,
    sanitize_records,
)

PIPE = "-"
_FILE = "Files"
_SAMPLES = 3


@dataclass(frozen=True)
class Files:
    """What is read and what is written."""

    source: Path | None
    """None for standard input."""
    source_format: str
    target: Path | None
    """None for standard output."""
    target_format: str
    guarantee: Path | None
    """None where the output goes to a pipe and no file is named."""


def with_sample_count(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with the number that may be left out behind ``--show-samples``.

    >>> with_sample_count(["--show-samples", "--quiet"])
    ['--show-samples', '3', '--quiet']
    """
    given: list[str] = []
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=False):
        given.append(argument)
        if argument == "--show-samples" and not following.isdecimal():
            given.append(str(_SAMPLES))
    return given


def privatize(
    source: Annotated[str, typer.Argument(metavar="INPUT", help="The file to sanitize; - for standard input.")],
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="OUTPUT", help="The file to write; - for standard output.", rich_help_panel=_FILE
        ),
    ],
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column", "-c", metavar="NAME", help="A column that holds text; may be repeated.", rich_help_panel=_FILE
        ),
    ] = None,
    epsilon: shared.Epsilon = None,
    neighbour_loss: shared.NeighbourLoss = None,
    attacker_success: shared.AttackerSuccess = None,
    mechanism: shared.MechanismName = "tem",
    tuning: shared.Tuning = None,
    space: shared.SpaceName = "default",
    space_words: shared.SpaceWords = None,
    keep: shared.Keep = None,
    oov: shared.OutOfVocabulary = "draw",
    no_case: Annotated[
        bool,
        typer.Option("--no-case", help="Do not carry letter case over to the new words.", rich_help_panel="Mechanism"),
    ] = False,
    protect: shared.Protect = None,
    keep_stop_words: shared.StopWords = None,
    consistency: shared.SharedDraws = "token",
    public_length: shared.PublicLength = None,
    digit_epsilon: shared.DigitEpsilon = None,
    identifiers: shared.Identifiers = None,
    option: shared.MechanismOption = None,
    allow_unsound: shared.AllowUnsound = False,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            metavar="N",
            help="Take the noise from this number. NOT SECURE: whoever knows it can undo the noise.",
            rich_help_panel="Mechanism",
        ),
    ] = None,
    file_format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="NAME",
            help="Format of the input: csv, tsv, jsonl, parquet or txt (a record for each line); auto goes by the "
            "name. The output's format goes by its name, and is the input's where that says nothing.",
            rich_help_panel=_FILE,
        ),
    ] = "auto",
    encoding: Annotated[
        str,
        typer.Option(
            "--encoding", metavar="NAME", help="Encoding of the input; the output is UTF-8.", rich_help_panel=_FILE
        ),
    ] = "utf-8",
    delimiter: Annotated[
        str | None,
        typer.Option(
            "--delimiter", metavar="CHARACTER", help="Between the fields of a csv or tsv input.", rich_help_panel=_FILE
        ),
    ] = None,
    no_quotes: Annotated[
        bool,
        typer.Option(
            "--no-quotes", help="Double quotes in a csv or tsv input are ordinary characters.", rich_help_panel=_FILE
        ),
    ] = False,
    max_record_chars: Annotated[
        int,
        typer.Option(
            "--max-record-chars", metavar="N", min=1, help="Most characters in one record.", rich_help_panel=_FILE
        ),
    ] = 20_000_000,
    guarantee: Annotated[
        Path | None,
        typer.Option(
            "--guarantee",
            metavar="FILE",
            help="Where to write the guarantee; OUTPUT.guarantee.json where it is not given.",
            rich_help_panel=_FILE,
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Replace files that exist.", rich_help_panel=_FILE)
    ] = False,
    show_samples: Annotated[
        int,
        typer.Option(
            "--show-samples",
            min=0,
            metavar="[N]",
            help=f"Show so many texts before and after, to the owner; {_SAMPLES} where N is left out.",
        ),
    ] = 0,
    ledger: subjects.LedgerAddress = None,
    subject_column: subjects.SubjectColumn = None,
    when_exhausted: subjects.WhenExhausted = "skip",
    budget_kind: subjects.BudgetKind = None,
    name_subjects: subjects.NameSubjects = False,
    subject_key: subjects.SubjectKey = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")] = False,
) -> None:
    """Sanitize the text columns of a file.

    Every protected word is replaced by a random one that is more likely to be near in meaning. Other columns pass
    through unchanged. The guarantee is written beside the output.
    """
    request = MechanismRequest(
        mechanism, epsilon, neighbour_loss, tuning, space, space_words, keep, tuple(option or ()), allow_unsound,
        tuple(protect or ()), tuple(keep_stop_words or ()), attacker_success,
    )  # fmt: skip
    gather(
        lambda: require_one_of(OUT_OF_VOCABULARY, oov=oov),
        lambda: require_one_of(tuple(Consistency), consistency=consistency),
        lambda: require_count(public_length=public_length) if public_length is not None else None,
    )
    by_digit = None if digit_epsilon is None else digits(epsilon=digit_epsilon)
    random_identifiers = None if identifiers is None else IdentifierReplacer(form=identifiers)
    reading = ReadOptions(tuple(column or ()), encoding, max_record_chars, delimiter, not no_quotes)
    files = _files(source, output, file_format, guarantee, force)
    if seed is not None:
        print(f"sfumato: NOT SECURE: the noise follows from seed {seed}; for experiments only", file=sys.stderr)
    key = None if seed is None else RunKey.from_seed(seed)
    payment = Payment(ledger, subject_column, when_exhausted, budget_kind, name_subjects, subject_key)
    payment.check_key(key)
    with ExitStack() as stack:
        reader = _open_source(files, reading, stack)
        with CompileProgress(quiet) as compiling:
            compiled = request.compile(compiling)
        sanitizer = Sanitizer(
            compiled.mechanism,
            policy=compiled.policy,
            oov=oov,
            carry_case=not no_case,
            consistency=consistency,
            public_length=public_length,
            digits=by_digit,
            identifiers=random_identifiers,
        )
        summary = _run(sanitizer, compiled, request, reader, files, key, show_samples, quiet, payment)
    if not quiet:
        console = error_console() if files.target is None else output_console()
        print_summary(console, summary, sanitizer, compiled, key, (files.target, files.guarantee))


def _files(source: str, output: str, file_format: str, guarantee: Path | None, force: bool) -> Files:
    require_one_of(("auto", *FORMATS), format=file_format)
    source_path = None if source == PIPE else Path(source)
    target_format = None if output == PIPE else format_of(output)
    source_format = file_format
    if file_format == "auto":
        found = target_format if source_path is None else format_of(source_path)
        if found is None:
            raise DataError(
                f"the format of the input cannot be told from a name; give --format, one of {', '.join(FORMATS)}"
            )
        source_format = found
    inputs = () if source_path is None else (source_path,)
    target = None
    if output != PIPE:
        target = checked_target(Path(output), sources=inputs, force=force)
        guarantee = guarantee or target.with_name(target.name + ".guarantee.json")
    if guarantee is not None:
        guarantee = checked_target(guarantee, sources=inputs, force=force)
        if guarantee == target:
            raise DataError("output and guarantee cannot be the same file; choose another --guarantee")
    return Files(source_path, source_format, target, target_format or source_format, guarantee)


def _open_source(files: Files, reading: ReadOptions, stack: ExitStack) -> Reader:
    total = None
    if files.source is None:
        stream = cast(BinaryIO, sys.stdin.buffer)
    else:
        stream = cast(BinaryIO, stack.enter_context(files.source.open("rb")))
        total = files.source.stat().st_size if files.source.is_file() else None
    reader = open_reader(stream, files.source_format, reading, total)
    stack.callback(reader.close)
    return reader


def _run(
    sanitizer: Sanitizer,
    compiled: Compiled,
    request: MechanismRequest,
    reader: Reader,
    files: Files,
    key: RunKey | None,
    samples: int,
    quiet: bool,
    payment: Payment,
) -> RunSummary:
    with ExitStack() as stack:
        release = stack.enter_context(payment.opened(sanitizer, key))
        # Both files are begun before the first record is read: a place that cannot be written is found now.
        pending = None if files.target is None else stack.enter_context(PendingFile(files.target))
        beside = None if files.guarantee is None else stack.enter_context(PendingFile(files.guarantee))
        stream = cast(BinaryIO, sys.stdout.buffer) if pending is None else pending.stream
        bar = stack.enter_context(RecordProgress(quiet))

        def progress(state: RunSummary) -> None:
            bar.update(*reader.progress(), state.records, state.counts.protected + state.counts.kept)

        writer = open_writer(stream, files.target_format, reader)
        source, writer = payment.between(reader, writer, release)
        summary = sanitize_records(sanitizer, source, writer, key=key, samples=samples, progress=progress)
        if release is not None:
            summary = replace(summary, records=release.tally.released)
        stream.flush()
        if beside is not None:
            digest = None if pending is None else pending.sha256()
            record = guarantee_record(sanitizer, compiled, request, summary, reader.text_columns, key, digest)
            record["settings"] |= payment.settings(release)
            beside.stream.write(json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n")
            beside.sha256()  # finish it before either file is moved: what can still fail should fail now
        # The guarantee goes first: an output is never there without it.
        for file in (beside, pending):
            if file is not None:
                file.commit()
        subjects.report(release)
    return summary
