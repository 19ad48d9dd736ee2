from __future__ import annotations

import datetime
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scale_support import texts, through

from sfumato.foundation.errors import DataError
from sfumato.scale import ReadOptions, columnar


def _file(table: pa.Table, **options: Any) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **options)
    return buffer.getvalue()


def _table(content: bytes) -> pa.Table:
    return pq.read_table(io.BytesIO(content))


def _rich_table() -> pa.Table:
    when = datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.UTC)
    return pa.table(
        {
            "id": pa.array([1, 2, None], pa.int16()),
            "text": pa.array(["one two", None, ""], pa.string()),
            "when": pa.array([when, None, when], pa.timestamp("ns", tz="UTC")),
            "price": pa.array([Decimal("1.10"), None, Decimal("2.00")], pa.decimal128(9, 2)),
            "tags": pa.array([["a"], [], None], pa.list_(pa.string())),
            "kind": pa.array(["x", "y", "x"]).dictionary_encode(),
            "raw": pa.array([b"\x00\xff", None, b""], pa.binary()),
            "where": pa.array([{"lat": 1.5}, None, {"lat": None}], pa.struct([("lat", pa.float64())])),
        }
    ).replace_schema_metadata({"origin": "here"})


def test_schema_metadata_and_other_columns_stay() -> None:
    table = _table(_file(_rich_table()))
    changed = _table(through(_file(table), "parquet", "parquet"))
    assert changed.schema.equals(table.schema, check_metadata=True)
    assert changed.drop_columns("text").equals(table.drop_columns("text"))
    assert changed["text"].to_pylist() == ["ONE TWO", None, ""]


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        (pa.string(), pa.string()),
        (pa.large_string(), pa.large_string()),
        (pa.dictionary(pa.int8(), pa.string()), pa.string()),
        (pa.null(), pa.null()),
    ],
)
def test_text_types(kind: pa.DataType, written: pa.DataType) -> None:
    values = [None, None] if pa.types.is_null(kind) else ["a", None]
    array = pa.array(values, kind)
    changed = _table(through(_file(pa.table({"text": array})), "parquet", "parquet"))
    assert changed.schema.field("text").type == written
    assert changed["text"].to_pylist() == [value and value.upper() for value in values]


def test_nothing_of_a_dictionary_stays_in_the_file() -> None:
    array = pa.array(["sentinelword", "b"]).dictionary_encode()
    changed = through(_file(pa.table({"text": array})), "parquet", "parquet", change=lambda text: "new")
    assert b"sentinelword" in _file(pa.table({"text": array}))
    assert b"sentinelword" not in changed


@pytest.mark.parametrize("name", ["id", "when", "tags", "raw", "where"])
def test_a_column_that_is_not_text_is_refused_with_its_type(name: str) -> None:
    with pytest.raises(DataError, match=f"column {name} holds .*, not text"):
        texts(_file(_rich_table()), "parquet", (name,))


def test_an_empty_table_keeps_its_schema() -> None:
    table = _rich_table().slice(0, 0)
    assert _table(through(_file(table), "parquet", "parquet")).equals(table)


