import builtins
import importlib
import pickle
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sfumato.foundation.errors import MissingExtraError
from sfumato.mechanism import decoding
from sfumato.mechanism.decoding import ApproximateDecoder, ExactDecoder, Targets
from sfumato.space import Space

SMALL = st.integers(-4, 4)


def brute(points, vectors, count):
    """Nearest points by exact arithmetic where inputs are small integers; ties to the lower place."""
    squared = ((vectors[:, None, :] - points[None, :, :]) ** 2).sum(axis=2)
    return np.argsort(squared, axis=1, kind="stable")[:, :count]


@st.composite
def places_and_vectors(draw):
    dimension = draw(st.integers(1, 4))
    rows = draw(arrays.arrays(np.int64, (draw(st.integers(1, 12)), dimension), elements=SMALL))
    vectors = draw(arrays.arrays(np.int64, (draw(st.integers(0, 6)), dimension), elements=SMALL))
    far = draw(st.sampled_from([1, 3, 1000, 2**20]))
    return np.unique(rows, axis=0).astype(float), vectors.astype(float) * far


@given(places_and_vectors(), st.sampled_from([1, 2]))
def test_exact_decoding_is_brute_force_also_in_ties(case, count):
    points, vectors = case
    places, distances = ExactDecoder(points).nearest(vectors, count)
    expected = brute(points, vectors, min(count, len(points)))
    assert np.array_equal(places, expected)
    assert distances == pytest.approx(np.linalg.norm(vectors[:, None, :] - points[expected], axis=2))


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("length", [1e-3, 1.0, 50.0, 1e4])
def test_exact_decoding_is_brute_force_at_any_noise(length, offset):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(3000, 20)) + offset
    vectors = points[rng.integers(0, 3000, 300)] + rng.normal(size=(300, 20)) * length
    moved = points - offset
    expected = brute(moved, vectors - offset, 2)
    assert np.array_equal(ExactDecoder(points).nearest(vectors, 2)[0], expected)
    assert np.array_equal(ExactDecoder(points).nearest(vectors, 1)[0], expected[:, :1])


def test_very_far_vectors_are_decoded_by_their_direction():
    rng = np.random.default_rng(1)
    points = rng.normal(size=(500, 10))
    directions = rng.normal(size=(50, 10))
    for length in (1e12, 1e60):
        places, distances = ExactDecoder(points).nearest(directions * length, 1)
        assert np.array_equal(places[:, 0], (directions @ points.T).argmax(axis=1))
        assert np.isfinite(distances).all()


def test_close_calls_are_settled_in_float64():
    """Points that single precision cannot tell apart."""
    points = np.vstack([np.full((1, 3), 100.0), 1.0 + np.arange(200)[:, None] * 1e-9 * np.ones(3)])
    vectors = 1.0 + np.arange(0, 200, 7)[:, None] * 1e-9 * np.ones(3) + 2e-10
    assert np.array_equal(ExactDecoder(points).nearest(vectors, 2)[0][:, 0], 1 + np.arange(0, 200, 7))


def test_decoding_does_not_depend_on_the_batch():
    rng = np.random.default_rng(2)
    points = rng.integers(-3, 4, size=(2000, 6)).astype(float)
    points = np.unique(points, axis=0)
    vectors = rng.normal(size=(257, 6)) * 4
    vectors[::3] = np.round(vectors[::3])  # many ties
    decoder = ExactDecoder(points)
    places, distances = decoder.nearest(vectors, 2)
    for row in range(len(vectors)):
        alone, far = decoder.nearest(vectors[row : row + 1], 2)
        assert np.array_equal(alone[0], places[row])
        assert np.array_equal(far[0], distances[row])


def test_blocks_cover_every_vector(monkeypatch):
    rng = np.random.default_rng(3)
    points, vectors = rng.normal(size=(100, 3)), rng.normal(size=(50, 3))
    whole = ExactDecoder(points).nearest(vectors, 2)
    for name, size in (("_VECTORS_AT_ONCE", 7), ("_POINTS_AT_ONCE", 16), ("_GROUP", 8), ("_GROUPS_AT_ONCE", 3)):
        monkeypatch.setattr(f"sfumato.mechanism.decoding.{name}", size)
    assert np.array_equal(ExactDecoder(points).nearest(vectors, 2)[0], whole[0])


def test_a_pickled_decoder_is_small_and_decodes_alike():
    rng = np.random.default_rng(4)
    decoder = ExactDecoder(rng.normal(size=(100, 3)))
    vectors = rng.normal(size=(50, 3))
    thawed = pickle.loads(pickle.dumps(decoder))
    assert np.array_equal(thawed.nearest(vectors, 2)[0], decoder.nearest(vectors, 2)[0])
    assert len(pickle.dumps(decoder)) < 100 * 3 * 8 + 500


def test_targets_keep_public_order_and_the_first_two_words_of_a_place():
    locations = np.array([[1.0], [0.0], [1.0], [2.0], [1.0], [-0.0]])
    targets = Targets.of(locations, np.array([3, 5, 7, 8, 9, 11]))
    assert targets.points.tolist() == [[1.0], [0.0], [2.0]]
    assert targets.first.tolist() == [3, 5, 8]
    assert targets.second.tolist() == [7, 11, -1]
    assert targets.words(1).tolist() == [3, 5, 8]
    assert targets.words(2).tolist() == [3, 5, 7, 8, 11]


