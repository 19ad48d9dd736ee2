"""The way of a text through a mechanism: split, decide, draw, rejoin.

Everything of a batch is drawn together, which is what makes it fast; the outcome is the same as one record at a time.
Nothing of the text is kept on the sanitizer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sfumato.foundation.checks import require_one_of
from sfumato.foundation.guarantee import Guarantee
from sfumato.foundation.randomness import RunKey, Source, SystemSource
from sfumato.mechanism.base import UNKNOWN, Mechanism
from sfumato.policy import Document, Policy, everything
from sfumato.space.metric import IndexArray
from sfumato.text import Case, apply_case, case_of, without_accents

OUT_OF_VOCABULARY = ("draw", "keep", "mask")
MASK = "[MASK]"
_CASES = (Case.LOWER, Case.TITLE, Case.UPPER)


@dataclass(frozen=True)
class Counts:
    """How many tokens there were of each kind.  For the owner of the text: they are computed from it."""

    protected: int = 0
    kept: int = 0
    out_of_vocabulary: int = 0
    """Protected tokens that are not in the vocabulary."""
    unchanged: int = 0
    """Protected tokens whose replacement is the same word."""
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


class _Lookup(dict[str, int]):
    """Token -> packed (id, case), filled as tokens of one batch come up and thrown away with the batch."""

    def __init__(self, find: Callable[[str], int], carry_case: bool) -> None:
        super().__init__()
        self._find = find
        self._carry_case = carry_case

    def __missing__(self, token: str) -> int:
        position = self._find(token)
        case = _CASES.index(case_of(token)) if self._carry_case else 0
        code = (position + 1) * 4 + case
        self[token] = code
        return code


class Sanitizer:
    """Applies a mechanism to the protected words of texts.

    >>> import sfumato
    >>> space = sfumato.Space.from_arrays(["cold", "cool", "warm", "hot"], [[0.0], [1.0], [3.0], [4.0]])
    >>> sanitizer = Sanitizer(sfumato.compile("tem", space, epsilon=200.0))
    >>> sanitizer("Cold, then HOT!").text
    'Cold, cold HOT!'
    """

    def __init__(
        self,
        mechanism: Mechanism,
        *,
        policy: Policy | None = None,
        oov: str = "draw",
        carry_case: bool = True,
    ) -> None:
        require_one_of(OUT_OF_VOCABULARY, oov=oov)
        self.mechanism = mechanism
        self.policy = policy or everything()
        self.oov = oov
        self.carry_case = carry_case

    @cached_property
    def guarantee(self) -> Guarantee:
        """The mechanism's promise for a word, with everything this sanitizer leaves public."""
        public = ["the number and the positions of protected words", "spacing and punctuation"]
        if self.carry_case:
            public.append("letter case (lower, Title or UPPER)")
        if self.policy.keeps:
            public.append(f"what the policy keeps: {self.policy.keeps}")
        notes = {
            "draw": "A protected word outside the vocabulary is replaced by a uniformly random word, whatever it was; "
            "that it was outside the vocabulary is not hidden by this promise",
            "mask": f"A protected word outside the vocabulary is replaced by {MASK}, whatever it was; its position is "
            "thereby revealed as that of such a word",
            "keep": "Protected words outside the vocabulary are RELEASED AS THEY ARE, without any protection: names and "
            "numbers are often among them",
        }
        return self.mechanism.guarantee.with_public(*public).with_notes(notes[self.oov])

    def __call__(self, text: str, key: RunKey | None = None) -> SanitizedText:
        """Sanitize one text."""
        batch = self.batch([text], key=key)
        return SanitizedText(batch.texts[0], batch.guarantee, batch.counts)

    def batch(self, texts: Sequence[str], *, key: RunKey | None = None, first_record: int = 0) -> SanitizedBatch:
        """Sanitize several texts; with a key, record ``first_record + i`` always gets the same noise."""
        documents = [Document(text) for text in texts]
        masks = [self.policy.protects(document) for document in documents]
        counts = [int(np.count_nonzero(mask)) for mask in masks]
        numbers = range(first_record, first_record + len(texts))
        source: Source = SystemSource() if key is None else key.records(numbers, counts)
        replaced, tally = self._replace(documents, masks, counts, source)
        guarantee = self.guarantee if key is None else self.guarantee.with_randomness(key.secure)
        return SanitizedBatch(replaced, guarantee, tally)

    def _replace(
        self,
        documents: list[Document],
        masks: list[npt.NDArray[np.bool_]],
        counts: list[int],
        source: Source,
    ) -> tuple[list[str], Counts]:
        chosen: list[str] = []
        for document, mask, count in zip(documents, masks, counts, strict=True):
            tokens = document.tokens
            chosen += tokens if count == len(tokens) else [t for t, m in zip(tokens, mask.tolist(), strict=True) if m]
        ids, cases = self._look_up(chosen)
        drawn = self.mechanism.sample(ids, source)
        words = self._write(drawn, cases)
        unknown = np.flatnonzero(ids == UNKNOWN)
        if self.oov != "draw":
            for place in unknown.tolist():
                words[place] = MASK if self.oov == "mask" else chosen[place]
        texts, start, kept = [], 0, 0
        for document, mask, count in zip(documents, masks, counts, strict=True):
            parts = document.pieces
            total = len(parts) // 2
            kept += total - count
            if count == total:
                parts[1::2] = words[start : start + count]
            else:
                for place, word in zip(np.flatnonzero(mask).tolist(), words[start : start + count], strict=True):
                    parts[2 * place + 1] = word
            start += count
            texts.append("".join(parts))
        unchanged = int(np.count_nonzero(drawn[ids != UNKNOWN] == ids[ids != UNKNOWN]))
        tally = Counts(len(chosen), kept, len(unknown), unchanged, max(counts, default=0))
        return texts, tally

    def _look_up(self, tokens: list[str]) -> tuple[IndexArray, npt.NDArray[np.intp]]:
        lookup = _Lookup(self._find, self.carry_case)
        codes = np.fromiter(map(lookup.__getitem__, tokens), dtype=np.intp, count=len(tokens))
        return (codes >> 2) - 1, codes & 3

    def _find(self, token: str) -> int:
        index = self.mechanism.space.index
        for spelling in (token.lower(), token, without_accents(token.lower())):
            if spelling in index:
                return index[spelling]
        return UNKNOWN

    @cached_property
    def _spellings(self) -> npt.NDArray[np.object_]:
        return np.array(self.mechanism.space.words, dtype=object)

    def _write(self, drawn: IndexArray, cases: npt.NDArray[np.intp]) -> list[str]:
        words: list[str] = self._spellings[drawn].tolist()
        for place in np.flatnonzero(cases).tolist():
            words[place] = apply_case(words[place], _CASES[cases[place]])
        return words


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
