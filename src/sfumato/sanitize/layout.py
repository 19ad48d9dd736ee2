"""What stays of texts when their protected tokens are taken out, and how they are put together again.

A text keeps its layout, or all texts are cut and padded to one public length, with single spaces between words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sfumato.mechanism.base import UNKNOWN
from sfumato.sanitize.consistency import PADDING
from sfumato.sanitize.lookup import Lookup
from sfumato.space.metric import IndexArray
from sfumato.text.spread import Spread

Flags = npt.NDArray[np.bool_]


class Layout(Protocol):
    """Some texts without their protected tokens."""

    @property
    def counts(self) -> Sequence[int]:
        """Protected tokens of each text."""
        ...

    @property
    def kept(self) -> int:
        """How many tokens stay as they are."""
        ...

    @property
    def tokens(self) -> list[str]:
        """The protected tokens in lower case; :data:`PADDING` where there is none."""
        ...

    def token(self, place: int) -> str:
        """Return a protected token as it is written."""
        ...

    def find(self, lookup: Lookup) -> tuple[IndexArray, IndexArray]:
        """Return the word and the case of every protected token."""
        ...

    def rejoined(self, words: list[str]) -> list[str]:
        """Return the texts with a word for every protected token."""
        ...


class AsWritten:
    """Texts that keep their length, spacing and punctuation; ``protected`` marks tokens, None stands for all."""

    def __init__(self, texts: Sequence[str], protected: Flags | None) -> None:
        spread = Spread.of(texts)
        self._protected = spread if protected is None else spread.only(protected)
        self.kept = len(spread) - len(self._protected)
        self.counts: list[int] = self._protected.counts.tolist()
        self.token = self._protected.token

    @property
    def tokens(self) -> list[str]:
        """The protected tokens in lower case."""
        return self._protected.lowered

    def find(self, lookup: Lookup) -> tuple[IndexArray, IndexArray]:
        """Return the word and the case of every protected token."""
        return lookup.of(self._protected)

    def rejoined(self, words: list[str]) -> list[str]:
        """Return the texts with a word for every protected token."""
        return self._protected.rewritten(words)


class OfLength:
    """Texts cut and padded to a public number of words."""

    def __init__(self, texts: Sequence[str], protected: Flags | None, length: int) -> None:
        spread = Spread.of(texts)
        rank = np.arange(len(spread)) - np.repeat(np.cumsum(spread.counts) - spread.counts, spread.counts)
        cut = spread.only(rank < length)
        # One place for each word of the output, text by text.
        self._length = length
        holds_token = (np.arange(length) < cut.counts[:, None]).ravel()
        self._words = np.full(len(holds_token), PADDING, dtype=object)
        self._words[holds_token] = [cut.token(place) for place in range(len(cut))]
        self._is_open = ~holds_token
        if protected is None:
            self._tokens = cut
            self._is_open[:] = True
        else:
            chosen = protected[rank < length]
            self._tokens = cut.only(chosen)
            self._is_open[np.flatnonzero(holds_token)[chosen]] = True
        self._open_words = self._words[self._is_open].tolist()
        self._holds_token = holds_token[self._is_open]
        self.kept = len(cut) - len(self._tokens)
        self.counts: list[int] = self._is_open.reshape(-1, length).sum(axis=1).tolist()

    @property
    def tokens(self) -> list[str]:
        """The protected tokens in lower case, and padding."""
        tokens = np.full(len(self._holds_token), PADDING, dtype=object)
        tokens[self._holds_token] = self._tokens.lowered
        return list(tokens)

    def token(self, place: int) -> str:
        """Return a protected token as it is written."""
        return str(self._open_words[place])

    def find(self, lookup: Lookup) -> tuple[IndexArray, IndexArray]:
        """Return the word and the case of every protected token; padding is unknown and in lower case."""
        ids = np.full(len(self._holds_token), UNKNOWN, dtype=np.intp)
        cases = np.zeros_like(ids)
        ids[self._holds_token], cases[self._holds_token] = lookup.of(self._tokens)
        return ids, cases

    def rejoined(self, words: list[str]) -> list[str]:
        """Return the texts with a word for every protected token and for padding."""
        done = self._words.copy()
        done[self._is_open] = words
        return [" ".join(row) for row in done.reshape(-1, self._length).tolist()]
