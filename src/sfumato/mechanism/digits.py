"""Digits: every digit of a number, phone, date or id is a protected symbol with a mechanism of its own.

A number is out of any vocabulary, and what is out of vocabulary must never pass because of that.  Here each digit is
replaced by a random one, and the promise is about a digit: a number of n digits costs n times as much.

``uniform`` is randomised response over ten symbols (Warner 1965; its k-ary form Kairouz, Oh and Viswanath 2014): the
digit stays with probability exp(epsilon) / (exp(epsilon) + 9), and each other one is equally likely.  ``exponential``
prefers near digits: it is :func:`~sfumato.mechanism.exponential.tem` over the ten digits on a line, and protects 4 from
5 better than 0 from 9.  Both are integer tables; :func:`sfumato.verify` recomputes their epsilon, and
``tests/unit/mechanism/test_digits.py`` compares exact fractions.

A word that has digits and other characters in it, such as ``A12B``, is not a number: as a whole it is out of
vocabulary, so neither its letters nor its digits pass.
"""

from __future__ import annotations

import dataclasses
import math
import unicodedata
from collections.abc import Sequence
from decimal import Context, Decimal

import numpy as np

from sfumato.foundation.checks import gather, require_epsilon, require_one_of
from sfumato.foundation.errors import ParameterError
from sfumato.foundation.guarantee import Guarantee, PureGuarantee
from sfumato.foundation.randomness import Source, UInt64Array
from sfumato.mechanism.base import Row, TableMechanism
from sfumato.mechanism.exponential import tem
from sfumato.mechanism.integers import LEAST_WEIGHT
from sfumato.mechanism.tuning import TUNINGS
from sfumato.space import Space
from sfumato.space.metric import IndexArray

KINDS = ("uniform", "exponential")
_DIGITS = "0123456789"
_EXACT = Context(prec=60)
_LARGEST_WEIGHT = 2**62
_MARGIN = Decimal("1e-9")
_LEAST_MARGIN = Decimal("2e-13")
"""Left of epsilon, by share and at least, so that a check in floating point passes too: it adds what logarithms may err."""


def digit_count(token: str) -> int:
    """Return how many characters of a token are decimal digits, of any script.

    >>> [digit_count(token) for token in ("1990", "A12B", "٣٤", "½", "seven")]
    [4, 2, 2, 0, 0]
    """
    if token.isascii():
        return sum(map(str.isdigit, token))
    return sum(map(str.isdecimal, token))


def is_number(token: str) -> bool:
    """Return whether a token consists of decimal digits only, of any script.

    >>> [is_number(token) for token in ("1990", "A12B", "٣٤", "½", "")]
    [True, False, True, False, False]
    """
    return token.isdecimal()


class DigitMechanism(TableMechanism):
    """Replaces digits by random digits; see :func:`digits`."""

    def __init__(self, table: TableMechanism, guarantee: Guarantee, *, keep_script: bool) -> None:
        super().__init__(table.space, table.inputs, table.outputs, guarantee)
        self._table = table
        self.keep_script = keep_script

    def weights(self, ids: IndexArray) -> UInt64Array:
        """Return the integer weights of some digits' rows."""
        return self._table.weights(ids)

    def row(self, word: str | int) -> Row:
        """Return the exact distribution of one digit.

        >>> float(round(digits(epsilon=2.0).row(7).probability(7), 4))
        0.4509
        """
        return super().row(str(word))

    def digit_count(self, token: str) -> int:
        """Return how many draws the replacement of a token takes."""
        return digit_count(token)

    def replace(self, tokens: Sequence[str], source: Source) -> list[str]:
        """Return the numbers with every digit drawn anew; the source is asked once, for the digits of all of them.

        >>> from sfumato.foundation.randomness import RunKey
        >>> digits(epsilon=1.0).replace(["1990", "٣"], RunKey.from_seed(1).record(0))
        ['1110', '4']
        """
        refused = [place for place, token in enumerate(tokens) if not is_number(token)]
        if refused:
            raise ParameterError(
                f"token {refused[0]} of {len(tokens)} is not a number of decimal digits only; leave it to the word "
                "mechanism, for which it is out of vocabulary"
            )
        text = "".join(tokens)
        ids = np.fromiter(map(unicodedata.decimal, text), dtype=np.intp, count=len(text))
        drawn = "".join(map(_DIGITS.__getitem__, self.sample(ids, source).tolist()))
        replaced, start = [], 0
        for token in tokens:
            number = drawn[start : start + len(token)]
            replaced.append(_in_script(number, token) if self.keep_script else number)
            start += len(token)
        return replaced


