"""``sfumato audit``: does a mechanism, or a file that was made by one, keep its promise?"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, cast

import typer

from sfumato.cli import options as shared
from sfumato.cli.policies import policy_of
from sfumato.cli.progress import CompileProgress, output_console
from sfumato.cli.request import MechanismRequest, load_space
from sfumato.foundation.checks import gather, require_count, require_one_of, require_probability
from sfumato.foundation.errors import DataError, ParameterError
from sfumato.foundation.guarantee import Guarantee, guarantee_from_json
from sfumato.scale import FORMATS, ReadOptions, checked_target, format_of, open_reader
from sfumato.space import Space

if TYPE_CHECKING:
    from sfumato.audit import AuditReport
    from sfumato.audit.prior import Prior

_FILE = "Files"
_EVERYTHING = "every word is protected"


def audit(
    original: Annotated[
        Path | None,
        typer.Argument(metavar="[ORIGINAL]", help="A file before it was privatized; a mechanism where it is left out."),
    ] = None,
    privatized: Annotated[Path | None, typer.Argument(metavar="[PRIVATIZED]", help="The same file afterwards.")] = None,
    column: Annotated[
        list[str] | None,
        typer.Option("--column", "-c", metavar="NAME", help="A column that holds text.", rich_help_panel=_FILE),
    ] = None,
    guarantee: Annotated[
        Path | None,
        typer.Option(
            "--guarantee",
            metavar="FILE",
            help="The claim; PRIVATIZED.guarantee.json where it is not given.",
            rich_help_panel=_FILE,
        ),
    ] = None,
    epsilon: shared.Epsilon = None,
    neighbour_loss: shared.NeighbourLoss = None,
    mechanism: shared.MechanismName = "tem",
    tuning: shared.Tuning = None,
    space: shared.SpaceName = "default",
    space_words: shared.SpaceWords = None,
    keep: shared.Keep = None,
    protect: shared.Protect = None,
    keep_stop_words: shared.StopWords = None,
    option: shared.MechanismOption = None,
    allow_unsound: shared.AllowUnsound = False,
    pairs: Annotated[int, typer.Option("--pairs", metavar="N", help="How many pairs of words to draw for.")] = 20,
    draws: Annotated[int, typer.Option("--draws", metavar="N", help="Draws counted for each word of a pair.")] = 10_000,
    confidence: Annotated[
        float, typer.Option("--confidence", metavar="SHARE", help="Confidence of all lower bounds together.")
    ] = 0.99,
    prior: Annotated[
        str,
        typer.Option(
            "--prior",
            metavar="NAME",
            help="What the attacker knows of the words beforehand: uniform, or a language whose word frequencies are "
            "known, such as en (extra experiments).",
        ),
    ] = "uniform",
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page.", rich_help_panel=_FILE)
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json-file", metavar="FILE", help="Write the figures.", rich_help_panel=_FILE)
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Replace files that exist.", rich_help_panel=_FILE)
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Audit a mechanism, or a privatized file beside its original, and say in plain words what was found.

    The exit code is 1 where the claim is refuted. A file is compared token by token; give the policy it was made with
    (--protect, --keep, --keep-stop-words), because what is kept was never promised.
    """
    gather(
        lambda: require_count(pairs=pairs, draws=draws),
        lambda: require_probability(confidence=confidence),
        lambda: require_one_of((".html", ".htm"), html=html.suffix) if html is not None else None,
    )
    targets = _targets(html, json_file, force)
    policy_options = (tuple(protect or ()), keep, tuple(keep_stop_words or ()))
    if original is None:
        request = MechanismRequest(
            mechanism, epsilon, neighbour_loss, tuning, space, space_words, keep, tuple(option or ()), allow_unsound,
            policy_options[0], policy_options[2],
        )  # fmt: skip
        report = _of_mechanism(request, prior, pairs, draws, confidence)
    else:
        if privatized is None:
            raise ParameterError("give both files, the original and the privatized one; or none, to audit a mechanism")
        report = _of_files(original, privatized, tuple(column or ()), guarantee, policy_options, confidence, space)
    _hand_over(report, targets, as_json)
    if report.outcome == "refuted":
        raise typer.Exit(1)


