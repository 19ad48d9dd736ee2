"""``sfumato budget``: budgets of subjects, and what was charged to them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.progress import output_console
from sfumato.foundation.checks import gather, require_count, require_one_of
from sfumato.foundation.errors import DataError, ParameterError
from sfumato.ledger.amounts import DELTA_UNIT, MEANINGS, Cost, exact
from sfumato.ledger.export import CONTENTS, FORMATS, export
from sfumato.ledger.records import shown

if TYPE_CHECKING:
    from sfumato.ledger import Ledger
    from sfumato.ledger.records import Budget

app = typer.Typer(help="Budgets that refuse to be overspent, and their history.", pretty_exceptions_enable=False)

LEDGER_VARIABLE, KEY_VARIABLE = "SFUMATO_LEDGER", "SFUMATO_LEDGER_SUBJECT_KEY"

LedgerAddress = Annotated[
    str,
    typer.Option(
        "--ledger",
        "-l",
        metavar="URL",
        envvar=LEDGER_VARIABLE,
        help="The ledger: a file, or postgresql://user@host/database (password from PGPASSWORD or ~/.pgpass).",
    ),
]
SubjectKey = Annotated[
    Path | None,
    typer.Option(
        "--subject-key",
        metavar="FILE",
        envvar=KEY_VARIABLE,
        help="A file with a secret; the ledger then holds pseudonyms in place of names.",
    ),
]
Kind = Annotated[
    str, typer.Option("--kind", "-k", metavar="KIND", help="; ".join(f"{k}: {m}" for k, m in MEANINGS.items()))
]
Subject = Annotated[str, typer.Argument(metavar="SUBJECT", help="Whose budget.")]
MaybeSubject = Annotated[
    str | None, typer.Argument(metavar="[SUBJECT]", help="Whose budget; everybody's where it is left out.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_PIPE = "-"


@contextmanager
def opened_ledger(address: str, subject_key: Path | None, *, create: bool = False) -> Iterator[Ledger]:
    """Open the ledger that the options name, and close it again."""
    from sfumato.ledger import Ledger

    key = None if subject_key is None else subject_key.read_bytes().strip()
    with Ledger.open(address, subject_key=key, create=create) as ledger:
        yield ledger


@app.command("create")
def create(
    limit: Annotated[str, typer.Option("--limit", metavar="NUMBER", help="All that may ever be spent; exact.")],
    ledger: LedgerAddress,
    subject: Annotated[str | None, typer.Argument(metavar="[SUBJECT]", help="Who gets the budget.")] = None,
    kind: Kind = "pure",
    delta_limit: Annotated[
        str | None, typer.Option("--delta-limit", metavar="NUMBER", help="For the kind approximate.")
    ] = None,
    scope: Annotated[
        str, typer.Option("--scope", metavar="TEXT", help="What the amounts speak of; the first charge says it else.")
    ] = "",
    subjects: Annotated[
        str | None,
        typer.Option("--subjects", metavar="FILE", help="Many subjects, one on each line; - for standard input."),
    ] = None,
    subject_key: SubjectKey = None,
) -> None:
    """Give a subject, or many, a budget. Limits never change, and there are no refunds."""
    if (subject is None) == (subjects is None):
        raise ParameterError("give either a SUBJECT or --subjects FILE")
    with opened_ledger(ledger, subject_key, create=True) as opened:
        if subject is not None:
            made = opened.create(subject, kind=kind, limit=limit, delta_limit=delta_limit, scope=scope)
            limits = _amounts(kind, made.limit, made.limit_delta_units * DELTA_UNIT)
            typer.echo(f"budget {made.number}: {limits}")
            return
        names = _lines(str(subjects))
        count = opened.create_each(names, kind=kind, limit=limit, delta_limit=delta_limit, scope=scope)
        existed = len(set(names)) - count
        typer.echo(f"{count:,} budgets made" + (f"; {existed:,} existed and stay as they are" if existed else ""))


@app.command("show")
def show(
    ledger: LedgerAddress,
    subject: MaybeSubject = None,
    subjects: Annotated[bool, typer.Option("--subjects", help="List every subject.")] = False,
    subject_key: SubjectKey = None,
    as_json: Json = False,
) -> None:
    """Show a subject's budgets, or the sums over all subjects."""
    with opened_ledger(ledger, subject_key) as opened:
        found = list(opened.budgets(subject))
        if subject is not None and not found:
            raise ParameterError("this subject has no budget; create one first")
    if subject is None and not subjects:
        _show_sums(found, as_json)
    else:
        _show_each(found, as_json, with_subjects=subjects)


