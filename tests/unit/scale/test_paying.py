"""Records that are charged when they are read, and left out where nobody can pay for them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("sqlalchemy", reason="the extra 'ledger' is not installed")
pytest.importorskip("alembic", reason="the extra 'ledger' is not installed")

import sfumato
from sfumato.foundation.errors import DataError
from sfumato.foundation.randomness import RunKey
from sfumato.ledger import Ledger
from sfumato.release import TextRelease
from sfumato.sanitize import Sanitizer
from sfumato.scale import ReadOptions, open_reader, open_writer, sanitize_records
from sfumato.scale.paying import PaidWriter, PayingReader

SPACE = sfumato.Space.from_arrays(["cold", "cool", "warm", "hot"], [[0.0], [1.0], [3.0], [4.0]])
SANITIZER = Sanitizer(sfumato.compile("tem", SPACE, epsilon=2.0))
KEY = RunKey.generate()
ROWS = [
    ("1", "ada", "cold"),
    ("2", "bob", "hot warm"),
    ("3", "ada", "cool"),
    ("4", "ada", "warm warm warm"),
    ("5", "", "hot"),
    ("6", "bob", "hot"),
]
PAID = ["1", "2", "3", "6"]


def parquet(columns: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue()


def content(form: str) -> bytes:
    if form == "csv":
        return "".join(",".join(row) + "\n" for row in [("id", "user", "text"), *ROWS]).encode()
    if form == "jsonl":
        rows = [{"id": number, "user": user or None, "text": text} for number, user, text in ROWS]
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    ids, users, texts = (list(column) for column in zip(*ROWS, strict=True))
    return parquet({"id": ids, "user": [user or None for user in users], "text": texts})


def rows(written: bytes, form: str) -> list[dict[str, Any]]:
    reader = open_reader(io.BytesIO(written), form, ReadOptions(("text",)))
    return [row for records in reader.batches() for row in records.rows()]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    price = SANITIZER.guarantee.certified  # type: ignore[attr-defined]
    with Ledger.open(tmp_path / "budgets.db") as opened:
        opened.create("ada", kind="metric", limit=2.5 * price)
        opened.create("bob", kind="metric", limit=100)
        yield opened


def paid(
    ledger: Ledger, given: bytes, source: str, target: str, column: str = "user", **options: Any
) -> tuple[bytes, TextRelease]:
    reader = open_reader(io.BytesIO(given), source, ReadOptions(("text",)))
    release = TextRelease(ledger, SANITIZER, key=KEY, **options)
    output = io.BytesIO()
    writer = open_writer(output, target, reader)
    sanitize_records(SANITIZER, PayingReader(reader, column, release), PaidWriter(writer), key=KEY)
    return output.getvalue(), release


@pytest.mark.parametrize("target", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("source", ["csv", "jsonl", "parquet"])
def test_who_cannot_pay_is_left_out_and_the_others_are_as_without_a_ledger(
    ledger: Ledger, source: str, target: str
) -> None:
    written, release = paid(ledger, content(source), source, target)
    found = rows(written, target)
    assert [row["id"] for row in found] == PAID
    free = SANITIZER.batch([text for _, _, text in ROWS], key=KEY).texts
    assert [row["text"] for row in found] == [free[int(number) - 1] for number in PAID]
    assert (release.tally.released, release.tally.exhausted, release.tally.without_budget) == (4, 1, 1)
    assert ledger.budget("bob", "metric").charges == 2


@pytest.mark.parametrize("source", ["csv", "jsonl", "parquet"])
def test_plain_lines_hold_what_was_paid_for(ledger: Ledger, source: str) -> None:
    written, _ = paid(ledger, content(source), source, "txt")
    free = SANITIZER.batch([text for _, _, text in ROWS], key=KEY).texts
    assert written.decode().splitlines() == [free[int(number) - 1] for number in PAID]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_where_nothing_is_paid_for_a_file_without_records_is_written(tmp_path: Path, form: str) -> None:
    with Ledger.open(tmp_path / "empty.db") as nobody:
        written, release = paid(nobody, content(form), form, form)
    assert rows(written, form) == []
    assert release.tally.without_budget == len(ROWS)


def test_batches_are_charged_as_they_are_read(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.scale.delimited.RECORDS_AT_ONCE", 2)
    whole, _ = paid(ledger, content("csv"), "csv", "csv")
    assert [row["id"] for row in rows(whole, "csv")] == PAID
    before = ledger.verify().digest
    assert paid(ledger, content("csv"), "csv", "csv")[0] == whole  # the same run again: the same noise, no charge
    assert ledger.verify().digest == before


def test_stopping_writes_nothing_from_the_first_refusal_on(ledger: Ledger) -> None:
    written, release = paid(ledger, content("csv"), "csv", "csv", when_exhausted="stop")
    assert [row["id"] for row in rows(written, "csv")] == ["1", "2", "3"]
    assert (release.tally.exhausted, release.tally.after_stop) == (1, 2)


def test_numbers_name_subjects_as_they_are_written(ledger: Ledger) -> None:
    ledger.create("17", kind="metric", limit=100)
    for form, given in (
        ("csv", b"user,text\n17,hot\n017,hot\n"),
        ("jsonl", b'{"user": 17, "text": "hot"}\n{"user": 17.0, "text": "hot"}\n'),
        ("parquet", parquet({"user": [17, 18], "text": ["hot", "hot"]})),
    ):
        reader = open_reader(io.BytesIO(given), form, ReadOptions(("text",)))
        release = TextRelease(ledger, SANITIZER)
        assert [len(batch.rows()) for batch in PayingReader(reader, "user", release).batches()] == [1]


def test_what_cannot_be_a_subject_is_said_with_its_row(ledger: Ledger) -> None:
    for form, given in (
        ("jsonl", b'{"user": "ada", "text": "hot"}\n{"user": ["ada"], "text": "hot"}\n'),
        ("parquet", parquet({"user": [["ada"], ["bob"]], "text": ["hot", "hot"]})),
    ):
        with pytest.raises(DataError, match=r"^row [12] holds something other than a name or a number") as raised:
            paid(ledger, given, form, form)
        assert "ada" not in str(raised.value)
    with pytest.raises(DataError, match="twice"):
        paid(ledger, b'{"user": "ada", "text": "hot", "user": "bob"}\n', "jsonl", "jsonl")
    assert ledger.budget("ada", "metric").charges == 0


def test_the_column_of_subjects_is_checked_before_anything_is_read(ledger: Ledger) -> None:
    with pytest.raises(DataError, match="no column owner; the first line names 3"):
        paid(ledger, content("csv"), "csv", "csv", column="owner")
    with pytest.raises(DataError, match="cannot be a column of texts"):
        paid(ledger, content("csv"), "csv", "csv", column="text")
    with pytest.raises(DataError, match="no column user"):
        paid(ledger, b"hot\n", "txt", "txt")


def test_a_paid_run_does_not_write_what_nobody_paid_for(ledger: Ledger) -> None:
    reader = open_reader(io.BytesIO(content("csv")), "csv", ReadOptions(("text",)))
    with pytest.raises(TypeError, match="nobody paid"):
        sanitize_records(SANITIZER, reader, PaidWriter(open_writer(io.BytesIO(), "csv", reader)))
