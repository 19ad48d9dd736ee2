"""The two ways in which words and vectors are written one after another: lines of text, and word2vec's binary.

Both are read in blocks into one growing array, so memory follows the result and not the file.  Lines of text are cut
by their bytes: only the ASCII space separates and only the line feed ends a line, because words of the published files
hold no-break spaces, next-line characters and plain spaces.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, BinaryIO, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as arrow_csv

from sfumato.foundation.errors import SpaceFileError

BLOCK = 4 << 20
"""Bytes read at once; the first holds the header and the first line, by which the format is told."""
LONGEST_LINE = 64 << 20
LONGEST_WORD = 1 << 16
LARGEST_DIMENSION = 1_000_000
LINES_LOOKED_AT = 200

_NUMBER = re.compile(rb"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|nan|inf|infinity)", re.IGNORECASE)
_HEADER = re.compile(rb"(\d+) (\d+)[ \r]*")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

Array = npt.NDArray[Any]


class Rows:
    """Words and vectors read so far; refuses what no space can hold and names the place in the file."""

    def __init__(self, limit: int | None, duplicates: str, unit: str = "line", first: int = 1) -> None:
        self.words: dict[str, None] = {}
        self._limit, self._duplicates, self._unit = limit, duplicates, unit
        self._array: Array | None = None
        self._next = first

    @property
    def missing(self) -> int | None:
        """How many more words are wanted; None where every one is."""
        return None if self._limit is None else self._limit - len(self.words)

    @property
    def position(self) -> int:
        """Number, in the file, of the row that comes next."""
        return self._next

    def fail(self, offset: int, problem: str) -> NoReturn:
        """Raise the error for the row ``offset`` rows after the next one."""
        raise SpaceFileError(f"{self._unit} {self._next + offset} {problem}")

    def add(self, words: Sequence[str], vectors: Array) -> None:
        """Append a block."""
        bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if len(bad):
            self.fail(int(bad[0]), "holds a NaN or infinite number; correct or remove it")
        fresh = dict.fromkeys(words)
        if "" in fresh:
            self.fail(words.index(""), "holds no word")
        if len(fresh) != len(words) or not self.words.keys().isdisjoint(fresh):
            keep = self._first_of_each(words)
            vectors = vectors[keep]
            fresh = {word: None for word in fresh if word not in self.words}
        self._store(vectors)
        self.words.update(fresh)
        self._next += len(words)

    def _first_of_each(self, words: Sequence[str]) -> list[int]:
        seen, keep = set(self.words), []
        for offset, word in enumerate(words):
            if word not in seen:
                seen.add(word)
                keep.append(offset)
            elif self._duplicates == "error":
                self.fail(offset, "repeats an earlier word; pass duplicates='first' to keep the first of each")
        return keep

    def _store(self, vectors: Array) -> None:
        used, needed = len(self.words), len(self.words) + len(vectors)
        if self._array is None:
            self._array = np.empty(vectors.shape, dtype=vectors.dtype)
        if needed > len(self._array):
            room = max(needed, len(self._array) * 5 // 4)
            self._array.resize((room, vectors.shape[1]), refcheck=False)
        self._array[used:needed] = vectors

    def result(self) -> tuple[list[str], Array]:
        """Return the words and their vectors."""
        if self._array is None or not self.words:
            raise SpaceFileError("the file holds no words")
        self._array.resize((len(self.words), self._array.shape[1]), refcheck=False)
        return list(self.words), self._array


def read_rows(stream: BinaryIO, *, limit: int | None, duplicates: str) -> tuple[list[str], Array]:
    """Read lines of text, with or without a header, or word2vec's binary format."""
    head = stream.read(BLOCK)
    if head.startswith(_BYTE_ORDER_MARK) and head[3:4] != b" ":
        head = head[3:]
    first, _, rest = head.partition(b"\n")
    header = _HEADER.fullmatch(first)
    if header is None:
        rows = Rows(limit, duplicates)
        _read_text(stream, head, rows, _inferred_dimension(head), None)
        return rows.result()
    declared, dimension = int(header[1]), int(header[2])
    if declared == 0 or not 0 < dimension <= LARGEST_DIMENSION:
        raise SpaceFileError("line 1 declares no usable number of words and of components")
    if _is_binary(rest, dimension):
        rows = Rows(limit, duplicates, unit="word")
        _read_binary(stream, rest, rows, dimension, declared)
    else:
        rows = Rows(limit, duplicates, first=2)
        _read_text(stream, rest, rows, dimension, declared)
    return rows.result()