@app.command("charge")
def charge(
    subject: Subject,
    amount: Annotated[str, typer.Option("--amount", "-a", metavar="NUMBER", help="What the release costs; exact.")],
    ledger: LedgerAddress,
    kind: Kind = "pure",
    delta: Annotated[str, typer.Option("--delta", metavar="NUMBER", help="For the kind approximate.")] = "0",
    releases: Annotated[int, typer.Option("--releases", metavar="N", help="How many releases this pays for.")] = 1,
    scope: Annotated[str, typer.Option("--scope", metavar="TEXT", help="What the amount speaks of.")] = "",
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="TEXT", help="Idempotency key: charged once however often it is given."),
    ] = None,
    purpose: Annotated[str, typer.Option("--purpose", metavar="TEXT", help="A short public label.")] = "",
    subject_key: SubjectKey = None,
    as_json: Json = False,
) -> None:
    """Charge a release to a budget; refuse where less is left. Exit code 2 means: release nothing."""
    gather(lambda: require_one_of(MEANINGS, kind=kind), lambda: require_count(releases=releases))
    cost = Cost(kind, exact("amount", amount), exact("delta", delta), scope, releases)
    with opened_ledger(ledger, subject_key) as opened:
        made = opened.charge(subject, cost, key=key, purpose=purpose)
        left = opened.budget(subject, kind)
    if as_json:
        typer.echo(json.dumps({**made.to_json(), "replayed": made.replayed, "left": shown(left.left)}, indent=2))
        return
    rest = f"{_amounts(kind, left.left, left.delta_left)} left"
    if made.replayed:
        typer.echo(f"charged before (charge {made.number}); {rest}")
    else:
        typer.echo(f"charge {made.number}: {shown(made.amount)}; {rest}")


@app.command("history")
def history(
    ledger: LedgerAddress,
    subject: MaybeSubject = None,
    kind: Annotated[str | None, typer.Option("--kind", "-k", metavar="KIND", help="Of one kind only.")] = None,
    subject_key: SubjectKey = None,
    as_json: Json = False,
) -> None:
    """List charges, oldest first within each budget; budgets are named by their numbers."""
    with opened_ledger(ledger, subject_key) as opened:
        if not as_json:
            typer.echo("budget\tcharge\ttime\tkind\tamount\tdelta\treleases\tpurpose\tkey")
        for line in opened.history(subject, kind):
            row = line.to_json()
            if as_json:
                typer.echo(json.dumps(row, ensure_ascii=False))
            else:
                names = ("budget", "number", "charged_at", "kind", "amount", "delta", "releases", "purpose", "key")
                typer.echo("\t".join(str(row[name]) for name in names))


@app.command("verify")
def verify(
    ledger: LedgerAddress,
    anchors: Annotated[
        Path | None, typer.Option("--anchors", metavar="FILE", help="Check against anchors that were written before.")
    ] = None,
    write_anchors: Annotated[
        Path | None,
        typer.Option("--write-anchors", metavar="FILE", help="Note where every chain ends; keep the file elsewhere."),
    ] = None,
    subject_key: SubjectKey = None,
    as_json: Json = False,
) -> None:
    """Recompute every chain and every balance. The exit code is 0 if all agree, and 1 if not."""
    with opened_ledger(ledger, subject_key) as opened:
        ends = opened.anchors() if write_anchors is not None else {}
        result = opened.verify(_read_anchors(anchors) if anchors else ends)
        if write_anchors is not None and result.passed:
            _write_new(write_anchors, json.dumps({str(number): end for number, end in ends.items()}))
    if as_json:
        typer.echo(json.dumps(result.to_json(), indent=2))
    else:
        for problem in result.problems:
            typer.echo(problem)
        verdict = "PASS" if result.passed else "FAIL"
        typer.echo(f"{verdict}: {result.charges:,} charges of {result.budgets:,} budgets; digest {result.digest}")
    if not result.passed:
        raise typer.Exit(1)


