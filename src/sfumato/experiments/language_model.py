"""A small language model of words and single digits, for perplexity and for exposure (needs PyTorch)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.latent import extras
from sfumato.text import pieces

_UNKNOWN, _END = 0, 1
_DIGITS = tuple("0123456789")


@dataclass(frozen=True)
class Words:
    """A public vocabulary: an unknown word, an end, the ten digits, and words of a space."""

    words: tuple[str, ...]

    def ids(self, text: str) -> list[int]:
        """Return the numbers of the words of a text; a number of n digits is n words.

        >>> Words(("rain",)).ids("Rain 42 unheard")
        [12, 6, 4, 0, 1]
        >>> Words(("4",)).ids("4")
        [6, 1]
        """
        index = {word: place for place, word in enumerate((*_DIGITS, *self.words), start=2)}
        index.update(
            {digit: place for place, digit in enumerate(_DIGITS, start=2)}
        )  # a space may have digits of its own
        found: list[int] = []
        for token in pieces(text)[1::2]:
            lower = token.lower()
            found += (
                [index[one] for one in lower] if lower.isascii() and lower.isdecimal() else [index.get(lower, _UNKNOWN)]
            )
        return [*found, _END]

    def __len__(self) -> int:
        return 2 + len(_DIGITS) + len(self.words)


@dataclass(frozen=True)
class Training:
    """How a model is trained."""

    embedding: int = 64
    hidden: int = 128
    epochs: int = 4
    batch: int = 16
    length: int = 35
    rate: float = 4e-3


class LanguageModel:
    """An LSTM over words, trained on texts one after the other."""

    def __init__(self, words: Words, texts: Sequence[str], training: Training, seed: int) -> None:
        torch = extras.torch()
        self.words = words
        ids = [place for text in texts for place in words.ids(text)]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            layers = torch.nn
            self._embed = layers.Embedding(len(words), training.embedding)
            self._lstm = layers.LSTM(training.embedding, training.hidden, batch_first=True)
            self._out = layers.Linear(training.hidden, len(words))
            self._train(torch, ids, training)

    def _train(self, torch: Any, ids: list[int], training: Training) -> None:
        parameters = [one for part in (self._embed, self._lstm, self._out) for one in part.parameters()]
        optimiser = torch.optim.Adam(parameters, lr=training.rate)
        columns = max(1, (len(ids) - 1) // training.batch)
        rows = torch.tensor(ids[: columns * training.batch]).reshape(training.batch, columns)
        for _ in range(training.epochs):
            state = None
            for start in range(0, columns - 1, training.length):
                seen = rows[:, start : start + training.length + 1]
                hidden, state = self._lstm(self._embed(seen[:, :-1]), state)
                state = tuple(part.detach() for part in state)
                loss = torch.nn.functional.cross_entropy(self._out(hidden).flatten(0, 1), seen[:, 1:].flatten())
                optimiser.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(parameters, 1.0)
                optimiser.step()

    def perplexity(self, texts: Sequence[str]) -> float:
        """Return the perplexity per word, the ends of texts included."""
        torch = extras.torch()
        ids = torch.tensor([[_END, *(place for text in texts for place in self.words.ids(text))]])
        total, count, state = 0.0, 0, None
        with torch.inference_mode():
            for part in range(0, ids.shape[1] - 1, 500):
                seen = ids[:, part : part + 501]
                hidden, state = self._lstm(self._embed(seen[:, :-1]), state)
                total += float(torch.nn.functional.cross_entropy(self._out(hidden)[0], seen[0, 1:], reduction="sum"))
                count += seen.shape[1] - 1
        return float(np.exp(total / count))

    def digits_after(self, text: str) -> DigitStates:
        """Return what is thought of the digits that follow a text."""
        return DigitStates(self, text)


class DigitStates:
    """The chances of the next digit after every prefix of digits; the states of prefixes are kept from one length to the next."""

    def __init__(self, model: LanguageModel, text: str) -> None:
        torch = extras.torch()
        self._model = model
        beginning = torch.tensor([[_END, *model.words.ids(text)[:-1]]])
        with torch.inference_mode():
            _, (hidden, cell) = model._lstm(model._embed(beginning))
        self._level: dict[int, tuple[Any, Any]] = {0: (hidden[0], cell[0])}

    def __call__(self, prefixes: list[str]) -> npt.NDArray[np.float64]:
        """Return the logarithms of the chances of the ten digits after prefixes of one length, asked for in their order."""
        torch = extras.torch()
        length = len(prefixes[0])
        with torch.inference_mode():
            if length:
                hidden, _ = self._next(torch, prefixes, length)
            else:
                hidden, _ = self._level[0]
            scores = torch.log_softmax(self._model._out(hidden).double(), dim=1)
        return np.asarray(scores[:, 2:12].numpy())

    def _next(self, torch: Any, prefixes: list[str], length: int) -> tuple[Any, Any]:
        self._level.pop(length - 2, None)
        before_hidden, before_cell = self._level[length - 1]
        parents = torch.tensor([int(prefix[:-1] or 0) for prefix in prefixes])
        digits = torch.tensor([[2 + int(prefix[-1])] for prefix in prefixes])
        state = (before_hidden[parents][None], before_cell[parents][None])
        _, (hidden, cell) = self._model._lstm(self._model._embed(digits), state)
        known = self._level.get(length)
        kept = (hidden[0], cell[0])
        if known is not None and int(prefixes[0]) > 0:
            kept = (torch.cat([known[0], hidden[0]]), torch.cat([known[1], cell[0]]))
        self._level[length] = kept
        return hidden[0], cell[0]