def _inferred_dimension(head: bytes) -> int:
    """Return what most of the first lines agree on: a single one may be damaged, or its word look like a number."""
    lines = head.split(b"\n", LINES_LOOKED_AT)
    if len(lines) > 1:
        lines.pop()  # the rest of the block, or what follows the last line feed
    votes = Counter(_trailing_numbers(line) for line in lines if line.strip(b" \r"))
    dimension = max(votes, key=lambda count: (votes[count], count), default=0)
    if dimension == 0:
        raise SpaceFileError(
            "the first lines are not words followed by numbers: this is no GloVe, word2vec or fastText file; numbers "
            "must be separated by single spaces"
        )
    return dimension


def _trailing_numbers(line: bytes) -> int:
    parts = line.rstrip(b" \r").split(b" ")[1:]
    count = 0
    for part in reversed(parts):
        if not _NUMBER.fullmatch(part):
            break
        count += 1
    return count


def _is_binary(body: bytes, dimension: int) -> bool:
    """Tell whether what follows the header is binary: a first line that is mostly no numbers."""
    if not body:
        return False
    line = body.split(b"\n", 1)[0]
    if _trailing_numbers(line) >= dimension:
        return False
    numbers = sum(_NUMBER.fullmatch(part) is not None for part in line.split(b" ")[1:])
    return 2 * numbers < min(dimension, line.count(b" ")) or numbers == 0


def _read_text(stream: BinaryIO, head: bytes, rows: Rows, dimension: int, declared: int | None) -> None:
    start = rows.position
    for block in _blocks(stream, head):
        while block and rows.missing != 0:
            part, block = _first_lines(block, rows.missing)
            rows.add(*(_parse_fast(part, dimension) or _parse_strictly(part, dimension, rows)))
        if rows.missing == 0:
            return
    _require_count(rows.position - start, declared)


def _require_count(found: int, declared: int | None) -> None:
    if declared is not None and found != declared:
        advice = "the file was cut short; download it again" if found < declared else "it was altered"
        raise SpaceFileError(f"the header declares {declared} words but {found} are there: {advice}")


def _blocks(stream: BinaryIO, head: bytes) -> Iterator[bytes]:
    """Cut a stream into blocks of whole lines; blank lines are only ever passed over at the very end."""
    data, more = head, True
    while data:
        if not more:
            kept = data.rstrip(b" \r\n")
            if kept:
                yield kept + b"\n"
            return
        kept = data[: data.rfind(b"\n") + 1].rstrip(b" \r\n")
        if kept:
            yield kept + b"\n"
            data = data[data.index(b"\n", len(kept)) + 1 :]
        if len(data) > LONGEST_LINE:
            raise SpaceFileError(f"a line is longer than {LONGEST_LINE} bytes: this is no file of words and vectors")
        fresh = stream.read(BLOCK)
        more = bool(fresh)
        data += fresh


def _first_lines(block: bytes, count: int | None) -> tuple[bytes, bytes]:
    if count is None:
        return block, b""
    ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == 10)
    cut = len(block) if count >= len(ends) else int(ends[count - 1]) + 1
    return block[:cut], block[cut:]


def _parse_fast(block: bytes, dimension: int) -> tuple[list[str], Array] | None:
    """Parse whole lines at once; None at the slightest doubt, which :func:`_parse_strictly` then resolves."""
    codes = np.frombuffer(block, dtype=np.uint8)
    ends = np.flatnonzero(codes == 10)
    starts = np.concatenate([[0], ends[:-1] + 1])
    for _ in range(2):  # a trailing space, a carriage return, or both
        last = codes[np.maximum(ends - 1, 0)]
        ends = ends - ((ends > starts) & ((last == 32) | (last == 13)))
    spaces = np.flatnonzero(codes == 32)
    left = np.searchsorted(spaces, ends) - dimension
    if (left < 0).any():
        return None
    cuts = spaces[left]
    if (cuts <= starts).any() or (codes[cuts - 1] == 32).any() or (codes[starts] == 32).any():
        return None
    spans = list(zip(starts.tolist(), cuts.tolist(), ends.tolist(), strict=True))
    for row in np.flatnonzero(np.searchsorted(spaces, starts) < left).tolist():
        if _NUMBER.fullmatch(block[spans[row][0] : spans[row][1]].rpartition(b" ")[2]):
            return None
    vectors = _parse_numbers(b"".join([block[cut + 1 : end] + b"\n" for _, cut, end in spans]), dimension)
    if vectors is None or len(vectors) != len(spans):
        return None
    try:
        words = b"\n".join([block[start:cut] for start, cut, _ in spans]).decode("utf-8").split("\n")
    except UnicodeDecodeError:
        return None
    return words, vectors