class TestApproximate:
    @pytest.fixture(autouse=True)
    def _needs_faiss(self):
        pytest.importorskip("faiss", reason="the extra 'ann' is not installed")

    @pytest.mark.parametrize("count", [1, 2])
    @pytest.mark.parametrize("size", [1, 2, 3, 7, 9, 40])
    def test_small_vocabularies_are_decoded_exactly(self, size, count):
        rng = np.random.default_rng(size)
        points, vectors = rng.normal(size=(size, 4)), rng.normal(size=(60, 4)) * 3
        places, distances = ApproximateDecoder(points, probes=32).nearest(vectors, count)
        exact, far = ExactDecoder(points).nearest(vectors, count)
        assert np.array_equal(places, exact)
        assert np.array_equal(distances, far)

    @pytest.mark.parametrize("probes", [1, 4])
    def test_what_comes_out_are_two_different_places(self, probes):
        rng = np.random.default_rng(0)
        points = rng.normal(size=(300, 4))
        places, distances = ApproximateDecoder(points, probes).nearest(rng.normal(size=(500, 4)) * 5, 2)
        assert ((places >= 0) & (places < 300)).all()
        assert (places[:, 0] != places[:, 1]).all()
        assert (distances[:, 0] <= distances[:, 1]).all()

    @pytest.mark.parametrize("size", [2, 3, 5, 12, 13, 20, 40, 300])
    def test_two_places_differ_and_the_first_points_are_no_worse_found(self, size):
        """One list holds fewer points than are asked for: what fills up comes in addition to what was found."""
        rng = np.random.default_rng(size)
        points, vectors = rng.normal(size=(size, 3)), rng.normal(size=(2000, 3)) * 2
        decoder = ApproximateDecoder(points, probes=1)
        places, distances = decoder.nearest(vectors, 2)
        assert (places[:, 0] != places[:, 1]).all()
        assert (distances[:, 0] <= distances[:, 1]).all()
        if size <= 12:
            assert np.array_equal(places, ExactDecoder(points).nearest(vectors, 2)[0])
        alone = [decoder.nearest(vectors[row : row + 1], 2)[0] for row in range(200)]
        assert np.array_equal(np.vstack(alone), places[:200])

    def test_recall_grows_with_the_probes(self):
        rng = np.random.default_rng(1)
        points, vectors = rng.normal(size=(4000, 30)), rng.normal(size=(1000, 30)) * 2
        exact = ExactDecoder(points).nearest(vectors, 1)[0]
        recalls = [np.mean(ApproximateDecoder(points, p).nearest(vectors, 1)[0] == exact) for p in (1, 8, 126)]
        assert recalls[0] < recalls[1] < recalls[2] == 1.0

    def test_the_index_is_the_same_whenever_it_is_built(self):
        rng = np.random.default_rng(2)
        points, vectors = rng.normal(size=(3000, 20)), rng.normal(size=(400, 20)) * 3
        decoder = ApproximateDecoder(points, probes=4)
        places = decoder.nearest(vectors, 2)[0]
        assert np.array_equal(ApproximateDecoder(points, probes=4).nearest(vectors, 2)[0], places)
        assert np.array_equal(pickle.loads(pickle.dumps(decoder)).nearest(vectors, 2)[0], places)
        alone = [decoder.nearest(vectors[row : row + 1], 2)[0] for row in range(400)]
        assert np.array_equal(np.vstack(alone), places)

    def test_what_a_vector_is_decoded_to_does_not_depend_on_its_company(self, monkeypatch):
        """Points held as codes are looked through for many vectors together."""
        monkeypatch.setattr(decoding, "_CODED_FROM", 1000)
        rng = np.random.default_rng(3)
        points, vectors = rng.normal(size=(3000, 21)), rng.normal(size=(450, 21)) * 2
        decoder = ApproximateDecoder(points, probes=8)
        together = decoder.nearest(vectors, 2)[0]
        for size in (1, 7, 21, 200):
            parts = [decoder.nearest(vectors[at : at + size], 2)[0] for at in range(0, 450, size)]
            assert np.array_equal(np.vstack(parts), together)

    def test_words_of_the_default_space_are_found(self):
        space = Space.load()
        points = space.vectors * space.scale
        rng = np.random.default_rng(0)
        noise = rng.normal(size=(1000, 128))
        noise *= rng.gamma(128, 1 / 60, size=(1000, 1)) / np.linalg.norm(noise, axis=1)[:, None]
        vectors = points[rng.integers(0, len(points), 1000)] + noise
        exact = ExactDecoder(points).nearest(vectors, 1)[0]
        found = ApproximateDecoder(points, probes=32).nearest(vectors, 1)[0]
        # Measured .993, less three standard errors of 1,000 draws.
        assert np.mean(found == exact) >= 0.985


def test_approximate_decoding_names_the_extra(monkeypatch):
    def refuse(name, *args):
        if name == "faiss":
            raise ImportError(name)
        return builtins.__import__(name, *args)

    monkeypatch.delitem(sys.modules, "faiss", raising=False)
    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(MissingExtraError, match=r"sfumato\[ann\]"):
        ApproximateDecoder(np.eye(3), probes=1)
