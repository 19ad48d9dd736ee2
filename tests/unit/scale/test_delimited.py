from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scale_support import texts, through

from sfumato.foundation.errors import DataError, ParameterError
from sfumato.scale import ReadOptions
from sfumato.scale.records import CHARACTERS_AT_ONCE, RECORDS_AT_ONCE

_FIELD = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=20)


@given(st.lists(st.tuples(_FIELD, _FIELD, _FIELD), max_size=8), st.sampled_from(["csv", "tsv"]))
def test_any_values_pass_through_unchanged(rows: list[tuple[str, str, str]], name: str) -> None:
    settings = {"delimiter": "," if name == "csv" else "\t", "lineterminator": "\r\n"}
    written = io.StringIO()
    csv.writer(written, **settings).writerows([("id", "text", "more"), *rows])  # type: ignore[arg-type]
    content = written.getvalue().encode()
    assert through(content, name, name, change=str) == content


def test_only_the_text_column_changes() -> None:
    assert through(b"id,text,more\nx,a b,y\n", "csv", "csv") == b"id,text,more\nx,A B,y\n"


def test_several_columns_in_the_order_they_are_named() -> None:
    assert texts(b"a,b,c\n1,2,3\n", "csv", ("c", "a")) == [["3"], ["1"]]
    assert through(b"a,b,c\nx,y,z\n", "csv", "csv", ("c", "a")) == b"a,b,c\nX,y,Z\n"


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_line_ends_and_byte_order_mark_stay(end: bytes) -> None:
    content = b"\xef\xbb\xbftext,n" + end + b'"A\nB",1' + end
    assert through(content, "csv", "csv") == content


def test_a_header_alone_gives_a_header() -> None:
    assert through(b"text,n\n", "csv", "csv") == b"text,n\n"
    assert through(b"text", "csv", "csv") == b"text\n"


def test_blank_lines_are_left_out() -> None:
    assert through(b"text,n\n\na,1\n\n\n", "csv", "csv") == b"text,n\nA,1\n"


def test_csv_becomes_tsv_and_other_delimiters_are_read() -> None:
    assert through(b"text;n\na\tb;1\n", "csv", "tsv", delimiter=";") == b'text\tn\n"A\tB"\t1\n'
    assert through(b"text;n\na;1\n", "csv", "csv", delimiter=";") == b"text;n\nA;1\n"


def test_without_quotes_they_are_ordinary_characters() -> None:
    content = b'text\tn\n"so he said\t1\n5" disk\t"2"\n'
    assert through(content, "tsv", "tsv", change=str, quotes=False) == content


def test_without_quotes_a_delimiter_in_the_output_is_an_error() -> None:
    with pytest.raises(DataError, match="row 2 holds the delimiter"):
        through(b"text\tn\na\t1\nb\t2\n", "tsv", "tsv", change=lambda t: t.replace("b", "x\ty"), quotes=False)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"\n\n", "the file is empty"),
        (b"id,words\n", "there is no column text; the first line names 2"),
        (b"text,text\n", "occurs more than once"),
        (b"text,n\na,1\nsecret,2,3\n", r"row 2 \(ends in line 3\) has 3 fields where the header has 2"),
        (b"text,n\nsecret\n", "row 1 .* has 1 fields"),
        (b'text,n\na,1\n"secret,2\n', r"row 2 \(line 3\) opens a quote that is never closed"),
        (b'text,n\n"a"secret,1\n', r"row 1 \(line 2\) has a misplaced quote"),
        (b'"text,n\n', r"the header \(line 1\) opens a quote"),
        (b"text,n\rsecret,1\r", "carriage return outside of quotes"),
        (b"text,n\nsecret\0,1\n", "line 2 holds a NUL"),
        (b"text,n\n\xe9,1\n", r"byte 7 \(line 2\) is not utf-8"),
    ],
)
def test_what_is_wrong_is_said_by_place(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        texts(content, "csv")
    assert "secret" not in str(caught.value)


def test_a_quote_that_is_never_closed_is_given_up_at_the_limit() -> None:
    content = b'text,n\n"' + b"word\n" * 1000
    with pytest.raises(DataError, match="row 1, perhaps because a quote is never closed there, is longer than 500"):
        texts(content, "csv", longest_record=500)


def test_a_long_field_within_the_limit_is_read() -> None:
    long = b"x" * 300_000  # above the csv module's own limit
    assert texts(b"text\n" + long + b"\n", "csv") == [[long.decode()]]


def test_batches_end_by_records_and_by_characters() -> None:
    from sfumato.scale import open_reader

    many = open_reader(io.BytesIO(b"text\n" + b"a\n" * (RECORDS_AT_ONCE + 1)), "csv", ReadOptions(("text",)))
    assert [(batch.first, len(batch)) for batch in many.batches()] == [(0, RECORDS_AT_ONCE), (RECORDS_AT_ONCE, 1)]
    long = b"x" * CHARACTERS_AT_ONCE + b"\n"
    few = open_reader(io.BytesIO(b"text\n" + long * 2), "csv", ReadOptions(("text",)))
    assert [(batch.first, len(batch)) for batch in few.batches()] == [(0, 1), (1, 1)]


@pytest.mark.parametrize("options", [{"columns": ("a", "a")}, {"delimiter": "ab"}, {"delimiter": '"'}])
def test_options_outside_their_domain_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ParameterError):
        ReadOptions(**options)  # type: ignore[arg-type]


def test_no_column_named_says_where_to_look() -> None:
    with pytest.raises(DataError, match="name it with --column; the first line names 2"):
        texts(b"id,body\n", "csv", ())


@pytest.mark.parametrize("columns", [(), ("text",)])
def test_a_file_without_a_line_of_names_does_not_show_its_first_record(columns: tuple[str, ...]) -> None:
    with pytest.raises(DataError, match="look at that line") as raised:
        texts(b"secret illness,5\n", "csv", columns)
    assert "secret" not in str(raised.value)
