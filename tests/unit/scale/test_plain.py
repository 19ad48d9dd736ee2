from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scale_support import texts, through

from sfumato.foundation.errors import DataError

_TEXT = st.text(st.characters(exclude_characters="\0\ufeff", exclude_categories=("Cs",)))


@given(_TEXT)
def test_any_text_passes_through_with_its_line_ends(text: str) -> None:
    assert through(text.encode(), "txt", "txt", (), change=str) == text.encode()


def test_line_ends_are_no_part_of_the_record() -> None:
    assert texts(b"a\r\nb\nc", "txt") == [["a", "b", "c"]]
    assert through(b"a\r\nb\nc", "txt", "txt") == b"A\r\nB\nC"


def test_to_other_formats_the_column_is_called_text() -> None:
    assert through(b"a\n\nb\n", "txt", "csv", ()) == b'text\nA\n""\nB\n'
    assert through(b"a\n", "txt", "jsonl", ()) == b'{"text": "A"}\n'


def test_only_the_text_column_is_written() -> None:
    assert through(b"id,text\n1,a\n2,\n", "csv", "txt") == b"A\n\n"


def test_a_line_break_inside_of_a_record_is_an_error() -> None:
    with pytest.raises(DataError, match="row 2 holds a line break"):
        through(b'text\na\n"b\nc"\n', "csv", "txt")


def test_two_text_columns_do_not_fit() -> None:
    with pytest.raises(DataError, match="one text column"):
        through(b"a,b\n1,2\n", "csv", "txt", ("a", "b"))


def test_another_column_name_is_refused() -> None:
    with pytest.raises(DataError, match="the columns are: text"):
        texts(b"a\n", "txt", ("body",))
