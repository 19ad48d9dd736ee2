"""How likely a language model thinks the digits that may follow some words: what a canary attack asks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sfumato.foundation.errors import ParameterError
from sfumato.training.neural.lstm import LSTMModel
from sfumato.training.vocabulary import END, UNKNOWN, Vocabulary

_States = list[tuple[Tensor, Tensor]]


class DigitChances:
    """From prefixes of digits, all of one length, to the log-chances of the ten next digits behind some words.

    Prefixes are asked for by length, each after its beginning: the state behind a beginning is computed once for the
    ten that share it.  Each digit must be a word of the vocabulary.
    """

    def __init__(self, model: LSTMModel, vocabulary: Vocabulary, words: Sequence[str]) -> None:
        self._digits = [vocabulary.number(str(digit)) for digit in range(10)]
        if UNKNOWN in self._digits:
            raise ParameterError("the vocabulary must have the ten digits as words of their own")
        self._model = model.eval()
        states: _States = [(torch.zeros(1, layer.size), torch.zeros(1, layer.size)) for layer in model.lstms]
        with torch.no_grad():
            for number in (END, *(vocabulary.number(word) for word in words)):
                states = self._advance(torch.tensor([number]), states)
        self._length = 0
        self._above: _States = []
        self._here: list[_States] = [states]

    def _advance(self, ids: Tensor, states: _States) -> _States:
        values = self._model.embedding(ids)
        result = []
        for layer, (output, cell) in zip(self._model.lstms, states, strict=True):
            output, cell = layer.advance(values, output, cell)
            result.append((output, cell))
            values = output
        return result

    @torch.no_grad()
    def __call__(self, prefixes: list[str]) -> npt.NDArray[np.float64]:
        """Return ten log-chances for each prefix; all prefixes of a length come in order, before longer ones."""
        length = len(prefixes[0])
        if length == 0:
            return self._chances(self._here[0])
        if length == self._length + 1:
            self._above = [
                (torch.cat([part[n][0] for part in self._here]), torch.cat([part[n][1] for part in self._here]))
                for n in range(len(self._model.lstms))
            ]
            self._length, self._here = length, []
        if length != self._length:
            raise ParameterError("prefixes are asked for in the order of their length")
        parents = torch.tensor([int(one[:-1] or 0) for one in prefixes])
        last = torch.tensor([self._digits[int(one[-1])] for one in prefixes])
        states = self._advance(last, [(output[parents], cell[parents]) for output, cell in self._above])
        self._here.append(states)
        return self._chances(states)

    def _chances(self, states: _States) -> npt.NDArray[np.float64]:
        scores = torch.log_softmax(self._model.decoder(states[-1][0]), dim=1)
        found: npt.NDArray[np.float64] = scores[:, self._digits].double().numpy()
        return found
