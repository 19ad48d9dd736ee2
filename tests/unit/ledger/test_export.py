"""The history and the budgets as files, without subjects unless they are asked for."""

from __future__ import annotations

import csv
import io
import json

import pytest

from sfumato.foundation.errors import ParameterError
from sfumato.ledger import Cost, Ledger
from sfumato.ledger.export import export


@pytest.fixture
def filled(ledger: Ledger) -> Ledger:
    ledger.create('olga, called "the"\nfirst', kind="pure", limit="1.5")
    ledger.create("tom", kind="approximate", limit=1, delta_limit="1e-6")
    ledger.charge("tom", Cost.approximate("1/3", "1e-7"), key="request 1", purpose="tem")
    ledger.charge('olga, called "the"\nfirst', Cost.pure("0.1"), key="k")
    ledger.charge("tom", Cost.approximate("1/3", "1e-7"))
    return ledger


def written(ledger: Ledger, **options: object) -> str:
    stream = io.StringIO()
    export(ledger, stream, **options)  # type: ignore[arg-type]
    return stream.getvalue()


@pytest.mark.parametrize("contents", ["charges", "budgets"])
@pytest.mark.parametrize("with_subjects", [True, False])
def test_both_formats_hold_the_same(filled: Ledger, contents: str, with_subjects: bool) -> None:
    options = {"contents": contents, "with_subjects": with_subjects}
    lines = [json.loads(line) for line in written(filled, file_format="jsonl", **options).splitlines()]
    rows = list(csv.DictReader(io.StringIO(written(filled, file_format="csv", **options), newline="")))
    assert len(lines) == len(rows) == (3 if contents == "charges" else 2)
    for line, row in zip(lines, rows, strict=True):
        assert {name: str(value) for name, value in line.items()} == {
            name: v for name, v in row.items() if name in line
        }
        assert all(row[name] == "" for name in row.keys() - line.keys())
    assert {line.get("subject") for line in lines} == (
        {'olga, called "the"\nfirst', "tom"} if with_subjects else {None}
    )


def test_an_export_holds_what_is_needed_to_check_the_chain(filled: Ledger) -> None:
    charges = [json.loads(line) for line in written(filled, file_format="jsonl").splitlines()]
    assert [(line["budget"], line["number"], line["amount"]) for line in charges] == [
        (1, 1, "0.1"), (2, 1, "0.333333334"), (2, 2, "0.333333334"),
    ]  # fmt: skip
    budgets = [json.loads(line) for line in written(filled, file_format="jsonl", contents="budgets").splitlines()]
    assert [budget["head"] for budget in budgets] == [charges[0]["hash"], charges[2]["hash"]]
    assert budgets[1]["spent"] == "0.666666668"
    assert budgets[1]["delta_left"] == "0.0000008"


def test_names_do_not_leave_by_default(filled: Ledger) -> None:
    # Neither name can stand in a hexadecimal hash by chance.
    for contents in ("charges", "budgets"):
        for file_format in ("csv", "jsonl"):
            text = written(filled, file_format=file_format, contents=contents)
            assert "olga" not in text
            assert "tom" not in text


def test_all_that_is_wrong_is_said_at_once(filled: Ledger) -> None:
    with pytest.raises(ParameterError, match=r"file_format.*contents"):
        written(filled, file_format="xml", contents="everything")


def test_an_empty_ledger_is_an_empty_file(ledger: Ledger) -> None:
    assert written(ledger, file_format="csv") == ""
    assert export(ledger, io.StringIO(), file_format="jsonl") == 0


def test_a_long_history_is_read_in_portions(ledger: Ledger) -> None:
    """More charges than one portion holds, exported while others charge."""
    from sfumato.ledger import Request

    ledger.create("ada", kind="pure", limit=10)
    for _ in range(3):
        ledger.charge_each([Request("ada", [Cost.pure("0.001")]) for _ in range(500)])
    lines = iter(ledger.history())
    first = next(lines)
    ledger.charge("ada", Cost.pure("0.001"))
    rest = list(lines)
    assert [first.number, *(line.number for line in rest)] == list(range(1, 1501))