@app.command("export")
def export_ledger(
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="The file; - for standard output.")],
    ledger: LedgerAddress,
    file_format: Annotated[
        str, typer.Option("--format", metavar="NAME", help="csv or jsonl; auto goes by the name.")
    ] = "auto",
    contents: Annotated[str, typer.Option("--contents", metavar="NAME", help=" or ".join(CONTENTS))] = "charges",
    subjects: Annotated[bool, typer.Option("--subjects", help="Write the subjects as well.")] = False,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace a file that exists.")] = False,
    subject_key: SubjectKey = None,
) -> None:
    """Write the history, or the budgets, to a file."""
    if file_format == "auto":
        file_format = Path(output).suffix.lstrip(".").lower() if output != _PIPE else "jsonl"
    gather(
        lambda: require_one_of(FORMATS, format=file_format),
        lambda: require_one_of(CONTENTS, contents=contents),
    )
    options: dict[str, Any] = {"file_format": file_format, "contents": contents, "with_subjects": subjects}
    with opened_ledger(ledger, subject_key) as opened:
        if output == _PIPE:
            export(opened, sys.stdout, **options)
            return
        path = Path(output)
        if path.exists() and not force:
            raise DataError(f"{path} exists; give --force to replace it")
        beside = path.with_name(path.name + ".part")
        try:
            with beside.open("w", encoding="utf-8", newline="") as stream:
                count = export(opened, stream, **options)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    typer.echo(f"wrote {count:,} {contents} to {path}", err=True)


def _amounts(kind: str, amount: Fraction, delta: Fraction) -> str:
    """Say an amount of budget, with its delta where the kind has one."""
    text = f"{shown(amount)} of {MEANINGS[kind]}"
    return f"{text} and {shown(delta)} of delta" if kind == "approximate" else text


def _lines(name: str) -> list[str]:
    text = sys.stdin.read() if name == _PIPE else Path(name).read_text(encoding="utf-8")
    names = [line.strip() for line in text.splitlines() if line.strip()]
    if not names:
        raise DataError("there are no subjects in the file")
    return names


def _show_sums(found: list[Budget], as_json: bool) -> None:
    sums = []
    for kind in MEANINGS:
        same = [budget for budget in found if budget.kind == kind]
        if same:
            sums.append(
                {
                    "kind": kind,
                    "budgets": len(same),
                    "charges": sum(budget.charges for budget in same),
                    "limit": shown(sum((budget.limit for budget in same), exact("limit", 0))),
                    "spent": shown(sum((budget.spent for budget in same), exact("spent", 0))),
                    "exhausted": sum(budget.left == 0 for budget in same),
                }
            )
    if as_json:
        typer.echo(json.dumps(sums, indent=2))
    elif not sums:
        typer.echo("there are no budgets yet")
    else:
        _print_table(sums)


def _show_each(found: list[Budget], as_json: bool, *, with_subjects: bool) -> None:
    rows = [budget.to_json(with_subject=with_subjects) for budget in found]
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    names = ("budget", "subject", "kind", "limit", "spent", "left", "delta_left", "charges", "scope")
    _print_table([{name: row.get(name, "") for name in names if name != "subject" or with_subjects} for row in rows])


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name, value in rows[0].items() if rows else ():
        table.add_column(name.replace("_", " "), justify="left" if isinstance(value, str) else "right", overflow="fold")
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, int) else value for value in row.values()))
    output_console().print(table)


def _read_anchors(path: Path) -> dict[int, tuple[int, str]]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return {int(number): (int(count), str(link)) for number, (count, link) in data.items()}
    except (ValueError, TypeError, AttributeError):
        raise DataError(f"{path} does not hold anchors; write them with --write-anchors") from None


def _write_new(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text + "\n")
    except FileExistsError:
        raise DataError(f"{path} exists; anchors are never overwritten") from None
