"""``sfumato privatize``: a file in, a file that may be seen out, with its guarantee beside it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli import options as shared
from sfumato.cli import subjects
from sfumato.cli.artifact import SUFFIX, request_from
from sfumato.cli.progress import CompileProgress, error_console, output_console
from sfumato.cli.request import MechanismRequest
from sfumato.cli.running import Job, Run
from sfumato.cli.starting import Start
from sfumato.cli.subjects import Payment
from sfumato.cli.summary import print_summary
from sfumato.foundation.checks import gather, require_count, require_epsilon, require_one_of
from sfumato.foundation.errors import DataError, ParameterError
from sfumato.mechanism.digits import digits
from sfumato.sanitize import Sanitizer
from sfumato.sanitize.consistency import Consistency
from sfumato.sanitize.identifiers import IdentifierReplacer
from sfumato.sanitize.sanitizer import OUT_OF_VOCABULARY, require_public_length
from sfumato.scale import FORMATS, ReadOptions, checked_target, format_of
from sfumato.scale.compression import compression_of
from sfumato.scale.formats import require_no_foreign_name
from sfumato.scale.inputs import inputs_of, several
from sfumato.space.metric import available_threads

PIPE = "-"
_FILE = "Files"
_SAMPLES = 3
MOST_WORKERS = 16
"""On any machine; each takes a process, whatever the number of processors."""
_GUARANTEE = ".guarantee.json"


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


def require_workers(workers: int) -> None:
    """Workers are a whole number of processes that this machine can run."""
    require_count(workers=workers)
    most = max(MOST_WORKERS, 4 * available_threads())
    if workers > most:
        raise ParameterError(f"workers must be at most {most} here; more than there are processors save no time")


def privatize(
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="The file to sanitize, compressed (.gz, .zst) or not; a folder or a quoted pattern for the files in it; "
            "- for standard input.",
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="OUTPUT",
            help="The file to write (a folder, for several inputs); - for standard output.",
            rich_help_panel=_FILE,
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
    artifact: shared.Artifact = None,
    artifact_digest: shared.ArtifactDigest = None,
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
    workers: shared.Workers = 1,
    resume: shared.Resume = False,
    key_file: shared.KeyFilePath = None,
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
    if artifact is None and mechanism.endswith(SUFFIX):
        artifact, mechanism = Path(mechanism), "tem"
    request = MechanismRequest(
        mechanism, epsilon, neighbour_loss, tuning, space, space_words, keep, tuple(option or ()), allow_unsound,
        tuple(protect or ()), tuple(keep_stop_words or ()), attacker_success,
    )  # fmt: skip
    if artifact is not None:
        settled = {
            "mechanism": mechanism != "tem", "epsilon": epsilon, "neighbour_loss": neighbour_loss, "tuning": tuning,
            "attacker_success": attacker_success, "space": space != "default", "space_words": space_words,
            "option": option,
        }  # fmt: skip
        request = request_from(artifact, artifact_digest, request, settled)
    elif artifact_digest is not None:
        raise ParameterError("--artifact-digest goes with --artifact; name the file")
    gather(
        lambda: require_one_of(OUT_OF_VOCABULARY, oov=oov),
        lambda: require_one_of(tuple(Consistency), consistency=consistency),
        lambda: require_public_length(public_length),
        lambda: require_epsilon(digits=digit_epsilon) if digit_epsilon is not None else None,
        lambda: require_workers(workers),
    )
    by_digit = None if digit_epsilon is None else digits(epsilon=digit_epsilon)
    random_identifiers = None if identifiers is None else IdentifierReplacer(form=identifiers)
    reading = ReadOptions(tuple(column or ()), encoding, max_record_chars, delimiter, not no_quotes)
    start = Start(output, resume, key_file, seed, with_ledger=ledger is not None)
    jobs = _jobs(source, output, file_format, guarantee, _Replacing(force, resume))
    payment = Payment(ledger, subject_column, when_exhausted, budget_kind, name_subjects, subject_key)
    payment.check_key(start.seeded)
    if seed is not None:
        print(f"sfumato: NOT SECURE: the noise follows from seed {seed}; for experiments only", file=sys.stderr)
    _look_into(jobs[0], reading)
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
    run = Run(sanitizer, compiled, request, reading, payment, workers, show_samples, quiet, keeps=resume)
    key, state, place = start.begin(jobs, run.settings())
    summary = run.files(jobs, key, state, place)
    if not quiet:
        one = jobs[0] if len(jobs) == 1 else None
        console = error_console() if jobs[0].target is None else output_console()
        written = (Path(output),) if one is None else (one.target, one.guarantee)
        print_summary(console, summary, sanitizer, compiled, reading.columns, key, written)


@dataclass(frozen=True)
class _Replacing:
    """Which files that exist may be replaced."""

    force: bool
    resume: bool

    def checked(self, path: Path, sources: Sequence[Path], done: bool = False) -> Path:
        return checked_target(path, sources=sources, force=self.force or (done and self.resume))


def _jobs(source: str, output: str, file_format: str, guarantee: Path | None, replacing: _Replacing) -> list[Job]:
    require_one_of(("auto", *FORMATS), format=file_format)
    if source != PIPE and several(source):
        return _jobs_of_folder(source, output, file_format, guarantee, replacing)
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
    if target_format is None and file_format == "auto":
        require_no_foreign_name(output)
    inputs = () if source_path is None else (source_path,)
    target = None
    if output != PIPE:
        target = replacing.checked(Path(output), inputs)
        guarantee = guarantee or target.with_name(target.name + _GUARANTEE)
    if guarantee is not None:
        guarantee = replacing.checked(guarantee, inputs)
        if guarantee == target:
            raise DataError("output and guarantee cannot be the same file; choose another --guarantee")
    return [_checked(Job(source_path, source_format, target, target_format or source_format, guarantee))]


def _jobs_of_folder(
    source: str, output: str, file_format: str, guarantee: Path | None, replacing: _Replacing
) -> list[Job]:
    if output == PIPE or Path(output).is_file():
        raise DataError("several inputs need a folder for their outputs; name one with --output")
    if guarantee is not None:
        raise DataError("each of several outputs has its guarantee beside it; leave out --guarantee")
    folder = Path(output)
    inputs = inputs_of(source)
    paths = [one.path for one in inputs]
    if Path(source).is_dir() and folder.resolve().is_relative_to(Path(source).resolve()):
        raise DataError("the outputs would lie among the inputs; choose another folder")
    jobs = []
    for one in inputs:
        target = folder / one.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target = replacing.checked(target, paths, done=True)
        beside = replacing.checked(target.with_name(target.name + _GUARANTEE), paths, done=True)
        kind = file_format if file_format != "auto" else str(format_of(one.path))
        jobs.append(_checked(Job(one.path, kind, target, str(format_of(target)), beside, one.name.as_posix())))
    return jobs


def _checked(job: Job) -> Job:
    for path, kind in ((job.source, job.source_format), (job.target, job.target_format)):
        if path is not None and kind == "parquet" and compression_of(path):
            raise DataError("Parquet is compressed already; use a name that ends with .parquet")
    return job


def _look_into(job: Job, reading: ReadOptions) -> None:
    """Open the first file once, so that what is wrong with it is found before anything slow is begun."""
    if job.source is not None and job.source.is_file():
        with job.opened(reading):
            pass
