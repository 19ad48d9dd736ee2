"""Where random numbers come from.

A *source* hands out uniform 64-bit integers and nothing else; mechanisms turn them into draws with integer
arithmetic.  There are two sources:

* :class:`SystemSource` reads the operating system's cryptographic generator.
* :class:`RunKey` derives the numbers of record *i* of a run from a secret 256-bit key and *i* (SHAKE-256 as a
  pseudo-random function).  A retried record or a recomputed partition therefore gives the same output: noise is
  never drawn twice for one release.  Whoever knows the key can undo the noise, so it stays with the data owner.

A run key made from a small seed (:meth:`RunKey.from_seed`) is for experiments; it says ``secure = False`` and so
does every guarantee that rests on it.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from sfumato.foundation.checks import require_index
from sfumato.foundation.errors import ParameterError

UInt64Array = npt.NDArray[np.uint64]
KEY_BYTES = 32
_BLOCK = 1024
"""Numbers of a stream that are made together."""
_FIRST_BLOCK = bytes(8)


@runtime_checkable
class Source(Protocol):
    """Uniform 64-bit integers for a known number of draws."""

    @property
    def secure(self) -> bool:
        """Whether the stream is unpredictable to everyone who does not hold a secret key."""
        ...

    def uint64(self, count: int, each: int = 1) -> UInt64Array:
        """The integers of the next ``count`` draws, ``each`` for every draw, one draw after the other."""
        ...

    def again(self, positions: npt.NDArray[np.intp], attempt: int) -> UInt64Array:
        """One further integer for each draw (by its position in the last call) that was rejected."""
        ...


class SystemSource:
    """The operating system's cryptographic generator; safe to share between threads and after a fork.

    >>> SystemSource().uint64(3).dtype
    dtype('uint64')
    """

    secure = True

    def uint64(self, count: int, each: int = 1) -> UInt64Array:
        """Return fresh integers."""
        return _integers(os.urandom(8 * count * each))

    def again(self, positions: npt.NDArray[np.intp], attempt: int) -> UInt64Array:
        """Return fresh integers for rejected draws."""
        return self.uint64(len(positions))


def _integers(stream: bytes) -> UInt64Array:
    return np.frombuffer(stream, dtype="<u8").astype(np.uint64, copy=False)


def _stretch(prefix: bytes, start: int, count: int) -> bytes:
    """Return numbers of the stream with that prefix as they are in memory: number *i* is a function of prefix and i."""
    first, offset = divmod(start, _BLOCK)
    blocks = range(first, -(-(start + count) // _BLOCK))
    pieces = [
        hashlib.shake_256(prefix + block.to_bytes(8, "little")).digest(8 * min(_BLOCK, start + count - block * _BLOCK))
        for block in blocks
    ]
    return b"".join(pieces)[8 * offset :]


def _number_again(prefix: bytes, number: int, attempt: int) -> int:
    """Return what replaces a number of a stream that was rejected: it depends on the number's place and the attempt only."""
    # In front, where the other streams have the secret: a label that ends in "again" names no number of this one.
    label = b"again" + attempt.to_bytes(4, "little") + prefix + number.to_bytes(8, "little")
    return int.from_bytes(hashlib.shake_256(label).digest(8), "little")


class StreamSource:
    """The pseudo-random stream of one record."""

    def __init__(self, prefix: bytes, secure: bool) -> None:
        self._prefix = prefix
        self._position = 0
        self._last_start = 0
        self.secure = secure

    def uint64(self, count: int, each: int = 1) -> UInt64Array:
        """Return the next integers; how calls are split does not change the stream."""
        self._last_start = self._position
        self._position += count * each
        return _integers(_stretch(self._prefix, self._last_start, count * each))

    def again(self, positions: npt.NDArray[np.intp], attempt: int) -> UInt64Array:
        """Return the integer that replaces each rejected one."""
        places = (self._last_start + positions).tolist()
        return np.array([_number_again(self._prefix, place, attempt) for place in places], dtype=np.uint64)


