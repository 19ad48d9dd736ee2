"""Both ways to the clipped sum agree, on every kind of model."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch", reason="the extra 'training' is not installed")

from sfumato.foundation.errors import ParameterError  # noqa: E402
from sfumato.training.neural.batch import Batch, TextModel  # noqa: E402
from sfumato.training.neural.clipping import clipped_sum, require_true_record, trained  # noqa: E402
from sfumato.training.neural.lstm import LSTMConfig, LSTMModel  # noqa: E402

DROPOUTS = ("dropout_output", "dropout_hidden", "dropout_input", "dropout_words", "dropout_weights")
NO_DROPOUT = dict.fromkeys(DROPOUTS, 0.0)


def language_model(**options: object) -> LSTMModel:
    torch.manual_seed(1)
    config = {"vocabulary": 30, "embedding": 6, "hidden": 8, "layers": 2, **NO_DROPOUT, **options}
    return LSTMModel(LSTMConfig(**config))  # type: ignore[arg-type]


def batch(sentences: int = 7, length: int = 6, classes: int = 3) -> Batch:
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(4, 30, (sentences, length), generator=generator)
    for row in range(sentences):
        ids[row, 1 + row % length :] = 0
        ids[row, row % length] = 3
    return Batch(ids, torch.randint(0, classes, (sentences,), generator=generator))


MODELS: dict[str, Callable[[], LSTMModel]] = {
    "tied language model": language_model,
    "frozen embedding": lambda: language_model(freeze_embedding=True),
    "classifier": lambda: language_model(classes=3),
    "dropped weights": lambda: language_model(dropout_weights=0.5),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("clip", [1e-3, 0.05, 0.5, math.inf])
def test_recorded_and_single_sums_agree(name: str, clip: float) -> None:
    model = MODELS[name]()
    model.prepare()
    one = clipped_sum(model, batch(), clip, engine="recorded", chunk=3)
    other = clipped_sum(model, batch(), clip, engine="single")
    largest = max(float(part.abs().max()) for part in other)
    for left, right in zip(one, other, strict=True):
        assert torch.allclose(left, right, rtol=1e-3, atol=1e-4 * largest)


@pytest.mark.parametrize("engine", ["recorded", "single"])
@pytest.mark.parametrize("name", MODELS)
def test_no_sentence_adds_more_than_the_norm(name: str, engine: str) -> None:
    model = MODELS[name]()
    model.prepare()
    many = batch()
    for clip in (1e-3, 0.02, 10.0):
        for place in range(len(many)):
            parts = clipped_sum(model, many.take([place]), clip, engine=engine)
            norm = math.sqrt(sum(float(part.double().pow(2).sum()) for part in parts))
            assert norm <= clip * (1 + 1e-6)


def test_without_clipping_the_sum_is_the_plain_gradient() -> None:
    model = language_model()
    model.losses(batch()).sum().backward()
    for part, parameter in zip(clipped_sum(model, batch(), math.inf), trained(model), strict=True):
        assert torch.allclose(part, parameter.grad, rtol=1e-3, atol=1e-6)


def test_no_sentences_give_zeros() -> None:
    parts = clipped_sum(language_model(), batch().take([]), 1.0)
    assert all(float(part.abs().max()) == 0 for part in parts)


def test_a_sentence_does_not_touch_the_loss_of_another() -> None:
    model = language_model()
    alone = torch.cat([model.losses(batch().take([place])) for place in range(7)])
    assert torch.allclose(model.losses(batch()), alone, atol=1e-6)


class Odd(TextModel):
    """A model with a layer that is not known, and one whose gradient is not finite for some sentences."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(2))

    def losses(self, batch: Batch) -> torch.Tensor:
        first = batch.ids[:, 0].float()
        return self.scale.sum() * torch.where(first == 5, torch.full_like(first, math.inf), first)


def test_an_unknown_layer_is_taken_one_sentence_at_a_time() -> None:
    rows = Batch(torch.tensor([[7], [9]]))
    assert clipped_sum(Odd(), rows, math.inf)[0].tolist() == [16.0, 16.0]
    with pytest.raises(ParameterError, match="Odd"):
        clipped_sum(Odd(), rows, 1.0, engine="recorded")


class PlacesFirst(TextModel):
    """A model that lets its layer run over places first, and whose losses are still of one sentence each."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.words = torch.nn.Embedding(30, 4)
        self.layer = torch.nn.Linear(4, 4)

    def losses(self, batch: Batch) -> torch.Tensor:
        return torch.tanh(self.layer(self.words(batch.ids).transpose(0, 1))).pow(2).sum(dim=(0, 2))


def test_a_layer_that_mixes_up_sentences_and_places_is_noticed_before_the_first_step() -> None:
    model, square = PlacesFirst(), batch(3, 3)
    mixed = clipped_sum(model, square, 1.0, engine="recorded")
    right = clipped_sum(model, square, 1.0, engine="single")
    assert not torch.allclose(mixed[1], right[1], atol=1e-2), "as many sentences as places: the sizes tell nothing"
    with pytest.raises(ParameterError, match="does not keep the sentences apart"):
        require_true_record(model, square, "auto")
    require_true_record(model, square, "single")
    with pytest.raises(ParameterError, match="all sentences at once"):
        clipped_sum(model, batch(4, 3), 1.0, engine="recorded")


@pytest.mark.parametrize("name", MODELS)
def test_layers_that_keep_sentences_apart_pass(name: str) -> None:
    model = MODELS[name]()
    require_true_record(model, batch(), "auto")
    assert model.training


def test_a_gradient_that_is_not_finite_counts_as_zero() -> None:
    assert clipped_sum(Odd(), Batch(torch.tensor([[5], [9]])), math.inf)[0].tolist() == [9.0, 9.0]


def test_batch_normalisation_is_refused() -> None:
    model = language_model()
    model.extra = torch.nn.BatchNorm1d(3)
    with pytest.raises(ParameterError, match="mixes sentences"):
        clipped_sum(model, batch(), 1.0)


@pytest.mark.parametrize("engine", ["recorded", "single"])
@pytest.mark.parametrize("name", MODELS)
def test_an_emptied_slot_adds_nothing(name: str, engine: str) -> None:
    model, many = MODELS[name](), batch()
    model.prepare()
    emptied = Batch(many.ids.clone(), many.labels)
    emptied.ids[[1, 4]] = 0
    for left, right in zip(
        clipped_sum(model, emptied, 0.5, engine=engine),
        clipped_sum(model, many.take([0, 2, 3, 5, 6]), 0.5, engine=engine),
        strict=True,
    ):
        assert torch.allclose(left, right, atol=1e-6)
