"""Every format is written here from random words and vectors and must read back equal; every damage is named."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sfumato.foundation.errors import ParameterError, SpaceFileError
from sfumato.space import files, formats
from sfumato.space.files import read

TRICKY = [
    ". . .",
    "at name@domain.com",
    "a\u00a0b",
    "\u00a0",
    "next\u0085line",
    "1\u00a01/2",
    "日本 語",
    "3.5",
    "nan",
    "🙂",
]


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def usable(word: str) -> bool:
    """No text file can hold a line feed in a word, spaces around it, or a number after its last space."""
    edges = word != word.strip(" \r") or word.startswith("\ufeff")
    return not (edges or "\n" in word or (" " in word and is_number(word.rpartition(" ")[2])))


one_word = st.one_of(
    st.sampled_from(TRICKY),
    st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=8),
    st.lists(st.text("ab.\u00a0\u0085é", min_size=1, max_size=4), min_size=1, max_size=3).map(" ".join),
).filter(usable)
number = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def spaces(draw: st.DrawFn) -> tuple[list[str], np.ndarray]:
    words = draw(st.lists(one_word, min_size=1, max_size=12, unique=True))
    dimension = draw(st.integers(1, 6))
    rows = draw(
        st.lists(st.lists(number, min_size=dimension, max_size=dimension), min_size=len(words), max_size=len(words))
    )
    return words, np.array(rows, dtype=np.float32)


def as_text(
    words: list[str], vectors: np.ndarray, *, header: bool = False, end: str = "\n", last: bool = True
) -> bytes:
    lines = [f"{len(words)} {vectors.shape[1]}"] if header else []
    lines += [" ".join([word, *map(str, row)]) for word, row in zip(words, vectors.tolist(), strict=True)]
    return (end.join(lines) + (end if last else "")).encode()


def as_binary(words: list[str], vectors: np.ndarray, *, feed: bytes = b"\n") -> bytes:
    records = [w.encode() + b" " + v.astype("<f4").tobytes() + feed for w, v in zip(words, vectors, strict=True)]
    return b"%d %d\n" % vectors.shape + b"".join(records)


def as_npz(**arrays: object) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def as_zip(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def put(folder: Path, content: bytes, name: str = "vectors") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def check(path: Path, words: list[str], vectors: np.ndarray, **options: object) -> None:
    found_words, found, scale = read(path, **options)  # type: ignore[arg-type]
    assert found_words == words
    assert found.dtype == np.float32
    assert np.array_equal(found, vectors)
    assert scale == 1.0


relaxed = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


class TestRoundTrip:
    @relaxed
    @given(spaces(), st.sampled_from(["\n", "\r\n", " \n"]), st.booleans(), st.booleans())
    def test_text_with_a_header(
        self, tmp_path: Path, space: tuple[list[str], np.ndarray], end: str, last: bool, packed: bool
    ) -> None:
        content = as_text(*space, header=True, end=end, last=last)
        check(put(tmp_path, gzip.compress(content) if packed else content), *space)

    @relaxed
    @given(spaces(), st.sampled_from(["\n", "\r\n", " \n"]), st.booleans())
    def test_glove_text(self, tmp_path: Path, space: tuple[list[str], np.ndarray], end: str, last: bool) -> None:
        words, vectors = space
        plain = [f"plain{i}" for i in range(len(words) + 1)]  # most first lines have an ordinary word
        words = [*words[:1], *plain, *words[1:]]
        vectors = np.vstack([vectors[:1], np.ones((len(plain), vectors.shape[1]), np.float32), vectors[1:]])
        check(put(tmp_path, as_text(words, vectors, end=end, last=last)), words, vectors)

    @relaxed
    @given(spaces(), st.sampled_from([b"\n", b""]), st.booleans())
    def test_word2vec_binary(
        self, tmp_path: Path, space: tuple[list[str], np.ndarray], feed: bytes, packed: bool
    ) -> None:
        words = list(dict.fromkeys(word.replace(" ", "_") for word in space[0]))
        vectors = space[1][: len(words)]
        content = as_binary(words, vectors, feed=feed)
        check(put(tmp_path, gzip.compress(content) if packed else content), words, vectors)

    @relaxed
    @given(spaces(), st.booleans(), st.booleans())
    def test_npz(self, tmp_path: Path, space: tuple[list[str], np.ndarray], joined: bool, packed: bool) -> None:
        words, vectors = space
        words = list(dict.fromkeys(word.rstrip("\0") or "zero" for word in words))  # unicode arrays drop final NULs
        vectors = np.asfortranarray(vectors[: len(words)])
        stored = np.frombuffer("\n".join(words).encode(), np.uint8) if joined else np.array(words)
        content = as_npz(words=stored, vectors=vectors)
        check(put(tmp_path, gzip.compress(content) if packed else content), words, vectors)

    @relaxed
    @given(spaces())
    def test_zip_member(self, tmp_path: Path, space: tuple[list[str], np.ndarray]) -> None:
        content = as_text(*space, header=True)
        check(put(tmp_path, as_zip(only=content)), *space)
        path = put(tmp_path, as_zip(first=b"x 1\n", second=content))
        check(path, *space, member="second")

    @pytest.mark.parametrize("block", [40, 64, 1000])
    def test_blocks_cut_anywhere(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
        monkeypatch.setattr(formats, "BLOCK", block)
        generator = np.random.default_rng(1)
        words = [f"{TRICKY[i % len(TRICKY)]}{chr(97 + i % 26)}{i}x" for i in range(60)]
        vectors = generator.normal(size=(60, 3)).astype(np.float32)
        check(put(tmp_path, as_text(words, vectors, header=True) + b"\r\n\n \n"), words, vectors)
        words = [word.replace(" ", "_") for word in words]
        check(put(tmp_path, as_binary(words, vectors)), words, vectors)

    @pytest.mark.parametrize("order", ["C", "F"])
    def test_npz_in_several_slices(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str) -> None:
        monkeypatch.setattr(files, "_ROWS_AT_ONCE", 4)
        words = [f"w{i}" for i in range(19)]
        vectors = np.arange(57, dtype=np.float32).reshape(19, 3)
        path = put(tmp_path, as_npz(words=np.array(words), vectors=np.asarray(vectors, order=order)))
        check(path, words, vectors)
        check(path, words[:6], vectors[:6], limit=6)

    def test_int8_npz_keeps_its_type_and_scale(self, tmp_path: Path) -> None:
        vectors = np.array([[-128, 127], [0, 1]], np.int8)
        path = put(tmp_path, as_npz(words=np.array(["a", "b"]), vectors=vectors, scale=0.25))
        words, found, scale = read(path)
        assert (words, found.dtype, found.tolist(), scale) == (["a", "b"], np.int8, vectors.tolist(), 0.25)

    def test_fast_and_strict_parsers_agree(self) -> None:
        generator = np.random.default_rng(2)
        words = [*TRICKY, *(f"w{i}" for i in range(200))]
        vectors = (
            generator.normal(size=(len(words), 5)) * 10.0 ** generator.integers(-30, 30, (len(words), 5))
        ).astype(np.float32)
        block = as_text(words, vectors)
        fast = formats._parse_fast(block, 5)
        strict = formats._parse_strictly(block, 5, formats.Rows(None, "error"))
        assert fast is not None
        assert fast[0] == strict[0] == words
        assert np.array_equal(fast[1], strict[1])

    def test_numbers_only_the_strict_parser_reads(self, tmp_path: Path) -> None:
        words, vectors, _ = read(put(tmp_path, b"a +0.5 1e-60\nb .5 5.\n"))
        assert words == ["a", "b"]
        assert vectors.tolist() == [[0.5, 0.0], [0.5, 5.0]]


class TestDimension:
    def test_the_first_words_may_hold_spaces_or_look_like_numbers(self, tmp_path: Path) -> None:
        words = [". . .", "at name@domain.com", "7", "a", "b", "1.5"]
        vectors = np.arange(12, dtype=np.float32).reshape(6, 2)
        check(put(tmp_path, as_text(words, vectors)), words, vectors)

    def test_a_damaged_first_line_does_not_set_it(self, tmp_path: Path) -> None:
        with pytest.raises(SpaceFileError, match="line 1 is malformed: 1 numbers end it, 2 must"):
            read(put(tmp_path, b"a 1\nb 1 2\nc 1 2\n"))

    def test_no_line_is_read_with_a_number_in_its_word(self, tmp_path: Path) -> None:
        with pytest.raises(SpaceFileError, match="line 2 has the wrong dimension: more than 2"):
            read(put(tmp_path, b"a 1 2\nb 1 2 3\nc 1 2\n"))

    def test_a_byte_order_mark_is_no_part_of_the_first_word(self, tmp_path: Path) -> None:
        assert read(put(tmp_path, b"\xef\xbb\xbfa 1\nb 2\n"))[0] == ["a", "b"]
        assert read(put(tmp_path, b"\xef\xbb\xbf1 1\na 2\n"))[0] == ["a"]


class TestLimit:
    @pytest.mark.parametrize("content", [b"a 1 0\nb 2 0\nbroken\n", b"9 2\na 1 0\nb 2 0\nbroken\n"])
    def test_stops_before_what_follows(self, tmp_path: Path, content: bytes) -> None:
        words, vectors, _ = read(put(tmp_path, content), limit=2)
        assert words == ["a", "b"]
        assert vectors.shape == (2, 2)
        with pytest.raises(SpaceFileError):
            read(put(tmp_path, content), limit=3)

    def test_binary_and_npz(self, tmp_path: Path) -> None:
        vectors = np.eye(3, dtype=np.float32)
        assert read(put(tmp_path, as_binary(["a", "b", "c"], vectors)[:-9]), limit=2)[0] == ["a", "b"]
        path = put(tmp_path, as_npz(words=np.array(["a", "b", "a"]), vectors=vectors))
        assert read(path, limit=2)[0] == ["a", "b"]

    def test_larger_than_the_file(self, tmp_path: Path) -> None:
        assert read(put(tmp_path, b"a 1\nb 2\n"), limit=99)[0] == ["a", "b"]

    def test_counts_distinct_words(self, tmp_path: Path) -> None:
        path = put(tmp_path, b"a 1\na 2\nb 3\nc 4\n")
        words, vectors, _ = read(path, limit=2, duplicates="first")
        assert words == ["a", "b"]
        assert vectors.tolist() == [[1], [3]]

    @pytest.mark.parametrize("limit", [0, -1, 1.5])
    def test_must_be_a_count(self, tmp_path: Path, limit: float) -> None:
        with pytest.raises(ParameterError, match="limit"):
            read(put(tmp_path, b"a 1\n"), limit=limit)  # type: ignore[arg-type]


SECRET = "Zebulon"
GOOD = "one 1 2\ntwo 3 4\n"


class TestDamagedText:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (GOOD + f"{SECRET} 5\n", "line 3 is malformed: 1 numbers"),
            (GOOD + f"{SECRET}\n", "line 3 is malformed: 0 numbers"),
            (GOOD + f"{SECRET} 5 x\n", "line 3 is malformed"),
            (GOOD + f"{SECRET} 5 6 7\n", "line 3 has the wrong dimension"),
            (GOOD + f"{SECRET} 5  6\n", "line 3 is malformed"),
            (GOOD + f"{SECRET}  5 6\n", "line 3 is malformed: its word begins or ends"),
            (GOOD + f" {SECRET} 5 6\n", "line 3 is malformed: its word begins or ends"),
            (GOOD + " 5 6\n", "line 3 is malformed"),
            (GOOD + f"{SECRET}\t5 6\n", "line 3 is malformed"),
            (GOOD + f"{SECRET} nan 6\n", "line 3 holds a NaN"),
            (GOOD + f"{SECRET} 5 -inf\n", "line 3 holds a NaN or infinite"),
            (GOOD + f"{SECRET} 5 1e39\n", "line 3 holds a NaN or infinite"),
            (GOOD + "two 5 6\n", "line 3 repeats an earlier word; pass duplicates='first'"),
            (GOOD + f"\n{SECRET} 5 6\n", "line 3 is blank"),
            (GOOD.encode() + b"\xff\xfe 5 6\n", "line 3 holds a word that is not UTF-8"),
            ("3 2\n" + GOOD, "declares 3 words but 2 are there: the file was cut short"),
            ("1 2\n" + GOOD, "declares 1 words but 2 are there"),
            ("3 2\n" + GOOD + f"{SECRET} 5\n", "line 4 is malformed"),
            ("2 2\n", "declares 2 words but 0"),
            ("0 2\n", "line 1 declares no usable"),
            ("3 0\n" + GOOD, "line 1 declares no usable"),
        ],
    )
    def test_names_the_line_and_not_the_word(self, tmp_path: Path, content: str | bytes, message: str) -> None:
        path = put(tmp_path, content if isinstance(content, bytes) else content.encode())
        with pytest.raises(SpaceFileError) as caught:
            read(path)
        assert message in str(caught.value)
        assert SECRET not in str(caught.value)
        assert "two" not in str(caught.value)

    def test_in_a_later_block(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(formats, "BLOCK", 50)
        lines = [f"w{i} {i} 1" for i in range(100)]
        lines[77] = "w77 0"
        with pytest.raises(SpaceFileError, match="line 78 is malformed"):
            read(put(tmp_path, "\n".join(lines).encode()))
        lines[77] = "w5 1 1"
        with pytest.raises(SpaceFileError, match="line 78 repeats"):
            read(put(tmp_path, "\n".join(lines).encode()))

    @pytest.mark.parametrize("gap", ["\n\n", "\n \n", "\n\r\n\r\n"])
    @pytest.mark.parametrize("block", [6, 8, 1000])
    def test_blank_lines_are_passed_over_only_at_the_end(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gap: str, block: int
    ) -> None:
        monkeypatch.setattr(formats, "BLOCK", block)
        assert read(put(tmp_path, ("a 1\nb 2" + gap).encode()))[0] == ["a", "b"]
        with pytest.raises(SpaceFileError, match="line 3 is blank"):
            read(put(tmp_path, ("a 1\nb 2" + gap + "c 3\n").encode()))

    def test_duplicates_first(self, tmp_path: Path) -> None:
        words, vectors, _ = read(put(tmp_path, b"5 1\na 1\nb 2\na 3\nc 4\nb 5\n"), duplicates="first")
        assert words == ["a", "b", "c"]
        assert vectors.ravel().tolist() == [1, 2, 4]

    def test_unknown_way_with_duplicates(self, tmp_path: Path) -> None:
        with pytest.raises(ParameterError, match="duplicates must be one of"):
            read(put(tmp_path, b"a 1\n"), duplicates="last")


class TestDamagedBinary:
    words = ("one", SECRET, "three")
    vectors = np.arange(1, 10, dtype=np.float32).reshape(3, 3) / 7

    @pytest.mark.parametrize(("dropped", "number"), [(2, 3), (13, 3), (19, 3), (21, 2), (45, 1)])
    def test_cut_short(self, tmp_path: Path, dropped: int, number: int) -> None:
        content = as_binary(list(self.words), self.vectors)
        with pytest.raises(SpaceFileError, match=f"word {number} of 3 is cut short") as caught:
            read(put(tmp_path, content[:-dropped]))
        assert SECRET not in str(caught.value)

    def test_more_than_declared(self, tmp_path: Path) -> None:
        content = as_binary(list(self.words), self.vectors).replace(b"3 3\n", b"2 3\n", 1)
        with pytest.raises(SpaceFileError, match="more in the file than the 2 words"):
            read(put(tmp_path, content))

    def test_a_word_without_end(self, tmp_path: Path) -> None:
        content = b"3 3\n" + b"\xe9" * (formats.LONGEST_WORD + 10)
        with pytest.raises(SpaceFileError, match="word 1 is damaged"):
            read(put(tmp_path, content))

    def test_not_utf8(self, tmp_path: Path) -> None:
        content = as_binary(list(self.words), self.vectors).replace(SECRET.encode(), b"\xff\xfe")
        with pytest.raises(SpaceFileError, match="word 2 holds a word that is not UTF-8"):
            read(put(tmp_path, content))

    def test_nan(self, tmp_path: Path) -> None:
        vectors = self.vectors.copy()
        vectors[1, 2] = np.nan
        with pytest.raises(SpaceFileError, match="word 2 holds a NaN"):
            read(put(tmp_path, as_binary(list(self.words), vectors)))


class TestNpz:
    two = np.eye(2, dtype=np.float32)

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"words": np.array(["a", "b"])}, "lacks an array"),
            ({"vectors": two}, "lacks an array"),
            ({"words": np.array(["a"]), "vectors": two}, "1 words but 2 vectors"),
            ({"words": np.array(["a", "b"], dtype=object), "vectors": two}, "Python objects"),
            ({"words": np.array([1, 2]), "vectors": two}, "'words' must be"),
            ({"words": np.frombuffer(b"\xff\nb", np.uint8), "vectors": two}, "not UTF-8"),
            ({"words": np.array(["a", "b"]), "vectors": np.ones(2)}, "two-dimensional"),
            ({"words": np.array(["a", ""]), "vectors": two}, "row 1 holds no word"),
            ({"words": np.array(["a", "a"]), "vectors": two}, "row 1 repeats"),
            ({"words": np.array(["a", "b"]), "vectors": two * np.nan}, "row 0 holds a NaN"),
            ({"words": np.array(["a", "b"]), "vectors": two.astype(np.float64) * 1e300}, "row 0 holds a NaN or inf"),
            ({"words": np.array(["a", "b"]), "vectors": two.astype(np.int64) + 2**40 + 1}, "float32 cannot"),
            ({"words": np.array(["a", "b"]), "vectors": two, "scale": 0.0}, "'scale' must"),
            ({"words": np.array(["a", "b"]), "vectors": two, "scale": np.ones(2)}, "'scale' must"),
        ],
    )
    def test_damaged(self, tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
        with pytest.raises(SpaceFileError, match=message):
            read(put(tmp_path, as_npz(**arrays)))

    def test_duplicates_first_with_limit(self, tmp_path: Path) -> None:
        path = put(tmp_path, as_npz(words=np.array(["a", "a", "b", "c"]), vectors=np.arange(4.0).reshape(4, 1)))
        words, vectors, _ = read(path, duplicates="first", limit=2)
        assert words == ["a", "b"]
        assert vectors.ravel().tolist() == [0, 2]


class TestOtherFiles:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "the file is empty"),
            (gzip.compress(b"", mtime=0), "the file is empty"),
            (b"\n\n", "no GloVe, word2vec or fastText file"),
            (b"\x89PNG\r\n\x1a\n....", "an image"),
            (b"%PDF-1.7 ...", "a PDF"),
            (b"\x7fELF\x02\x01\x01", "a program"),
            (struct.pack("<ii", 793712314, 12) + bytes(60), r"a fastText model; read the \.vec file"),
            (b"\x80\x04\x95...", "a Python pickle, which is never read"),
            (b"<!DOCTYPE html><html>404", "a web page"),
            (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
            (b"BZh91AY&SY....", "unpack it first"),
            ("a 1\n".encode("utf-16"), "UTF-16"),
            (b"Once upon a time\nthere was a file\n", "no GloVe, word2vec or fastText file"),
            (b'{"a": [1, 2]}', "no GloVe, word2vec or fastText file"),
            (as_zip(), "the archive is empty"),
            (as_zip(b=b"x 1\n", a=b"y 1\n"), "choose with member= one of: a, b"),
        ],
    )
    def test_are_told_apart(self, tmp_path: Path, content: bytes, message: str) -> None:
        with pytest.raises(SpaceFileError, match=message):
            read(put(tmp_path, content))

    def test_unknown_member(self, tmp_path: Path) -> None:
        with pytest.raises(SpaceFileError, match="no such member"):
            read(put(tmp_path, as_zip(a=b"x 1\n")), member="b")

    def test_member_of_no_archive(self, tmp_path: Path) -> None:
        with pytest.raises(ParameterError, match="member"):
            read(put(tmp_path, b"x 1\n"), member="b")

    @pytest.mark.parametrize("pack", [gzip.compress, lambda content: as_zip(only=content)])
    def test_cut_archives(self, tmp_path: Path, pack: object) -> None:
        generator = np.random.default_rng(3)
        whole = pack(as_text([f"w{i}" for i in range(500)], generator.normal(size=(500, 4))))  # type: ignore[operator]
        with pytest.raises(SpaceFileError, match="damaged or cut short"):
            read(put(tmp_path, whole[: len(whole) // 2]))

    def test_a_changed_byte_in_an_archive(self, tmp_path: Path) -> None:
        content = bytearray(as_zip(only=b"a 1\nb 2\n" * 1))
        content[content.index(b"only") + 6] ^= 0xFF
        with pytest.raises(SpaceFileError, match="damaged"):
            read(put(tmp_path, bytes(content)))

    def test_missing_file_and_folder(self, tmp_path: Path) -> None:
        with pytest.raises(SpaceFileError, match="absent: cannot be read: No such file"):
            read(tmp_path / "absent")
        with pytest.raises(SpaceFileError, match="cannot be read"):
            read(tmp_path)

    def test_a_line_that_never_ends(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(formats, "BLOCK", 100)
        monkeypatch.setattr(formats, "LONGEST_LINE", 500)
        with pytest.raises(SpaceFileError, match="longer than 500 bytes"):
            read(put(tmp_path, b"9 1\nab 1\n" + b"x" * 1000))