def test_no_or_half_a_parquet_file() -> None:
    content = _file(_rich_table())
    for broken in (b"", b"text,n\nsecret,1\n", content[: len(content) // 2]):
        with pytest.raises(DataError, match="not Parquet, or is damaged") as caught:
            texts(broken, "parquet")
        assert "secret" not in str(caught.value)


def test_damage_inside_is_reported() -> None:
    content = bytearray(_file(pa.table({"text": [f"word {n}" for n in range(50_000)]}), compression="zstd"))
    content[200:4000] = bytes(3800)
    with pytest.raises(DataError, match="cannot be read behind row"):
        texts(bytes(content), "parquet")


def test_many_rows_make_few_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columnar, "_ROW_GROUP_RECORDS", 5000)
    table = pa.table({"text": [str(n) for n in range(12_000)]})
    changed = through(_file(table, row_group_size=100), "parquet", "parquet")
    assert _table(changed).equals(table)
    groups = pq.ParquetFile(io.BytesIO(changed)).metadata
    assert [groups.row_group(n).num_rows for n in range(groups.num_row_groups)] == [6000, 6000]


def test_a_single_row_group_is_not_read_at_once(tmp_path: Path) -> None:
    text = pa.array([f"{number:032x}" * 16 for number in range(60_000)])
    source = tmp_path / "one.parquet"
    pq.write_table(pa.table({"text": text}), source, row_group_size=10**9, compression="none", use_dictionary=False)
    with WatchedFile(source, "rb") as file:
        reader = columnar.ArrowReader(cast(BinaryIO, file), ReadOptions(("text",)))
        rows = sum(len(records) for records in reader.batches())
        reader.close()
        assert rows == 60_000
        assert 0 < file.longest_read < source.stat().st_size / 4


class WatchedFile(io.FileIO):
    """Knows how much was read at once."""

    longest_read = 0

    def read(self, size: int | None = -1, /) -> bytes:
        content = super().read(-1 if size is None else size)
        self.longest_read = max(self.longest_read, len(content))
        return content


def test_long_texts_are_cut_into_batches_and_limited() -> None:
    from sfumato.scale import ReadOptions, open_reader

    content = _file(pa.table({"text": ["x" * 600_000, "y" * 600_000, "z", None]}))
    reader = open_reader(io.BytesIO(content), "parquet", ReadOptions(("text",)))
    assert [(batch.first, len(batch)) for batch in reader.batches()] == [(0, 2), (2, 2)]
    with pytest.raises(DataError, match="row 2 is longer than 10"):
        texts(_file(pa.table({"text": ["x", "y" * 11]})), "parquet", longest_record=10)


def test_csv_becomes_a_table_of_strings() -> None:
    changed = _table(through(b"id,text\n007,a\n,b\n", "csv", "parquet"))
    assert changed.to_pydict() == {"id": ["007", ""], "text": ["A", "B"]}
    header_only = _table(through(b"id,text\n", "csv", "parquet"))
    assert header_only.schema == pa.schema([("id", pa.string()), ("text", pa.string())])


def test_jsonl_becomes_a_typed_table(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = b'{"text": null, "n": 1, "x": null}\n{"n": 2, "text": "a", "d": {"k": [1]}}\n'
    changed = _table(through(lines, "jsonl", "parquet"))
    assert changed.to_pydict() == {"text": [None, "A"], "n": [1, 2], "x": [None, None], "d": [None, '{"k": [1]}']}
    assert changed.schema.field("n").type == pa.int64()
    assert changed.schema.field("x").type == pa.string()


@pytest.mark.parametrize("last", [b'{"text": "b", "n": "secret"}', b'{"text": "b", "n": 1, "secret": 1}'])
def test_jsonl_that_changes_its_types_does_not_fit_a_table(last: bytes) -> None:
    lines = b'{"text": "a", "n": 1}\n' * 40_000 + last + b"\n"
    with pytest.raises(DataError, match=r"among rows [0-9]+ to 40001 ") as caught:
        through(lines, "jsonl", "parquet")
    assert "secret" not in str(caught.value)


def test_tables_become_json_and_csv() -> None:
    table = _rich_table().drop_columns("raw")
    rows = [json.loads(line) for line in through(_file(table), "parquet", "jsonl").decode().splitlines()]
    assert rows[0]["text"] == "ONE TWO"
    assert rows[0]["price"] == "1.10"
    assert rows[0]["when"].startswith("2024-02-29 12:30:00")
    assert rows[0]["tags"] == ["a"]
    assert rows[1] == {"id": 2, "text": None, "when": None, "price": None, "tags": [], "kind": "y", "where": None}
    head, first = through(_file(table), "parquet", "csv").decode().splitlines()[:2]
    assert head == "id,text,when,price,tags,kind,where"
    assert first.startswith("1,ONE TWO,2024-02-29 12:30:00")


def test_columns_that_have_no_text_form_are_refused() -> None:
    with pytest.raises(DataError, match=r"column raw \(of type binary\)"):
        through(_file(_rich_table()), "parquet", "jsonl")


def test_a_pipe_is_refused() -> None:
    from sfumato.scale import ReadOptions, open_reader

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    with pytest.raises(DataError, match="cannot come through a pipe"):
        open_reader(Pipe(), "parquet", ReadOptions(("text",)))
