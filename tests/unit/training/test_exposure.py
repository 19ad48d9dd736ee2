"""The chances of digits behind some words are those of the model itself."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the extra 'training' is not installed")

from sfumato.foundation.errors import ParameterError  # noqa: E402
from sfumato.training import Vocabulary  # noqa: E402
from sfumato.training.neural.batch import Batch  # noqa: E402
from sfumato.training.neural.exposure import DigitChances  # noqa: E402
from sfumato.training.neural.lstm import LSTMConfig, LSTMModel  # noqa: E402
from sfumato.training.vocabulary import END  # noqa: E402

WORDS = Vocabulary((*"0123456789", "code", "is"))


def test_chances_are_those_of_the_model() -> None:
    torch.manual_seed(1)
    model = LSTMModel(LSTMConfig(vocabulary=len(WORDS), embedding=5, hidden=7, layers=2)).eval()
    with torch.no_grad():
        model.embedding.weight.normal_()
    chances = DigitChances(model, WORDS, ["code", "is"])
    for prefixes in ([""], [str(d) for d in range(10)], [f"{d:02d}" for d in range(100)]):
        found = chances(prefixes)
        for place in (0, len(prefixes) // 2, len(prefixes) - 1):
            ids = [END, WORDS.number("code"), WORDS.number("is"), *(WORDS.number(sign) for sign in prefixes[place])]
            with torch.no_grad():
                direct = torch.log_softmax(model.decoder(model.states(Batch(torch.tensor([ids])).ids)[0, -1]), dim=0)
            digits = [WORDS.number(str(digit)) for digit in range(10)]
            assert found[place].tolist() == pytest.approx(direct[digits].tolist(), abs=1e-5)


def test_a_vocabulary_without_digits_is_refused() -> None:
    model = LSTMModel(LSTMConfig(vocabulary=6, embedding=4, hidden=4, layers=1))
    with pytest.raises(ParameterError, match="ten digits"):
        DigitChances(model, Vocabulary(("a", "b")), [])
