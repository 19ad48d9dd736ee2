"""What a text costs: its protected words, each at the price of one draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.foundation.errors import BudgetError, ParameterError
from sfumato.foundation.guarantee import Guarantee, MetricGuarantee, PureGuarantee
from sfumato.ledger import Cost
from sfumato.ledger.amounts import exact
from sfumato.sanitize import Sanitizer
from sfumato.sanitize.decision import decide

_RECORD_SCOPE = "unit: record; neighbours: one record is replaced by another with the same public parts"


@dataclass(frozen=True)
class PriceList:
    """The price of one word and of one digit, in budget of one kind."""

    word: Cost
    digit: Cost | None
    _sanitizer: Sanitizer

    @classmethod
    def of(cls, sanitizer: Sanitizer, kind: str | None = None) -> PriceList:
        """Return the prices of a sanitizer's releases.

        Without ``kind``, words are paid for in the kind of the sanitizer's guarantee: n words cost n times the
        promise for one.  With ``kind="pure"`` a record is paid for as a whole: the loss between any two texts with
        the same public parts (the mechanism must have a greatest distance).  Where numbers are replaced digit by
        digit, under a promise of their own, only ``"pure"`` can add the two.
        """
        guarantee = sanitizer.guarantee
        own = Cost.of(guarantee)
        digits = None if sanitizer.digits is None else sanitizer.digits.guarantee
        if kind is None:
            kind = own.kind if digits is None else "pure"
        if kind == own.kind and digits is None and kind != "pure":
            return cls(own, None, sanitizer)
        if kind != "pure":
            raise ParameterError(f"this sanitizer's releases are paid for in budget of kind {own.kind!r} or 'pure'")
        return cls(_per_record(guarantee), None if digits is None else _per_record(digits), sanitizer)

    @property
    def kind(self) -> str:
        """The kind of budget."""
        return self.word.kind

    def of_texts(self, texts: Sequence[str | None]) -> Cost:
        """Return the cost of one record, given as its texts; one release, whatever the number of words.

        Words are counted as they occur: that equal words may share a draw makes it no cheaper.
        """
        amount = Fraction(0)
        delta = Fraction(0)
        for text in texts:
            if text is None:
                continue
            words, digits = self._counts(text)
            amount += words * self.word.amount + (digits * self.digit.amount if self.digit else 0)
            delta += words * self.word.delta
        return Cost(self.word.kind, amount, delta, self.word.scope)

    def _counts(self, text: str) -> tuple[int, int]:
        """Count the words and digits that the sanitizer will draw, by its own decision."""
        sanitizer = self._sanitizer
        (decision,) = decide(sanitizer.policy, sanitizer.identifiers, [text])
        chosen = np.flatnonzero(decision.protected)
        length = sanitizer.public_length
        if length is not None:
            chosen = chosen[chosen < length]  # the rest is cut off and nothing of it is drawn
        numbers = digits = 0
        if sanitizer.digits is not None:
            tokens = decision.document.tokens
            found = [tokens[place] for place in chosen.tolist() if tokens[place].isdecimal()]
            numbers, digits = len(found), sum(map(sanitizer.digits.digit_count, found))
        # Where the length is public, every output word may stand for a protected one: the length of the text is not to be
        # seen in the charge.
        return (len(chosen) - numbers if length is None else length), digits


def _per_record(guarantee: Guarantee) -> Cost:
    """Return the greatest loss of one draw as pure budget."""
    Cost.of(guarantee)  # raises for what cannot be paid for
    if type(guarantee) is MetricGuarantee:
        if not np.isfinite(guarantee.local_epsilon):
            raise BudgetError(
                "this mechanism has no greatest distance, so that a word has no price in budget of kind 'pure'; "
                "pay in budget of kind 'metric'"
            )
        return Cost.pure(exact("epsilon", guarantee.certified) * exact("radius", guarantee.radius), _RECORD_SCOPE)
    if type(guarantee) is PureGuarantee:
        return Cost.pure(guarantee.certified, _RECORD_SCOPE)
    raise BudgetError(f"a guarantee of kind {guarantee.kind!r} has no price in budget of kind 'pure'")
