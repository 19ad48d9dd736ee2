from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.foundation.errors import DataError, ParameterError
from sfumato.scale import lines
from sfumato.scale.lines import TextLines, encoded


class _Trickle(io.RawIOBase):
    """A stream that gives a few bytes at a time."""

    def __init__(self, content: bytes, step: int) -> None:
        self._content, self._step, self._at = content, step, 0

    def read(self, size: int = -1) -> bytes:
        piece = self._content[self._at : self._at + self._step]
        self._at += len(piece)
        return piece


_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)))


@given(
    _TEXT.filter(lambda text: not text.startswith("\ufeff")), st.integers(1, 9), st.sampled_from(["utf-8", "utf-16"])
)
def test_lines_join_to_the_text_however_the_bytes_arrive(text: str, step: int, encoding: str) -> None:
    found = list(TextLines(_Trickle(text.encode(encoding), step), encoding))  # type: ignore[arg-type]
    assert "".join(found) == text
    assert all("\n" not in line[:-1] for line in found)
    assert "" not in found


@pytest.mark.parametrize("step", [1, 4, 1000])
def test_a_byte_that_does_not_decode_is_located(step: int) -> None:
    content = "åä\nsecret".encode() + b"\xff more"
    with pytest.raises(DataError, match=r"byte 11 \(line 2\) is not utf-8.*--encoding") as caught:
        list(TextLines(_Trickle(content, step)))  # type: ignore[arg-type]
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None  # the foreign exception holds the bytes


def test_a_character_cut_off_at_the_end_is_an_error() -> None:
    with pytest.raises(DataError, match="byte 1 "):
        list(TextLines(io.BytesIO(b"a\xc3")))


def test_nul_is_refused_with_its_line() -> None:
    with pytest.raises(DataError, match=r"line 3 holds a NUL"):
        list(TextLines(io.BytesIO(b"a\nb\nc\0d\n")))


def test_a_byte_order_mark_is_taken_off_and_remembered() -> None:
    marked, plain = TextLines(io.BytesIO(b"\xef\xbb\xbfa")), TextLines(io.BytesIO(b"a"))
    assert list(marked) == list(plain) == ["a"]
    assert marked.byte_order_mark
    assert not plain.byte_order_mark


class _Endless(io.RawIOBase):
    """A line that never ends."""

    given = 0

    def read(self, size: int = -1) -> bytes:
        self.given += size
        assert self.given < 50 * lines._CHUNK, "read on long after the limit"
        return b"x" * size


def test_an_endless_line_is_given_up_near_the_limit() -> None:
    stream = _Endless()
    with pytest.raises(DataError, match=r"line 1 is longer than 1000000 .*--max-record-chars"):
        list(TextLines(stream, longest=1_000_000))  # type: ignore[arg-type]
    assert stream.given <= 1_000_000 + 2 * lines._CHUNK


def test_the_limit_itself_is_allowed() -> None:
    assert list(TextLines(io.BytesIO(b"abc\nabc"), longest=3)) == ["abc\n", "abc"]
    with pytest.raises(DataError, match="line 2"):
        list(TextLines(io.BytesIO(b"abc\nabcd"), longest=3))


@pytest.mark.parametrize("encoding", ["no-such", "hex", "rot13", "punycode", "base64", ""])
def test_what_is_not_a_text_encoding_is_refused(encoding: str) -> None:
    with pytest.raises(ParameterError, match="encoding"):
        TextLines(io.BytesIO(b""), encoding)


def test_a_record_that_utf8_cannot_write_is_located() -> None:
    with pytest.raises(DataError, match="row 12 holds half of a surrogate pair"):
        encoded(["good", "bad\ud800"], first=10)
