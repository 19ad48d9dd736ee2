"""Mask-token inference: certain contexts give the word away, random ones leave the prior."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sfumato
from sfumato.audit.attacks.masked import MaskedInference, MaskedModel, NgramModel, masked_inference
from sfumato.audit.attacks.scores import Share
from sfumato.foundation.errors import DataError, ParameterError
from sfumato.foundation.randomness import RunKey
from sfumato.sanitize import Sanitizer

CYCLE = [f"w{number}" for number in range(12)]
SPACE = sfumato.Space.from_arrays(CYCLE, np.random.default_rng(0).normal(size=(12, 4)))


def cycles(count: int, seed: int, length: int = 6) -> list[list[str]]:
    """Texts in which each word is followed by the next one of a circle: a neighbour gives a word away."""
    starts = np.random.default_rng(seed).integers(0, 12, count)
    return [[CYCLE[(start + step) % 12] for step in range(length)] for start in starts.tolist()]


def echoes(count: int, seed: int) -> list[list[str]]:
    """Texts of one word said five times: the others give it away."""
    return [[CYCLE[word]] * 5 for word in np.random.default_rng(seed).integers(0, 12, count).tolist()]


def privatized(name: str, texts: list[list[str]], **options: float) -> list[list[str]]:
    sanitizer = Sanitizer(sfumato.compile(name, SPACE, **options))
    return [text.split() for text in sanitizer.batch([" ".join(text) for text in texts], key=RunKey.from_seed(3)).texts]


ATTACKED = cycles(150, 9)


def attacked(model: MaskedModel, name: str, texts: list[list[str]] = ATTACKED, **options: float) -> MaskedInference:
    return masked_inference(model, texts, privatized(name, texts, **options))


class TestNgrams:
    model = NgramModel.of(cycles(300, 1), CYCLE)

    def test_the_context_of_the_identity_gives_every_word_away(self) -> None:
        assert attacked(self.model, "identity").guessed.share == 1

    def test_random_words_leave_the_prior(self) -> None:
        found = attacked(self.model, "random")
        low, high = found.guessed.interval(0.9999)
        assert low <= 1 / 12 <= high

    def test_more_noise_leaves_less(self) -> None:
        shares = [attacked(self.model, "tem", epsilon=epsilon).guessed.share for epsilon in (0.1, 3.0, 100.0)]
        assert shares == sorted(shares)

    def test_whoever_knows_the_channel_guesses_better(self) -> None:
        mechanism = sfumato.compile("tem", SPACE, epsilon=3.0)
        logs = {y: np.log([float(mechanism.row(x).probability(place)) for x in CYCLE]) for place, y in enumerate(CYCLE)}
        texts = cycles(150, 9)
        seen = privatized("tem", texts, epsilon=3.0)
        blind = masked_inference(self.model, texts, seen).guessed.share
        knowing = masked_inference(self.model, texts, seen, channel=lambda word, _: logs[word]).guessed.share
        assert knowing > blind

    def test_only_protected_places_are_tried_and_no_more_than_asked_for(self) -> None:
        texts = cycles(10, 2)
        flags = [[place == 0 for place in range(6)] for _ in texts]
        assert masked_inference(self.model, texts, texts, protected=flags).guessed.of == 10
        assert masked_inference(self.model, texts, texts, most=7).guessed.of == 7

    def test_words_outside_the_model_count_as_not_guessed(self) -> None:
        found = masked_inference(self.model, [["unheard", "w1"]], [["w0", "w1"]])
        assert found.guessed == Share(1, 2)
        assert found.not_in_model == 1

    def test_texts_of_unlike_length_are_refused(self) -> None:
        with pytest.raises(ParameterError, match="place by place"):
            masked_inference(self.model, [["a"]], [["a", "b"]])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small masked LM of our own, trained for a moment on echoes."""
    torch = pytest.importorskip("torch", reason="the extra 'transformers' is not installed")
    transformers = pytest.importorskip("transformers", reason="the extra 'transformers' is not installed")
    folder = tmp_path_factory.mktemp("tiny-masked-lm")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (folder / "vocab.txt").write_text("\n".join([*special, *CYCLE]) + "\n")
    tokenizer = transformers.BertTokenizerFast(vocab=str(folder / "vocab.txt"), model_max_length=32)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = transformers.BertConfig(
            vocab_size=17, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
            max_position_embeddings=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        )  # fmt: skip
        model = transformers.BertForMaskedLM(config)
        optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
        texts = tokenizer([" ".join(text) for text in echoes(400, 1)], return_tensors="pt")["input_ids"]
        for _ in range(60):
            ids = texts[torch.randint(0, len(texts), (64,))].clone()
            hidden = torch.randint(1, 6, (64,))
            labels = torch.full_like(ids, -100)
            labels[range(64), hidden] = ids[range(64), hidden]
            ids[range(64), hidden] = tokenizer.mask_token_id
            optimiser.zero_grad()
            model(input_ids=ids, labels=labels).loss.backward()
            optimiser.step()
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_masked_language_model_hears_the_echo(tiny: Path) -> None:
    from sfumato.audit.attacks.masked_neural import HuggingFaceMaskedModel

    model = HuggingFaceMaskedModel(tiny, CYCLE)
    assert model.name == f"masked LM {tiny.name}"
    assert attacked(model, "identity", echoes(150, 9)).guessed.share > 0.99
    low, high = attacked(model, "random", echoes(150, 9)).guessed.interval(0.9999)
    assert low <= 1 / 12 <= high


def test_a_head_on_an_encoder_hears_the_echo_and_says_that_it_is_small(tiny: Path) -> None:
    from sfumato.audit.attacks.masked_neural import train_masked_head

    model = train_masked_head(tiny, echoes(200, 1), CYCLE, examples=400, epochs=8)
    assert "small head on" in model.name
    assert attacked(model, "identity", echoes(150, 9)).guessed.share > 0.9
    low, high = attacked(model, "random", echoes(150, 9)).guessed.interval(0.9999)
    assert low <= 1 / 12 <= high


def test_words_of_several_pieces_cannot_be_guessed(tiny: Path) -> None:
    from sfumato.audit.attacks.masked_neural import HuggingFaceMaskedModel

    assert list(HuggingFaceMaskedModel(tiny, ["w1", "not there"]).words) == ["w1"]


def test_a_model_that_is_not_there_is_not_fetched(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="the extra 'transformers' is not installed")
    from sfumato.audit.attacks.masked_neural import HuggingFaceMaskedModel

    with pytest.raises(DataError, match="no usable model"):
        HuggingFaceMaskedModel(tmp_path / "nowhere", CYCLE)
