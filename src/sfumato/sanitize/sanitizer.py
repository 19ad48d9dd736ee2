"""The way of a text through a mechanism: split, decide, draw, rejoin.

Everything of a batch is drawn together, which is what makes it fast; the outcome is the same as one record at a time.
Nothing of the text is kept on the sanitizer.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sfumato.foundation.checks import gather, require_index, require_one_of, require_type
from sfumato.foundation.errors import DataError, ParameterError
from sfumato.foundation.guarantee import Guarantee
from sfumato.foundation.randomness import RunKey, Source, SystemSource
from sfumato.mechanism.base import UNKNOWN, Mechanism
from sfumato.policy import Policy, everything
from sfumato.policy.numbers import has_number
from sfumato.sanitize.consistency import (
    PADDING,
    Batch,
    Consistency,
    DigitReplacer,
    draw,
    replace_digits,
    with_consistency,
)
from sfumato.sanitize.decision import decide
from sfumato.sanitize.identifiers import IdentifierReplacer
from sfumato.sanitize.layout import AsWritten, Layout, OfLength
from sfumato.sanitize.lookup import CASES, Lookup
from sfumato.text import apply_case

Table = TypeVar("Table")
"""A frame or a series of pandas or polars."""

OUT_OF_VOCABULARY = ("draw", "spell", "mask", "keep")
MASK = "[MASK]"
MOST_PUBLIC_LENGTH = 100_000
"""Words to which records can be padded: far above any text, far below what fills the memory."""
_PADDED_AT_ONCE = 2_000_000
_MADE_AGAIN = ("guarantee", "_lookup", "_spellings")
_UNKNOWN_NOTES = {
    "draw": "A protected word outside the vocabulary is replaced by a uniformly random word, whatever it was; that it was "
    "outside the vocabulary is not hidden by this promise",
    "spell": "A protected word outside the vocabulary that is one letter away from a word of it goes through the mechanism as "
    "that word, found by a public rule: what is promised about two words holds for any two that are taken for them. Any "
    "other is replaced by a uniformly random word, whatever it was; that it is not near a word of the vocabulary is not "
    "hidden by this promise",
    "mask": f"A protected word outside the vocabulary is replaced by {MASK}, whatever it was; its position is thereby "
    "revealed as that of such a word",
    "keep": "Protected words outside the vocabulary are RELEASED AS THEY ARE, without any protection: names and numbers "
    "are often among them",
}

_COMPARED = (
    "The versions compared agree in everything that is listed as public, and in which of their words are outside the "
    "vocabulary"
)


def _digit_note(of_digit: Guarantee) -> str:
    """Say what digits cost, which is not among the losses of words."""
    most = getattr(of_digit, "local_epsilon", getattr(of_digit, "certified", math.inf))
    loss = f"at most {most:.4g} more" if math.isfinite(most) else "a loss of its own, without a bound"
    return f"Numbers are not counted in these figures: every digit in which two versions differ adds {loss}"


@dataclass(frozen=True)
class Counts:
    """How many tokens there were of each kind.  For the owner of the text: they are computed from it."""

    protected: int = 0
    kept: int = 0
    out_of_vocabulary: int = 0
    """Protected tokens that are not in the vocabulary."""
    unchanged: int = 0
    """Protected tokens whose replacement is the same word, or the word of the vocabulary that they were taken for."""
    longest_record: int = 0
    """Most protected tokens in one record."""

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.protected + other.protected,
            self.kept + other.kept,
            self.out_of_vocabulary + other.out_of_vocabulary,
            self.unchanged + other.unchanged,
            max(self.longest_record, other.longest_record),
        )


@dataclass(frozen=True)
class SanitizedText:
    """A text that may be seen, and what is promised about it."""

    text: str
    guarantee: Guarantee
    counts: Counts = field(repr=False, default=Counts())

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class SanitizedBatch:
    """Several texts that may be seen."""

    texts: list[str] = field(repr=False)
    guarantee: Guarantee
    counts: Counts
    lengths: list[int] = field(repr=False, default_factory=list)
    """How many words were drawn for each text.  For the owner of the texts."""


class Sanitizer:
    """Applies a mechanism to the protected words of texts.

    ``oov`` says what becomes of a protected word outside the vocabulary (``draw`` it uniformly, ``spell`` it as the word
    one letter away and draw where there is none, ``mask`` it, or ``keep`` it), ``consistency`` which equal words share a
    draw (see :mod:`sfumato.sanitize.consistency`), ``public_length`` cuts and pads every record to so many words of
    the vocabulary, and ``digits`` replaces numbers digit by digit.

    >>> import sfumato
    >>> space = sfumato.Space.from_arrays(["cold", "cool", "warm", "hot"], [[0.0], [1.0], [3.0], [4.0]])
    >>> sanitizer = Sanitizer(sfumato.compile("tem", space, epsilon=200.0), oov="mask")
    >>> sanitizer("Cold, then HOT!").text
    'Cold, [MASK] HOT!'
    """

    def __init__(
        self,
        mechanism: Mechanism,
        *,
        policy: Policy | None = None,
        oov: str = "draw",
        carry_case: bool = True,
        consistency: str = "token",
        public_length: int | None = None,
        digits: DigitReplacer | None = None,
        identifiers: IdentifierReplacer | None = None,
        key: RunKey | None = None,
    ) -> None:
        gather(
            lambda: require_one_of(OUT_OF_VOCABULARY, oov=oov),
            lambda: require_one_of(tuple(Consistency), consistency=consistency),
            lambda: require_public_length(public_length),
            lambda: require_type(Mechanism, "a mechanism, such as sfumato.compile returns", mechanism=mechanism),
            lambda: require_type(bool, "True or False", carry_case=carry_case),
            lambda: _require_parts(policy, digits, identifiers, key),
        )
        self.mechanism = mechanism
        self.policy = policy or everything()
        self.oov = oov
        self.carry_case = carry_case
        self.consistency = Consistency(consistency)
        self.public_length = None if public_length is None else int(public_length)
        self.digits = digits
        self.identifiers = identifiers
        if key is not None and self.consistency is not Consistency.DATASET:
            raise ParameterError(
                "a sanitizer takes a key of its own only with consistency='dataset', else all its calls would share noise "
                "from record 0 on; give the key to the call, with first_record"
            )
        if key is None and self.consistency is Consistency.DATASET:
            key = RunKey.generate()  # equal words share a draw for as long as this sanitizer lives
        self._key = key

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be made again: an index of spellings is of use to the process that made it only."""
        return {name: value for name, value in vars(self).items() if name not in _MADE_AGAIN}

    @cached_property
    def guarantee(self) -> Guarantee:
        """The mechanism's promise for a word, with everything this sanitizer leaves public."""
        guarantee = self.mechanism.guarantee
        if self._key is not None:
            guarantee = guarantee.with_randomness(self._key.secure)
        guarantee = guarantee.with_public(*self._public_things()).with_notes(_UNKNOWN_NOTES[self.oov])
        guarantee = guarantee.with_document_notes(_COMPARED)
        if self.public_length is not None:
            guarantee = guarantee.with_notes(
                f"Every output has exactly {self.public_length} words of the vocabulary, or what is kept or masked in their "
                "place (a word of the vocabulary may hold spaces); longer texts are cut and shorter ones padded with uniformly "
                "random words; how many were padded is hidden only as far as such words resemble replaced ones"
            )
        if self.digits is not None:
            of_digit = self.digits.guarantee
            guarantee = guarantee.with_public(
                "which tokens are numbers, and how many digits each has", *of_digit.public
            ).with_notes(
                f"Numbers are replaced digit by digit under a promise of their own: {of_digit.promise()}",
                *of_digit.notes,
            )
            guarantee = guarantee.with_document_notes(_digit_note(of_digit))
        if self.identifiers is not None:
            guarantee = guarantee.with_public(*self.identifiers.public).with_notes(self.identifiers.note)
        return with_consistency(guarantee, self.consistency)

    def _public_things(self) -> list[str]:
        if self.public_length is None:
            public = ["the number and the positions of protected words", "spacing and punctuation"]
        else:
            public = ["the positions of protected words"]
        if self.carry_case:
            public.append("letter case (lower, Title or UPPER)")
        if self.policy.keeps:
            public.append(f"what the policy keeps: {self.policy.keeps}")
        return public

    def __call__(self, text: str, key: RunKey | None = None) -> SanitizedText:
        """Sanitize one text."""
        batch = self.batch([text], key=key)
        return SanitizedText(batch.texts[0], batch.guarantee, batch.counts)

    def batch(self, texts: Sequence[str], *, key: RunKey | None = None, first_record: int = 0) -> SanitizedBatch:
        """Sanitize several texts; with a key, record ``first_record + i`` always gets the same noise."""
        texts = _checked(texts)
        require_index(first_record=first_record)
        first_record = int(first_record)
        _require_parts(None, None, None, key)
        step = max(1, _PADDED_AT_ONCE // self.public_length) if self.public_length else max(1, len(texts))
        parts = [self._batch(texts[at : at + step], key, first_record + at) for at in range(0, len(texts) or 1, step)]
        if len(parts) == 1:
            return parts[0]
        together = [text for part in parts for text in part.texts]
        lengths = [length for part in parts for length in part.lengths]
        return SanitizedBatch(together, parts[0].guarantee, sum((part.counts for part in parts), Counts()), lengths)

    def _batch(self, texts: Sequence[str], key: RunKey | None, first_record: int) -> SanitizedBatch:
        if key is None:
            key = self._key
        texts, protected = self._decide(texts, key, first_record)
        length = self.public_length
        layout: Layout = AsWritten(texts, protected) if length is None else OfLength(texts, protected, length)
        words, tally = self._replacements(layout, key, first_record)
        guarantee = self.guarantee if key is None else self.guarantee.with_randomness(key.secure)
        counts = replace(tally, kept=layout.kept, longest_record=max(layout.counts, default=0))
        return SanitizedBatch(layout.rejoined(words), guarantee, counts, list(layout.counts))

    def column(
        self,
        frame: Table,
        columns: Hashable | Sequence[Hashable] = None,
        *,
        key: RunKey | None = None,
        first_row: int = 0,
    ) -> Table:
        """Return a copy of a pandas or polars frame (or series) with the texts of its columns replaced.

        ``columns`` is a name, or several in a list.  Each text is a record of its own, also where a row has several:
        ``consistency="record"`` and ``public_length`` are about one cell.  Nulls stay null.  With a key, the noise of a row
        follows from ``first_row`` and its place; a pandas frame carries the promise of each column in ``attrs["sfumato"]``.
        """
        from sfumato.sanitize.adapters.columns import sanitize_table

        return sanitize_table(self, frame, columns, key=key, first_row=first_row)

    def _decide(
        self, texts: Sequence[str], key: RunKey | None, first_record: int
    ) -> tuple[Sequence[str], npt.NDArray[np.bool_] | None]:
        """Mark the tokens that are protected (None: all); identifiers are replaced, where that was asked for."""
        if self.identifiers is None and self.policy.protects_everything:
            return texts, None

        def source(number: int) -> Source:
            return SystemSource() if key is None else key.record(number, "identifier")

        decisions = decide(self.policy, self.identifiers, texts, source, first_record)
        return [one.document.text for one in decisions], _one_after_the_other([one.protected for one in decisions])

    def _replacements(self, layout: Layout, key: RunKey | None, first_record: int) -> tuple[list[str], Counts]:
        ids, cases = layout.find(self._lookup)
        batch = Batch(layout.tokens, ids, layout.counts, first_record)
        drawn = draw(self.mechanism, batch, self.consistency, key)
        words: list[str] = self._spellings[drawn].tolist()
        for place in np.flatnonzero(cases).tolist():
            words[place] = apply_case(words[place], CASES[cases[place]])
        is_unknown = ids == UNKNOWN
        unknown = np.flatnonzero(is_unknown)
        if self.oov in ("mask", "keep"):
            for place in unknown.tolist():
                token = layout.token(place)
                # With a digit mechanism no digit passes as it is, so a plate number is drawn, and digits in circles too.
                drawn_all_the_same = token == PADDING or (
                    self.oov == "keep" and self.digits is not None and has_number(token)
                )
                if not drawn_all_the_same:
                    words[place] = MASK if self.oov == "mask" else token
        numbers = 0
        if self.digits is not None:
            numbers = replace_digits(self.digits, batch, self.consistency, key, words)
        unchanged = int(np.count_nonzero((drawn == ids) & ~is_unknown))
        return words, Counts(len(words), 0, len(unknown) - numbers, unchanged)

    def position_of(self, token: str) -> int:
        """Return the word of the space that a token goes through the mechanism as, or :data:`UNKNOWN`."""
        return self._lookup.find(token)

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(
            self.mechanism.space,
            carry_case=self.carry_case,
            spell=self.oov == "spell",
            numbers_apart=self.digits is not None,
        )

    @cached_property
    def _spellings(self) -> npt.NDArray[np.object_]:
        return np.array(self.mechanism.space.words, dtype=object)


def require_public_length(length: int | None) -> None:
    """The length is a whole number of words that a record can be padded to, or None."""
    whole = isinstance(length, (int, np.integer)) and not isinstance(length, bool)
    if length is not None and not (whole and 1 <= length <= MOST_PUBLIC_LENGTH):
        raise ParameterError(f"public_length must be a whole number of words, 1 to {MOST_PUBLIC_LENGTH:,}")


def _require_parts(
    policy: Policy | None, digits: DigitReplacer | None, identifiers: IdentifierReplacer | None, key: RunKey | None
) -> None:
    """What may be left out is of its type where it is given."""
    wanted: dict[str, tuple[object, type, str]] = {
        "policy": (policy, Policy, "a policy, such as sfumato.policies.numbers()"),
        "digits": (
            digits,
            DigitReplacer,
            "a mechanism for digits, such as sfumato.mechanism.digits.digits(epsilon=1.0)",
        ),
        "identifiers": (identifiers, IdentifierReplacer, "a sfumato.sanitize.identifiers.IdentifierReplacer"),
        "key": (key, RunKey, "a sfumato.RunKey"),
    }
    given = {name: one for name, one in wanted.items() if one[0] is not None}
    gather(*(lambda n=name, o=one: require_type(o[1], o[2], **{n: o[0]}) for name, one in given.items()))


def _checked(texts: Iterable[str]) -> Sequence[str]:
    """Return the texts, all of them strings."""
    if isinstance(texts, (str, bytes)):
        raise DataError("batch takes a list of texts, not a single one; for one text call the sanitizer itself")
    try:
        texts = texts if isinstance(texts, (list, tuple)) else list(texts)
    except TypeError:
        raise DataError(f"batch takes a list of texts, not a value of type {type(texts).__name__}") from None
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(
                f"text {place} of {len(texts)} is of type {type(text).__name__}; make it a string, and leave out what has "
                "no text"
            )
    return texts


def _one_after_the_other(masks: Sequence[npt.NDArray[np.bool_]]) -> npt.NDArray[np.bool_]:
    return np.concatenate(masks) if masks else np.zeros(0, dtype=bool)


def sanitize_all(
    sanitizer: Sanitizer, texts: Iterable[str], *, key: RunKey | None = None, batch_size: int = 2000
) -> Iterable[SanitizedBatch]:
    """Sanitize any number of texts in batches, numbering the records from 0."""
    batch: list[str] = []
    done = 0
    for text in texts:
        batch.append(text)
        if len(batch) == batch_size:
            yield sanitizer.batch(batch, key=key, first_record=done)
            done += len(batch)
            batch = []
    if batch:
        yield sanitizer.batch(batch, key=key, first_record=done)
