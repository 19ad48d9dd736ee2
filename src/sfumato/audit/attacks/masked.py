"""Mask-token inference: hide a word of the privatized text, and guess the original word from the words around.

This is the attack of Yue et al. (2021) and Chen et al. (2023).  It looks at no mechanism and not even at the word that came
out: what it finds is what the context gives away.  The attacker of :func:`masked_inference` may be given the channel,
too; it then weighs the words by how probably each comes out as what was seen, which no mechanism-blind attacker does.

The attack is only as strong as its language model.  :class:`NgramModel` is a small one that needs nothing but text;
models of masked words from Hugging Face, and a small head trained on a sentence encoder, are in
:mod:`sfumato.audit.attacks.masked_neural`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sfumato.audit.attacks.scores import Share
from sfumato.foundation.checks import gather, require_count, require_positive
from sfumato.foundation.errors import ParameterError

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]
Context = tuple[Sequence[str], int]
"""The tokens of a text, and the place of the one that is hidden."""

_AT_ONCE = 64


class MaskedModel(Protocol):
    """Guesses a hidden word from the words around it."""

    @property
    def name(self) -> str:
        """What it is, for reports."""
        ...

    @property
    def words(self) -> Sequence[str]:
        """The words it can guess, in lower case."""
        ...

    def scores(self, contexts: Sequence[Context]) -> Floats:
        """Return the logarithm of the chance of each word for each hidden place."""
        ...


@dataclass(frozen=True)
class MaskedInference:
    """How many words were guessed."""

    guessed: Share
    blind: Share
    """The same for an attacker who always names the ``top`` most frequent words of its model."""
    model: str
    not_in_model: int
    """Words that the model cannot guess; they count as not guessed."""


def masked_inference(
    model: MaskedModel,
    originals: Sequence[Sequence[str]],
    privatized: Sequence[Sequence[str]],
    *,
    top: int = 1,
    most: int = 10_000,
    seed: int = 0,
    protected: Sequence[Sequence[bool]] | None = None,
    channel: Callable[[str, Sequence[str]], Floats] | None = None,
) -> MaskedInference:
    """Return how often the original word is among the ``top`` guesses for its place in the privatized text.

    Texts are lists of tokens, place by place.  ``most`` places are tried, drawn with the seed; ``protected`` leaves out
    places whose word was released on purpose; ``channel`` gives for an output the logarithm of its chance from each word.

    >>> model = NgramModel.of([["good", "film"], ["bad", "film"], ["good", "day"]], ["good", "bad", "film", "day"])
    >>> masked_inference(model, [["good", "day"]], [["xx", "day"]]).guessed
    Share(hits=1, of=2)
    """
    require_count(top=top, most=most)
    if [len(text) for text in originals] != [len(text) for text in privatized]:
        raise ParameterError("originals and privatized texts need the same number of tokens, place by place")
    places = [
        (text, place)
        for text, tokens in enumerate(originals)
        for place in range(len(tokens))
        if protected is None or protected[text][place]
    ]
    if len(places) > most:
        chosen = np.random.default_rng([23, seed]).choice(len(places), most, replace=False)
        places = [places[number] for number in np.sort(chosen).tolist()]
    index = {word: number for number, word in enumerate(model.words)}
    wanted = np.array([index.get(originals[text][place].lower(), -1) for text, place in places], dtype=np.intp)
    frequent = np.argsort(-model.scores([([], 0)])[0], kind="stable")[:top]
    hits = 0
    for start in range(0, len(places), _AT_ONCE):
        part = places[start : start + _AT_ONCE]
        scores = model.scores([(privatized[text], place) for text, place in part])
        if channel is not None:
            scores = scores + np.stack([channel(privatized[text][place].lower(), model.words) for text, place in part])
        hits += _hits(scores, wanted[start : start + _AT_ONCE], top)
    return MaskedInference(
        Share(hits, len(places)),
        Share(int(np.isin(wanted, frequent).sum()), len(places)),
        model.name,
        int((wanted < 0).sum()),
    )


def _hits(scores: Floats, wanted: Places, top: int) -> int:
    known = wanted >= 0
    own = scores[np.arange(len(wanted)), np.maximum(wanted, 0)]
    before = np.arange(scores.shape[1])[None, :] < wanted[:, None]
    nearer = ((scores > own[:, None]) | ((scores == own[:, None]) & before)).sum(axis=1)
    return int((known & (nearer < top)).sum())


@dataclass(frozen=True)
class NgramModel:
    """Guesses a word from its two neighbours: P(word | left) P(right | word), smoothed with word frequencies."""

    words: tuple[str, ...]
    frequency: Floats = field(repr=False)
    after: dict[str, dict[int, int]] = field(repr=False)
    """How often each word followed a left neighbour."""
    before: dict[str, dict[int, int]] = field(repr=False)
    """How often each word stood before a right neighbour."""
    smoothing: float

    @property
    def name(self) -> str:
        """What it is, for reports."""
        return f"n-gram model of {len(self.words)} words (both neighbours)"

    @classmethod
    def of(cls, texts: Sequence[Sequence[str]], words: Sequence[str], *, smoothing: float = 2.0) -> NgramModel:
        """Count neighbours in texts that the attacker has; these must not be the texts that are attacked."""
        gather(lambda: require_positive(smoothing=smoothing), lambda: require_count(words=len(words)))
        index = {word: number for number, word in enumerate(words)}
        counts = np.full(len(words), 0.1)
        after: dict[str, Counter[int]] = {}
        before: dict[str, Counter[int]] = {}
        for text in texts:
            tokens = [token.lower() for token in text]
            for token in tokens:
                if token in index:
                    counts[index[token]] += 1
            for one, other in pairwise(tokens):
                if other in index:
                    after.setdefault(one, Counter())[index[other]] += 1
                if one in index:
                    before.setdefault(other, Counter())[index[one]] += 1
        return cls(
            tuple(words), counts / counts.sum(),
            {key: dict(found) for key, found in after.items()}, {key: dict(found) for key, found in before.items()},
            smoothing,
        )  # fmt: skip

    def scores(self, contexts: Sequence[Context]) -> Floats:
        """Return the logarithm of the chance of each word, up to a constant."""
        base = np.log(self.frequency)
        found = np.tile(base, (len(contexts), 1))
        for row, (tokens, place) in zip(found, contexts, strict=True):
            if place > 0:
                self._add(row, self.after.get(tokens[place - 1].lower()))
            if place + 1 < len(tokens):
                self._add(row, self.before.get(tokens[place + 1].lower()))
        return found

    def _add(self, row: Floats, neighbours: dict[int, int] | None) -> None:
        """Add the logarithm of the smoothed lift of each word beside a neighbour, up to a constant for the neighbour."""
        if not neighbours:
            return
        columns = np.fromiter(neighbours, dtype=np.intp, count=len(neighbours))
        counts = np.fromiter(neighbours.values(), dtype=np.float64, count=len(neighbours))
        row[columns] += np.log1p(counts / (self.smoothing * self.frequency[columns] * max(counts.sum(), 1.0)))