def _of_mechanism(request: MechanismRequest, prior: str, pairs: int, draws: int, confidence: float) -> AuditReport:
    from sfumato.audit import audit_mechanism
    from sfumato.audit.channel import input_words

    known = _prior(prior, ["the"])  # the library is looked for before anything slow is begun
    with CompileProgress() as progress:
        compiled = request.compile(progress)
        progress.prefix = ""
        progress.say("auditing")
        known = _prior(prior, input_words(compiled.mechanism))
        return audit_mechanism(
            compiled.mechanism, prior=known, pairs=pairs, draws=draws, confidence=confidence, tick=progress.tick
        )


def _prior(name: str, words: list[str]) -> Prior:
    from sfumato.audit import frequency_prior, uniform_prior

    return uniform_prior(words) if name == "uniform" else frequency_prior(words, name)


def _of_files(
    original: Path,
    privatized: Path,
    columns: tuple[str, ...],
    guarantee: Path | None,
    policy_options: tuple[tuple[str, ...], Path | None, tuple[str, ...]],
    confidence: float,
    space: str,
) -> AuditReport:
    from sfumato.audit import audit_texts

    beside = guarantee or privatized.with_name(privatized.name + ".guarantee.json")
    claim, settings = _claim(beside)
    columns = columns or tuple(settings.get("columns") or ())
    policy = policy_of(*policy_options)
    untested = ""
    if settings.get("policy", _EVERYTHING) != _EVERYTHING and not policy.keeps:
        untested = "the file was made with a policy that keeps some words; give the same --protect, --keep or --keep-stop-words"
    with CompileProgress() as progress:
        progress.say("comparing the files")
        return audit_texts(
            _texts(original, columns),
            _texts(privatized, columns),
            claim,
            policy,
            _space(settings, space),
            confidence=confidence,
            shared_draws=settings.get("consistency", "token") != "token",
            untested=untested,
        )


def _claim(path: Path) -> tuple[Guarantee, dict[str, Any]]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"there is no claim to audit: {path} does not exist; name the file with --guarantee") from None
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({type(error).__name__})") from None
    if not isinstance(data, dict) or not isinstance(data.get("guarantee"), dict):
        raise DataError(f"{path} holds no guarantee; give the file that sfumato privatize wrote beside its output")
    settings = data.get("settings")
    try:
        return guarantee_from_json(data["guarantee"]), settings if isinstance(settings, dict) else {}
    except (KeyError, TypeError) as error:
        raise DataError(f"the guarantee in {path} is not complete ({type(error).__name__})") from None


def _space(settings: dict[str, Any], given: str) -> Space:
    """Return the space a file was made with, which may be given: the distances of its promise are that space's."""
    described = settings.get("space") or {}
    name = str(described.get("name", "default"))
    base, part, rest = name.partition(" (first ")
    space = load_space(base if given == "default" else given)
    if part and rest.rstrip(")").isdecimal():
        space = space.head(int(rest.rstrip(")")))
    digest = described.get("sha256")
    if digest and space.digest != digest:
        raise DataError("the space of that name is not the one the file was made with; name the right one with --space")
    return space


def _texts(path: Path, columns: tuple[str, ...]) -> list[str]:
    form = format_of(path)
    if form is None:
        raise DataError(f"the format of a file cannot be told from its name; use one of {', '.join(FORMATS)}")
    texts: list[str] = []
    with ExitStack() as stack:
        stream = cast(BinaryIO, stack.enter_context(path.open("rb")))
        reader = open_reader(stream, form, ReadOptions(columns), path.stat().st_size)
        stack.callback(reader.close)
        for records in reader.batches():
            texts += [text or "" for record in zip(*records.texts(), strict=True) for text in record]
    return texts


def _targets(html: Path | None, json_file: Path | None, force: bool) -> tuple[Path | None, Path | None]:
    chosen = [None if path is None else checked_target(path, sources=(), force=force) for path in (html, json_file)]
    return chosen[0], chosen[1]


def _hand_over(report: AuditReport, targets: tuple[Path | None, Path | None], as_json: bool) -> None:
    data = report.to_json()
    html, json_file = targets
    if html is not None:
        from sfumato.report.audit import audit_page

        html.write_text(audit_page(data), encoding="utf-8")
    if json_file is not None:
        json_file.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(data, ensure_ascii=False))
        return
    console = output_console()
    console.print(report.subject, style="bold")
    for place, sentence in enumerate(report.verdict()):
        console.print()
        console.print(sentence, style="bold" if place == 0 else None)
