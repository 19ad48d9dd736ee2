"""The server's half learns from noisy vectors, in one go or as they arrive, and is kept without pickles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

from sfumato.foundation.errors import DataError, ParameterError  # noqa: E402
from sfumato.foundation.randomness import RunKey  # noqa: E402
from sfumato.latent.heads import Head, HeadSettings  # noqa: E402
from sfumato.latent.labels import RandomisedResponse  # noqa: E402


def blobs(count: int, classes: int = 2, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Points around the corners of a simplex, with much noise."""
    draws = np.random.default_rng(seed)
    labels = draws.integers(classes, size=count)
    return np.eye(classes, 4)[labels] * 3 + draws.normal(size=(count, 4)), labels


@pytest.mark.parametrize("kind", ["linear", "mlp"])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_head_learns(kind: str, classes: int) -> None:
    vectors, labels = blobs(1500, classes)
    head = Head(HeadSettings(dimension=4, classes=classes, kind=kind)).fit(vectors, labels)
    # Bayes accuracy at this distance is 0.98 for two classes and 0.97 for three.
    assert head.accuracy(*blobs(1000, classes, seed=2)) > 0.93
    assert head.seen == 1500


def test_a_head_learns_as_vectors_arrive() -> None:
    vectors, labels = blobs(3000)
    head = Head(HeadSettings(dimension=4, classes=2, rate=0.02))
    for start in range(0, 3000, 100):
        head.partial_fit(vectors[start : start + 100], labels[start : start + 100])
    head.partial_fit(np.empty((0, 4)), np.empty(0, dtype=np.int64))
    assert head.seen == 3000
    assert head.accuracy(*blobs(1000, seed=2)) > 0.93


def test_training_through_the_lying_of_labels_finds_true_probabilities() -> None:
    vectors, labels = blobs(6000)
    response = RandomisedResponse.of(classes=2, epsilon=0.5)
    sent = response.sample(labels, RunKey.from_seed(3).record(0))
    corrected = Head(HeadSettings(dimension=4, classes=2, decay=1e-4)).fit(vectors, sent, response.transition())
    plain = Head(HeadSettings(dimension=4, classes=2, decay=1e-4)).fit(vectors, sent)
    test, truth = blobs(2000, seed=2)
    assert corrected.accuracy(test, truth) > 0.9
    # Without the correction a head is as unsure as the labels are.
    assert plain.probabilities(test).max(axis=1).mean() < 0.75 < corrected.probabilities(test).max(axis=1).mean()


def test_pairs_are_compared() -> None:
    draws = np.random.default_rng(4)
    first = draws.normal(size=(3000, 3))
    alike = draws.integers(2, size=3000)
    second = np.where(alike[:, None] == 1, first, draws.normal(size=(3000, 3)))
    both = np.concatenate([first, second], axis=1)
    head = Head(HeadSettings(dimension=6, classes=2, pairs=True)).fit(both[:2000], alike[:2000])
    blind = Head(HeadSettings(dimension=6, classes=2)).fit(both[:2000], alike[:2000])
    assert head.accuracy(both[2000:], alike[2000:]) > 0.9
    assert blind.accuracy(both[2000:], alike[2000:]) < 0.6


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_a_head_is_kept_in_safetensors(kind: str, tmp_path: Path) -> None:
    vectors, labels = blobs(300)
    head = Head(HeadSettings(dimension=4, classes=2, kind=kind)).fit(vectors, labels)
    head.save(tmp_path / "head.safetensors")
    again = Head.load(tmp_path / "head.safetensors")
    assert again.settings == head.settings
    assert again.seen == 300
    assert (again.probabilities(vectors) == head.probabilities(vectors)).all()
    assert [path.name for path in tmp_path.iterdir()] == ["head.safetensors"]


def test_other_files_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.safetensors"
    with pytest.raises(DataError, match="cannot be read"):
        Head.load(other)
    other.write_bytes(b"not a model")
    with pytest.raises(DataError, match="cannot be read"):
        Head.load(other)
    from safetensors.torch import save_file

    save_file({"weight": torch.zeros(2)}, str(other))
    with pytest.raises(DataError, match="not a head"):
        Head.load(other)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ('{"dimension": 1000000000, "classes": 1000}', "not of the shape"),  # 4 TB, were it made
        ('{"dimension": 4, "classes": 2, "kind": "mlp"}', "not of the shape"),
        ('{"dimension": 4, "classes": "x"}', "cannot be read"),
        ('{"dimension": 4, "surprise": 2}', "cannot be read"),
        ("[", "cannot be read"),
    ],
)
def test_a_head_from_elsewhere_is_checked_before_it_is_made(settings: str, message: str, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    path = tmp_path / "head.safetensors"
    weights = {"weight": torch.zeros(2, 4), "bias": torch.zeros(2)}
    save_file(weights, str(path), metadata={"format": "sfumato head 1", "settings": settings, "seen": "1"})
    with pytest.raises(DataError, match=message):
        Head.load(path)


def test_what_does_not_fit_is_refused() -> None:
    head = Head(HeadSettings(dimension=4, classes=2))
    vectors, labels = blobs(10)
    for given, message in (
        ((vectors[:, :3], labels), "4 numbers each"),
        ((vectors, labels[:5]), "10 vectors and 5 labels"),
        ((vectors, labels + 1), "not between 0 and 1"),
        ((vectors * np.nan, labels), "not finite"),
        ((vectors[:0], labels[:0]), "no vectors"),
    ):
        with pytest.raises(DataError, match=message):
            head.fit(*given)
    with pytest.raises(ParameterError, match="at least 2 classes"):
        HeadSettings(dimension=4, classes=1)
    with pytest.raises(ParameterError, match="even"):
        HeadSettings(dimension=5, classes=2, pairs=True)
    with pytest.raises(ParameterError, match="kind"):
        HeadSettings(dimension=4, classes=2, kind="forest")
