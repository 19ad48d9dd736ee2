"""What the promise about one word comes to for a whole document.

Every protected word gets its own noise, so by sequential composition the losses of the words of a document add up.  For
a metric guarantee they add up *distance by distance*: two documents of equal length whose words differ by d_1 ... d_n
are told apart by at most certified x (d_1 + ... + d_n).  That is small for documents that differ in one word or by near
words, and large for unlike ones, which is why both figures are always stated together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sfumato.accounting.zcdp import epsilon_of_rho
from sfumato.foundation.checks import gather, require_index, require_probability
from sfumato.foundation.guarantee import GroupGuarantee, Guarantee, MetricGuarantee, PureGuarantee

DEFAULT_DELTA = 1e-6
"""The probability with which the approximate bound over a document may fail, unless another is given."""


@dataclass(frozen=True, kw_only=True)
class MetricComposition:
    """A metric guarantee over the protected words of one document."""

    words: int
    """Protected words of the document (of the longest one, where there are several)."""
    per_distance: float
    """The loss for each unit of the summed distances."""
    metric: str
    greatest_loss: float
    """The loss between any two documents with this number of protected words; may be infinite."""
    delta: float = DEFAULT_DELTA
    approximate_loss: float = math.inf
    """The same, except with probability delta: by zero-concentrated composition, often far less than the sum."""
    notes: tuple[str, ...] = ()
    """Which versions of a text are compared, and what is not counted."""

    def statement(self) -> str:
        """State the composition in plain English.

        >>> print(MetricComposition(words=2, per_distance=1.5, metric="euclidean", greatest_loss=9.0).statement())
        For a whole record the losses of its words add up. Between two versions of a record with the same number of \
protected words the odds change by at most exp(1.5 x the sum of the euclidean distances, word by word): versions that \
differ in a single word are as hard to tell apart as that word. Any two versions of the longest record (2 protected \
words) by at most exp(9).
        """
        text = (
            "For a whole record the losses of its words add up. Between two versions of a record with the same number "
            f"of protected words the odds change by at most exp({self.per_distance:.6g} x the sum of the {self.metric} "
            "distances, word by word): versions that differ in a single word are as hard to tell apart as that word. "
        )
        longest = f"the longest record ({self.words} protected words)"
        if math.isinf(self.greatest_loss):
            return _ended(text + f"Between any two versions of {longest} there is no finite bound", self.notes)
        text += f"Any two versions of {longest} by at most exp({self.greatest_loss:.4g})"
        if self.approximate_loss < self.greatest_loss:
            text += f", and except with probability {self.delta:.0e} by at most exp({self.approximate_loss:.4g})"
        return _ended(text, self.notes)

    def to_json(self) -> dict[str, Any]:
        """Return plain data; an infinite loss is null."""
        return {
            "words": self.words,
            "loss_per_summed_distance": self.per_distance,
            "metric": self.metric,
            "greatest_loss": self.greatest_loss if math.isfinite(self.greatest_loss) else None,
            "delta": self.delta,
            "approximate_loss": self.approximate_loss if math.isfinite(self.approximate_loss) else None,
            "statement": self.statement(),
        }


@dataclass(frozen=True, kw_only=True)
class UniformComposition:
    """One bound per word, whatever the words are, over the protected words of one document."""

    words: int
    per_word: float
    greatest_loss: float
    notes: tuple[str, ...] = ()
    """Which versions of a text are compared, and what is not counted."""

    def statement(self) -> str:
        """State the composition in plain English.

        >>> print(UniformComposition(words=3, per_word=0.5, greatest_loss=1.5).statement())
        For a whole record the losses of its words add up. Two versions of a record that differ in k protected words \
change the odds by at most exp(0.5 x k); any two versions of the longest record (3 protected words) by at most exp(1.5).
        """
        return _ended(
            "For a whole record the losses of its words add up. Two versions of a record that differ in k protected "
            f"words change the odds by at most exp({self.per_word:.6g} x k); any two versions of the longest record "
            f"({self.words} protected words) by at most exp({self.greatest_loss:.4g})",
            self.notes,
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "words": self.words,
            "loss_per_word": self.per_word,
            "greatest_loss": self.greatest_loss,
            "statement": self.statement(),
        }


def _ended(text: str, notes: tuple[str, ...]) -> str:
    """Return sentences behind a text, each with a full stop."""
    return " ".join(f"{sentence}." for sentence in (text, *notes))


def metric_composition(guarantee: MetricGuarantee, words: int, *, delta: float = DEFAULT_DELTA) -> MetricComposition:
    """Return what a metric guarantee about a word comes to for a document of ``words`` protected words.

    The approximate loss adds up rho of zero-concentrated privacy: per word (certified x radius)^2 / 2, or, where the
    mechanism has a bounded range eta, eta^2 / 8 (Durfee and Rogers 2019; Dong et al. 2020), whichever is less.

    >>> word = MetricGuarantee(mechanism="tem", epsilon=2.0, certified=1.5, metric="euclidean", radius=3.0)
    >>> long = metric_composition(word, words=10)
    >>> long.greatest_loss, long.approximate_loss
    (45.0, inf)
    >>> short = MetricGuarantee(mechanism="tem", epsilon=0.2, certified=0.2, metric="euclidean", radius=1.0)
    >>> round(metric_composition(short, words=500).approximate_loss, 1)
    32.2
    """
    gather(lambda: require_index(words=words), lambda: require_probability(delta=delta))
    words = int(words)
    word_loss = guarantee.local_epsilon if guarantee.certified else 0.0
    loss = words * word_loss if words else 0.0
    rho = word_loss**2 / 2
    if guarantee.bounded_range is not None and math.isfinite(guarantee.radius):
        rho = min(rho, (guarantee.bounded_range * guarantee.radius) ** 2 / 8)
    approximate = epsilon_of_rho(words * rho, delta) if words and math.isfinite(rho) else loss
    return MetricComposition(
        words=words,
        per_distance=guarantee.certified,
        metric=guarantee.metric,
        greatest_loss=loss,
        delta=delta,
        approximate_loss=approximate if approximate < loss else math.inf,
        notes=guarantee.document_notes,
    )


def document_composition(guarantee: Guarantee, words: int) -> MetricComposition | UniformComposition | None:
    """Return the composition over a document for the kinds of guarantee that add up word by word, else None.

    >>> document_composition(PureGuarantee(mechanism="coin", epsilon=1.0, certified=0.5), words=4).greatest_loss
    2.0
    """
    require_index(words=words)
    words = int(words)
    if type(guarantee) is MetricGuarantee:
        return metric_composition(guarantee, words)
    if isinstance(guarantee, PureGuarantee):
        certified = guarantee.certified
        return UniformComposition(
            words=words, per_word=certified, greatest_loss=words * certified, notes=guarantee.document_notes
        )
    if isinstance(guarantee, GroupGuarantee):
        return _group_composition(guarantee, words)
    return None


def _group_composition(guarantee: GroupGuarantee, words: int) -> UniformComposition:
    if math.isinf(guarantee.global_epsilon):
        others = "between others there is no bound"
    else:
        others = f"a word of another group adds at most {guarantee.global_epsilon:.4g} in place of that"
    return UniformComposition(
        words=words,
        per_word=guarantee.certified,
        greatest_loss=words * guarantee.certified,
        notes=(
            f"The versions compared have words of the same groups in the same places; {others}",
            *guarantee.document_notes,
        ),
    )