def digits(*, epsilon: float, kind: str = "uniform", keep_script: bool = False, tuning: str = "best") -> DigitMechanism:
    """Return the mechanism for the digits of numbers, with ``epsilon`` for each digit.

    ``kind`` is ``uniform`` (every other digit equally likely) or ``exponential`` (near digits likelier, epsilon for
    each step between them); ``tuning`` is that of the exponential one.  Digits of any script are taken and come out as
    0 to 9; with ``keep_script`` a number written in one script comes out in it, and the script is public.

    >>> mechanism = digits(epsilon=1.0, kind="exponential")
    >>> round(float(mechanism.row(4).probability(4)), 3), round(float(mechanism.row(4).probability(5)), 3)
    (0.462, 0.17)
    """
    gather(
        lambda: require_epsilon(epsilon=epsilon),
        lambda: require_one_of(KINDS, kind=kind),
        lambda: require_one_of(TUNINGS, tuning=tuning),
    )
    line = Space.from_arrays(_DIGITS, np.arange(10, dtype=np.int8)[:, None], name="digits")
    table = _uniform(line, epsilon) if kind == "uniform" else tem(line, epsilon=epsilon, tuning=tuning)
    public = ["which tokens are numbers, and how many digits each has"]
    if keep_script:
        public.append("the script in which a number is written")
    guarantee = dataclasses.replace(
        table.guarantee,
        mechanism=f"digits ({kind})",
        neighbours="one digit of a protected number is replaced by another digit",
        public=tuple(public),
    )
    guarantee = guarantee.with_notes("The promise is about one digit: a number of n digits is n releases")
    return DigitMechanism(table, guarantee, keep_script=keep_script)


class _RandomisedResponse(TableMechanism):
    """Randomised response over the ten digits, in integers: one weight for the digit itself, one for each other."""

    def __init__(self, space: Space, guarantee: Guarantee, same: int, other: int) -> None:
        every = np.arange(len(space))
        super().__init__(space, every, every, guarantee)
        self._same, self._other = np.uint64(same), np.uint64(other)

    def weights(self, ids: IndexArray) -> UInt64Array:
        """Return the integer weights of some rows."""
        return np.where(ids[:, None] == self.outputs[None, :], self._same, self._other)


def _uniform(line: Space, epsilon: float) -> _RandomisedResponse:
    """Compile randomised response so that the ratio of its two weights is just below exp(epsilon)."""
    aim = min(epsilon, math.log(_LARGEST_WEIGHT))
    margin = max(Decimal(aim) * _MARGIN, _LEAST_MARGIN)
    odds = _EXACT.exp(max(Decimal(aim) - margin, Decimal(0)))
    other = max(int(_LARGEST_WEIGHT / (odds + 9)), LEAST_WEIGHT)
    same = max(min(int(odds * other), _LARGEST_WEIGHT), other)
    loss = float(_EXACT.ln(_EXACT.divide(Decimal(same), Decimal(other))))
    certified = math.nextafter(loss, math.inf) if same > other else 0.0
    guarantee = PureGuarantee(mechanism="digits (uniform)", epsilon=epsilon, certified=certified)
    return _RandomisedResponse(line, guarantee, same, other)


def _in_script(number: str, like: str) -> str:
    """Write a number in the script of another one, if that is written in a single script."""
    zeros = {ord(character) - unicodedata.decimal(character) for character in like}
    if len(zeros) != 1:
        return number
    zero = zeros.pop()
    return "".join(chr(zero + int(digit)) for digit in number)