def _parse_numbers(lines: bytes, dimension: int) -> Array | None:
    names = [str(column) for column in range(dimension)]
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(lines),
            read_options=arrow_csv.ReadOptions(column_names=names, block_size=1 << 20),
            parse_options=arrow_csv.ParseOptions(delimiter=" ", quote_char=False, ignore_empty_lines=False),
            convert_options=arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.float32()), null_values=[]),
        )
    except pa.ArrowInvalid:
        return None
    vectors = np.empty((table.num_rows, dimension), dtype=np.float32)
    start = 0
    for batch in table.to_batches():
        for column in range(dimension):
            vectors[start : start + batch.num_rows, column] = batch.column(column).to_numpy()
        start += batch.num_rows
    return vectors


def _parse_strictly(block: bytes, dimension: int, rows: Rows) -> tuple[list[str], Array]:
    """Parse line by line, naming the first line that is wrong."""
    lines = block[:-1].split(b"\n")
    words, vectors = [], np.empty((len(lines), dimension), dtype=np.float32)
    for offset, line in enumerate(lines):
        word, *numbers = line.rstrip(b" \r").rsplit(b" ", dimension)
        if not word and not numbers:
            rows.fail(offset, "is blank; remove it")
        if len(numbers) != dimension or not word or not all(map(_NUMBER.fullmatch, numbers)):
            found = _trailing_numbers(line)
            rows.fail(
                offset, f"is malformed: {found} numbers end it, {dimension} must follow the word; correct or remove it"
            )
        if b" " in word and _NUMBER.fullmatch(word.rpartition(b" ")[2]):
            rows.fail(offset, f"has the wrong dimension: more than {dimension} numbers end it; correct or remove it")
        if word.startswith(b" ") or word.endswith(b" "):
            rows.fail(offset, "is malformed: its word begins or ends with a space; correct or remove it")
        words.append(_decoded(word, rows, offset))
        with np.errstate(over="ignore"):
            vectors[offset] = [float(number) for number in numbers]
    return words, vectors


def _decoded(word: bytes, rows: Rows, offset: int) -> str:
    try:
        return word.decode("utf-8")
    except UnicodeDecodeError:
        rows.fail(offset, "holds a word that is not UTF-8; convert the file to UTF-8")


def _read_binary(stream: BinaryIO, data: bytes, rows: Rows, dimension: int, declared: int) -> None:
    """Read ``word SPACE floats [LF]`` records, each float32 in little-endian order."""
    width, done = 4 * dimension, 0
    wanted = declared if rows.missing is None else min(declared, rows.missing)
    while done < wanted:
        spans, position = _whole_records(data, width, wanted - done)
        if spans:
            words = [_decoded(data[start:cut], rows, offset) for offset, (start, cut) in enumerate(spans)]
            numbers = b"".join([data[cut + 1 : cut + 1 + width] for _, cut in spans])
            rows.add(words, np.frombuffer(numbers, dtype="<f4").astype(np.float32).reshape(-1, dimension))
            done, data = done + len(spans), data[position:]
            wanted = declared if rows.missing is None else min(declared, done + rows.missing)
            continue
        if data.find(b" ", 0, LONGEST_WORD) < 0 and len(data) > LONGEST_WORD:
            rows.fail(0, "is damaged: no end of the word was found")
        fresh = stream.read(max(BLOCK, width))
        if not fresh:
            rows.fail(0, f"of {declared} is cut short: the file ends within it; download it again")
        data += fresh
    if done == declared and (data.strip(b"\n") or stream.read(2).strip(b"\n")):
        raise SpaceFileError(f"there is more in the file than the {declared} words that its header declares")


def _whole_records(data: bytes, width: int, most: int) -> tuple[list[tuple[int, int]], int]:
    """Return the bounds of each whole record's word, and where the last record ends."""
    spans: list[tuple[int, int]] = []
    position = 0
    while len(spans) < most:
        start = position
        while data[start : start + 1] == b"\n":
            start += 1
        cut = data.find(b" ", start, start + LONGEST_WORD)
        if cut < 0 or cut + 1 + width > len(data):
            break
        spans.append((start, cut))
        position = cut + 1 + width
    return spans, position


def row_slices(count: int, size: int) -> Iterator[slice]:
    """Cut ``count`` rows into slices of at most ``size``."""
    bounds = [*range(0, count, size), count]
    return (slice(start, end) for start, end in pairwise(bounds))
