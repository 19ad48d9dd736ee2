from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scale_support import texts, through

from sfumato.foundation.errors import DataError

_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.lists(
        st.tuples(st.dictionaries(st.text().filter(lambda k: k != "text"), _VALUE, max_size=3), st.text() | st.none()),
        min_size=1,
        max_size=4,
    ),
    st.booleans(),
)
def test_every_other_key_stays_and_the_text_is_what_was_put(rows: list[tuple[dict, str | None]], escaped: bool) -> None:
    records = [{**others, "text": text} for others, text in rows]
    content = "".join(json.dumps(record, ensure_ascii=True if escaped else "\\ud" in json.dumps(record)) + "\n"
                      for record in records).encode()  # fmt: skip
    changed = through(content, "jsonl", "jsonl", change=lambda text: "<" + text + ">")
    found = [json.loads(line) for line in changed.decode().split("\n")[:-1]]
    expected = [{**record, "text": None if record["text"] is None else f"<{record['text']}>"} for record in records]
    assert found == expected
    assert [list(record) for record in found] == [list(record) for record in records]


def test_all_but_the_text_stays_byte_for_byte() -> None:
    line = (
        b'  { "n" :1.500, "text"\t: "a\\u0062", "big":123456789012345678901234567890, "d":{"text":"x"} , "e":1e400}\r\n'
    )
    assert through(line, "jsonl", "jsonl") == line.replace(b'"a\\u0062"', b'"AB"')


def test_numbers_of_any_length_pass_through() -> None:
    line = b'{"text": "a", "n": ' + b"9" * 10_000 + b"}\n"
    assert through(line, "jsonl", "jsonl") == line.replace(b'"a"', b'"A"')


def test_several_columns_in_any_order() -> None:
    content = b'{"b": "x", "a": "y"}\n{"a": "z", "b": null}\n'
    assert texts(content, "jsonl", ("a", "b")) == [["y", "z"], ["x", None]]
    assert through(content, "jsonl", "jsonl", ("a", "b")) == b'{"b": "X", "a": "Y"}\n{"a": "Z", "b": null}\n'


def test_blank_lines_are_left_out_and_no_last_line_feed_is_needed() -> None:
    assert through(b'\n{"text":"a"}\n \n{"text":"b"}', "jsonl", "jsonl") == b'{"text":"A"}\n{"text":"B"}'


def test_an_empty_file_has_no_records() -> None:
    assert through(b"", "jsonl", "jsonl") == b""
    assert through(b"", "jsonl", "csv") == b"text\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"text": "secret"', "line 2 is not a JSON object"),
        (b'{"text": "secret"} x', "line 2 is not a JSON object"),
        (b'{"text": "secret",}', "line 2 is not a JSON object"),
        (b'{,"text": "secret"}', "line 2 is not a JSON object"),
        (b"{'text': 'secret'}", "line 2 is not a JSON object"),
        (b'["secret"]', "line 2 is not a JSON object"),
        (b'"secret"', "line 2 is not a JSON object"),
        (b'{"text": "secret" "b": 1}', "line 2 is not a JSON object"),
        (b'{"text": "sec\tret"}', "line 2 is not a JSON object"),
        (b'{"x": ' + b"[" * 100_000 + b', "text": "secret"}', "line 2 is not a JSON object"),
        (b'{"words": "secret"}', "line 2 has no key text; where there is no text, give the key with null"),
        (b'{"text": 7}', "line 2 holds something other than a text or null"),
        (b'{"text": ["secret"]}', "line 2 holds something other than a text"),
        (b'{"text": true}', "line 2 holds something other than a text"),
        (b'{"text": NaN}', "line 2 holds something other than a text"),
        (b'{"text": "secret", "text": "secret"}', "line 2 has the key of a text column twice"),
    ],
)
def test_what_is_wrong_is_said_by_line(line: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        texts(b'{"text": "fine"}\n' + line + b"\n", "jsonl")
    assert "secret" not in str(caught.value)


def test_a_missing_column_in_the_first_line_names_the_keys() -> None:
    with pytest.raises(DataError, match="there is no column text; the columns are: id, body"):
        texts(b'{"id": 1, "body": "x"}\n', "jsonl")


def test_half_of_a_surrogate_pair_is_written_as_an_escape() -> None:
    line = b'{"text": "a\\ud800"}\n'
    assert through(line, "jsonl", "jsonl", change=str) == line
    with pytest.raises(DataError, match="row 1 holds half of a surrogate pair"):
        through(line, "jsonl", "csv", change=str)


def test_to_csv_the_first_record_decides_the_columns() -> None:
    content = b'{"text": "a", "n": 1.0, "ok": true, "d": {"x": [1]}}\n{"text": null, "n": null}\n'
    assert through(content, "jsonl", "csv") == b'text,n,ok,d\nA,1.0,true,"{""x"": [1]}"\n,,,\n'
    with pytest.raises(DataError, match="row 2 has a key that the first row does not have"):
        through(b'{"text": "a"}\n{"text": "b", "secret": 1}\n', "jsonl", "csv")
