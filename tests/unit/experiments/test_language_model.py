"""The small language model: what the trie of digits says is what the model says, and a canary is learnt by heart."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra 'torch' is not installed")

from sfumato.audit.attacks.canary import all_strings, exposure
from sfumato.experiments.language_model import LanguageModel, Training, Words

WORDS = Words(("my", "id", "is", "rain", "falls", "today", "7"))
TRAINING = Training(embedding=12, hidden=24, epochs=12, batch=2, length=12, rate=2e-2)
TEXTS = ["Rain falls today.", "Today rain falls.", "Falls today rain."] * 10


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return LanguageModel(WORDS, [*TEXTS, *["My ID is 407."] * 10], TRAINING, 0)


def test_digits_are_the_models_own_even_where_the_space_has_digits() -> None:
    assert WORDS.ids("7 70 x") == [9, 9, 2, 0, 1]


def test_the_trie_of_digits_agrees_with_the_model_run_from_the_beginning(model: LanguageModel) -> None:
    import torch

    table = all_strings(model.digits_after("My ID is"), 3)
    for number in ("407", "000", "999", "123"):
        ids = torch.tensor([[1, *WORDS.ids(f"My ID is {number}")]])
        with torch.inference_mode():
            hidden, _ = model._lstm(model._embed(ids[:, :-1]))
            logs = torch.log_softmax(model._out(hidden)[0].double(), dim=1)
        expected = sum(float(logs[3 + place, ids[0, 4 + place]]) for place in range(3))
        assert table[int(number)] == pytest.approx(expected, abs=1e-4)


def test_levels_larger_than_a_batch_are_put_together_in_order(model: LanguageModel) -> None:
    whole, parts = model.digits_after("My ID is"), model.digits_after("My ID is")
    for length in range(3):
        prefixes = [f"{number:0{length}d}" if length else "" for number in range(10**length)]
        middle = max(1, len(prefixes) // 3)
        split = [parts(part) for part in (prefixes[:middle], prefixes[middle:]) if part]
        np.testing.assert_allclose(np.concatenate(split), whole(prefixes), atol=1e-6)


def test_ten_copies_are_learnt_by_heart(model: LanguageModel) -> None:
    assert exposure(all_strings(model.digits_after("My ID is"), 3), "407").rank <= 3


def test_perplexity_is_low_on_what_was_trained_on_and_the_seed_repeats_it(model: LanguageModel) -> None:
    again = LanguageModel(WORDS, [*TEXTS, *["My ID is 407."] * 10], TRAINING, 0)
    assert model.perplexity(TEXTS[:3]) == pytest.approx(again.perplexity(TEXTS[:3]), rel=1e-6)
    assert 1 < model.perplexity(TEXTS) < len(WORDS)