class BatchSource:
    """The streams of several records side by side, so that their draws can be made in one go.

    Draw *j* of record *i* takes the number it would have taken had the record been drawn alone.
    """

    def __init__(self, prefixes: Sequence[bytes], counts: Sequence[int], secure: bool) -> None:
        self._prefixes = prefixes
        self._counts = counts
        self._starts = np.concatenate([[0], np.cumsum(np.asarray(counts, dtype=np.intp))])
        self._each_before, self._each_last = 0, 0
        """Numbers that were taken for every draw: before the last call, and in it."""
        self.secure = secure

    def uint64(self, count: int, each: int = 1) -> UInt64Array:
        """Return the numbers of all records, one after the other; ``count`` is the total of their draws."""
        if count != self._starts[-1]:
            raise ParameterError(f"this batch makes {self._starts[-1]} draws at a time, got {count}")
        before = self._each_before = self._each_before + self._each_last
        self._each_last = each
        records = zip(self._prefixes, self._counts, strict=True)
        if before == 0 and each * max(self._counts, default=0) <= _BLOCK:
            # The common case, in which there is one short stretch for each record, written for speed.
            shake, width = hashlib.shake_256, 8 * each
            return _integers(b"".join([shake(prefix + _FIRST_BLOCK).digest(width * n) for prefix, n in records]))
        return _integers(b"".join([_stretch(prefix, n * before, n * each) for prefix, n in records]))

    def again(self, positions: npt.NDArray[np.intp], attempt: int) -> UInt64Array:
        """Return the numbers that replace rejected ones, each from its own record's stream."""
        records = np.searchsorted(self._starts, positions, side="right") - 1
        numbers = [
            _number_again(self._prefixes[record], self._counts[record] * self._each_before + place, attempt)
            for record, place in zip(records.tolist(), (positions - self._starts[records]).tolist(), strict=True)
        ]
        return np.array(numbers, dtype=np.uint64)


@dataclass(frozen=True)
class RunKey:
    """A secret key from which the noise of every record of a run follows.

    >>> key = RunKey.from_seed(7)
    >>> bool((key.record(3).uint64(5) == key.record(3).uint64(5)).all())
    True
    >>> key.secure
    False
    """

    secret: bytes = field(repr=False)
    secure: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.secret, bytes) or len(self.secret) != KEY_BYTES:
            raise ParameterError(f"a run key is made of {KEY_BYTES} bytes; make one with RunKey.generate()")

    @classmethod
    def generate(cls) -> RunKey:
        """Return a fresh secret key."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def from_seed(cls, seed: int) -> RunKey:
        """Return the key of a small public seed: repeatable, and without any secrecy."""
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            raise ParameterError(f"a seed is a whole number, got a value of type {type(seed).__name__}")
        return cls(hashlib.sha256(b"sfumato seed %d" % seed).digest(), secure=False)

    def record(self, number: int, purpose: str = "word") -> StreamSource:
        """Return the stream of record ``number``; unlike purposes have independent streams."""
        require_index(number=number)
        return self.stream(purpose, int(number).to_bytes(8, "little"))

    def stream(self, purpose: str, label: bytes) -> StreamSource:
        """Return the stream named by ``purpose`` and ``label``."""
        return StreamSource(self._prefix(purpose) + label, self.secure)

    def records(self, numbers: Sequence[int], counts: Sequence[int], purpose: str = "word") -> BatchSource:
        """Return the streams of several records, ``counts[i]`` draws from record ``numbers[i]``."""
        prefix = self._prefix(purpose)
        return BatchSource([prefix + number.to_bytes(8, "little") for number in numbers], counts, self.secure)

    def streams(self, names: Sequence[tuple[str, bytes]], counts: Sequence[int]) -> BatchSource:
        """Return the streams of several purposes and labels, ``counts[i]`` draws from the one named ``names[i]``."""
        return BatchSource([self._prefix(purpose) + label for purpose, label in names], counts, self.secure)

    def _prefix(self, purpose: str) -> bytes:
        name = purpose.encode()
        return self.secret + len(name).to_bytes(2, "little") + name


def below(source: Source, bounds: UInt64Array) -> UInt64Array:
    """Return one exactly uniform integer in ``[0, bound)`` for each bound, by rejection.

    Every element takes one 64-bit number of the stream, in order; elements that fall in the top part of the 64-bit
    range, which would bias the remainder, draw again.

    >>> below(RunKey.from_seed(1).record(0), np.array([1, 1], dtype=np.uint64)).tolist()
    [0, 0]
    """
    if not bounds.all():
        raise ParameterError("every bound must be at least 1")
    return settle(source, source.uint64(len(bounds)), np.arange(len(bounds)), bounds)


def settle(source: Source, numbers: UInt64Array, positions: npt.NDArray[np.intp], bounds: UInt64Array) -> UInt64Array:
    """Turn the numbers of a call's draws at some positions into uniform integers below bounds; see :func:`below`."""
    result = np.empty(len(positions), dtype=np.uint64)
    todo = np.arange(len(positions))
    drawn = numbers[positions]
    for attempt in itertools.count(1):
        bound = bounds[todo]
        # 2**64 mod bound, computed inside 64 bits: the numbers of that top part are rejected.
        excess = (~bound + np.uint64(1)) % bound
        accepted = drawn <= ~excess
        result[todo[accepted]] = drawn[accepted] % bound[accepted]
        todo = todo[~accepted]
        if len(todo) == 0:
            break
        drawn = source.again(positions[todo], attempt)
    return result
