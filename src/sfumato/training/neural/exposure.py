"""How likely a language model thinks the digits that may follow some words: what a canary attack asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch

from sfumato.foundation.errors import ParameterError
from sfumato.training.neural.batch import Batch
from sfumato.training.neural.lstm import LSTMModel
from sfumato.training.vocabulary import END, UNKNOWN, Vocabulary

_AT_ONCE = 2048


def digit_chances(
    model: LSTMModel, vocabulary: Vocabulary, words: Sequence[str]
) -> Callable[[list[str]], npt.NDArray[np.float64]]:
    """Return a function from prefixes of digits, all of one length, to the log-chances of the ten next digits.

    The digits follow ``words``; each digit is a word of the vocabulary.
    """
    digits = [vocabulary.number(str(digit)) for digit in range(10)]
    if UNKNOWN in digits:
        raise ParameterError("the vocabulary must have the ten digits as words of their own")
    begin = [END, *(vocabulary.number(word) for word in words)]

    @torch.no_grad()
    def chances(prefixes: list[str]) -> npt.NDArray[np.float64]:
        model.eval()
        found = []
        for start in range(0, len(prefixes), _AT_ONCE):
            rows = [[*begin, *(digits[int(sign)] for sign in one)] for one in prefixes[start : start + _AT_ONCE]]
            last = model.states(Batch(torch.tensor(rows)).ids)[:, -1]
            found.append(torch.log_softmax(model.decoder(last).double(), dim=1)[:, digits].numpy())
        return np.concatenate(found)

    return chances
