import json
import math
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import sfumato
from sfumato.foundation.errors import CompositionError, ParameterError, SfumatoError, SpaceError
from sfumato.space import Space, own_metric
from sfumato.space.metric import available_threads
from sfumato.space.statistics import _Screened, compute_statistics, nearest_distances


def words(count):
    return [f"w{i}" for i in range(count)]


def slow_distances(vectors):
    return np.sqrt(((vectors[:, None, :] - vectors[None, :, :]) ** 2).sum(axis=2))


SMALL = arrays(np.float64, st.tuples(st.integers(2, 12), st.integers(1, 5)), elements=st.floats(-100, 100, width=32))
INT8 = arrays(np.int8, st.tuples(st.integers(2, 40), st.integers(1, 130)))


@given(SMALL)
def test_euclidean_distances_are_right_within_the_stated_error(vectors):
    space = Space.from_arrays(words(len(vectors)), vectors)
    found = space.distances(np.arange(len(vectors)))
    on_grid = space.locations[space.points]
    true = slow_distances(on_grid)
    for computed, exact in zip(found.ravel(), true.ravel(), strict=True):
        assert abs(computed - exact) <= space.geometry.error(exact) + 1e-15 * exact
    reach = np.linalg.norm(vectors - vectors.mean(axis=0), axis=1).max()
    assert np.abs(on_grid - vectors).max() <= (reach or np.abs(vectors).max()) * 2.0**-24


@pytest.mark.parametrize("metric", ["euclidean", "angle"])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_a_block_of_distances_is_the_same_to_the_last_bit_however_it_is_cut(metric, offset):
    vectors = np.random.default_rng(8).normal(size=(700, 37)) + offset
    geometry = Space.from_arrays(words(700), vectors, metric=metric).geometry
    whole = geometry.block(slice(None), slice(None))
    for rows in (slice(5, 6), slice(5, 8), np.array([600, 5, 5, 3]), slice(5, 400)):
        for columns in (slice(None), slice(17, 18), np.array([9, 0, 699])):
            assert np.array_equal(geometry.block(rows, columns), whole[rows][:, columns])
    assert (np.diag(whole) == 0).all()


def test_vectors_beyond_the_range_of_numbers_are_refused():
    with pytest.raises(SpaceError, match="too large"):
        _ = Space.from_arrays(["a", "b"], [[1e200], [-1e200]]).geometry


@pytest.mark.parametrize(
    ("vectors", "scale", "message"),
    [
        ([[1e145], [0.0]], 1.0, "too large.*scale them down"),
        ([[1e130], [0.0]], 1e20, "too large.*choose a scale"),
        (np.array([[50], [-50]], dtype=np.int8), 1e160, "too large.*choose a scale"),
        ([[1e-160], [0.0]], 1.0, "too near.*scale them up"),
        ([[1e-160], [0.0]], 1e160, "too near.*scale them up"),
        ([[1e-160]], 1.0, "too near.*scale them up"),
        ([[1e-130], [0.0]], 1e-20, "too near.*choose a scale"),
        (np.array([[50], [-50]], dtype=np.int8), 1e-170, "too near.*choose a scale"),
    ],
)
@pytest.mark.parametrize("metric", ["euclidean", "angle"])
def test_sizes_at_which_squares_are_lost_are_refused(vectors, scale, message, metric):
    with pytest.raises(SpaceError, match=message):
        Space.from_arrays(words(len(vectors)), vectors, scale=scale, metric=metric)


def test_a_part_of_a_space_is_refused_where_its_points_are_too_near():
    part = Space.from_arrays(words(3), [[0.0], [1e-160], [1.0]]).head(2)
    with pytest.raises(SpaceError, match="too near"):
        _ = part.geometry


@pytest.mark.parametrize("size", [1e-139, 1e139])
def test_distances_are_right_at_the_ends_of_the_sizes(size):
    vectors = np.random.default_rng(0).normal(size=(20, 3))
    vectors /= np.abs(vectors).max()
    far = Space.from_arrays(words(20), vectors * size)
    expected = Space.from_arrays(words(20), vectors).distances(np.arange(20)) * size
    assert far.distances(np.arange(20)) == pytest.approx(expected, rel=1e-6)
    assert far.statistics.diameter == pytest.approx(expected.max(), rel=1e-6)


@pytest.mark.parametrize("scale", [1.0, 0.1, 3.0])
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e14])
def test_distances_are_those_of_the_centred_points(scale, offset):
    vectors = np.random.default_rng(0).normal(size=(30, 4)) * 3 + offset
    space = Space.from_arrays(words(30), vectors, scale=scale)
    distances = space.distances(np.arange(30))
    assert slow_distances(space.centred[space.points]) == pytest.approx(distances, rel=1e-7)
    assert np.abs(space.centred + space.middle - space.locations).max() <= 4 * np.spacing(offset * scale + 10)


@given(INT8)
def test_integer_distances_are_exact(vectors):
    space = Space.from_arrays(words(len(vectors)), vectors, scale=0.25)
    true = np.sqrt(((vectors.astype(int)[:, None] - vectors.astype(int)[None]) ** 2).sum(axis=2)) * 0.25
    assert np.array_equal(space.distances(np.arange(len(vectors))), true)
    double = space.geometry.prepare(lambda d: d * 2)(slice(None), slice(None))
    assert np.array_equal(double[space.points][:, space.points], true * 2)


@given(SMALL)
def test_angles_are_a_metric(vectors):
    vectors = vectors + np.where((vectors == 0).all(axis=1), 1.0, 0.0)[:, None]
    space = Space.from_arrays(words(len(vectors)), vectors, metric="angle")
    found = space.distances(np.arange(len(vectors)))
    slack = 4 * space.geometry.error(np.pi / 4) + 1e-7
    assert (np.diag(found) == 0).all()
    assert (found >= 0).all()
    assert (found <= np.pi + slack).all()
    assert np.abs(found - found.T).max() <= slack
    assert (found[:, None, :] <= found[:, :, None] + found[None] + slack).all()


@given(arrays(np.float64, (6, 3), elements=st.floats(0.125, 9, width=16)), st.floats(0.01, 100))
def test_parallel_vectors_are_one_point_of_the_angle_metric(vectors, factor):
    both = np.vstack([vectors, vectors * factor])
    space = Space.from_arrays(words(12), both, metric="angle")
    assert (space.distances(np.arange(6), np.arange(6, 12)).diagonal() < 2.0**-38).all()


def test_words_with_the_same_vector_share_a_point_and_their_distance_is_zero():
    vectors = np.random.default_rng(1).normal(size=(50, 20))
    space = Space.from_arrays(words(100), np.vstack([vectors, vectors]))
    assert len(space.geometry) == 50
    assert (space.distances(np.arange(50), np.arange(50, 100)).diagonal() == 0).all()
    assert np.array_equal(space.points[:50], space.points[50:])


def test_minus_zero_is_zero():
    assert len(Space.from_arrays(["a", "b"], [[0.0], [-0.0]]).geometry) == 1


@settings(max_examples=30, deadline=None)
@given(SMALL, st.integers(1, 4))
def test_statistics_equal_the_plain_computation(vectors, threads):
    space = Space.from_arrays(words(len(vectors)), vectors)
    geometry = space.geometry
    if len(geometry) < 2:
        assert compute_statistics(geometry).diameter == 0
        return
    distances = geometry.block(slice(None), slice(None))
    nearest, diameter = nearest_distances(geometry, threads)
    off_diagonal = distances + np.where(np.eye(len(distances)) == 1, np.inf, 0)
    assert np.allclose(nearest, off_diagonal.min(axis=1), rtol=1e-12)
    assert diameter == pytest.approx(distances.max(), rel=1e-12)
    statistics = compute_statistics(geometry, threads)
    within = (off_diagonal <= 2 * np.median(nearest) * (1 + 1e-12)).sum() / len(distances)
    assert statistics.density <= within + 1e-9


def test_statistics_over_several_tiles_equal_the_plain_computation():
    vectors = np.random.default_rng(2).integers(-20, 20, size=(1700, 8)).astype(np.int8)
    space = Space.from_arrays(words(1700), vectors)
    distances = space.geometry.block(slice(None), slice(None))
    np.fill_diagonal(distances, np.inf)
    statistics = space.statistics
    assert statistics.least_distance == distances.min()
    assert statistics.median_neighbour_distance == np.median(distances.min(axis=1))
    np.fill_diagonal(distances, 0)
    assert statistics.diameter == distances.max()
    close = (distances <= 2 * statistics.median_neighbour_distance).sum() - len(distances)
    assert statistics.density == pytest.approx(close / len(distances))


@pytest.mark.parametrize(
    ("given_words", "vectors", "message"),
    [
        ([], np.empty((0, 2)), "at least one word"),
        (["a"], [[1.0], [2.0]], "1 words but 2 vectors"),
        (["a", "a"], [[1.0], [2.0]], "position 1 appears twice"),
        (["a", ""], [[1.0], [2.0]], "position 1 is empty"),
        (["a", "b"], [[1.0], [np.nan]], "position 1 has a NaN"),
        (["a", "b"], [[np.inf], [1.0]], "position 0 has a NaN or infinite"),
        (["a"], [1.0], "two-dimensional"),
        (["a"], [["x"]], "two-dimensional array of numbers"),
        (["a"], np.empty((1, 0)), "at least one component"),
    ],
)
def test_bad_arrays_are_refused_by_position(given_words, vectors, message):
    with pytest.raises(SpaceError, match=message):
        Space.from_arrays(given_words, vectors)


def test_zero_vectors_have_no_direction():
    with pytest.raises(SpaceError, match="position 1 is zero"):
        Space.from_arrays(["a", "b"], [[1.0], [0.0]], metric="angle")


def test_unknown_metrics_and_scales_are_refused():
    with pytest.raises(ParameterError, match="metric"):
        Space.from_arrays(["a"], [[1.0]], metric="cosine")
    with pytest.raises(ParameterError, match="scale"):
        Space.from_arrays(["a"], [[1.0]], scale=0)


def manhattan(a, b):
    return np.abs(a[:, None, :] - b[None, :, :]).sum(axis=2)


def squared(a, b):
    return ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)


def shifted(a, b):
    return manhattan(a, b) + 1


def lopsided(a, b):
    return np.maximum(a[:, None, 0] - b[None, :, 0], 0) + 0 * manhattan(a, b)


def test_a_users_metric_is_taken_and_a_false_one_refused():
    vectors = np.random.default_rng(0).normal(size=(30, 3))
    space = Space.from_arrays(words(30), vectors, metric=manhattan)
    assert space.metric == "manhattan"
    assert space.triangle_checked
    assert np.allclose(space.distances(np.arange(30)), manhattan(vectors, vectors))
    for function, problem in ((squared, "triangle"), (shifted, "itself"), (lopsided, "symmetric")):
        with pytest.raises(SpaceError, match=problem):
            Space.from_arrays(words(30), vectors, metric=function)


def test_a_users_metric_over_many_words_is_checked_on_a_sample_and_says_so():
    space = Space.from_arrays(words(300), np.random.default_rng(0).normal(size=(300, 2)), metric=manhattan)
    assert not space.triangle_checked


def test_a_metric_function_of_the_wrong_shape_or_with_nan_is_refused():
    for function in (lambda a, b: np.zeros(3), lambda a, b: np.full((len(a), len(b)), np.nan)):
        with pytest.raises(SpaceError, match="metric function returned"):
            Space.from_arrays(["a", "b"], [[1.0], [2.0]], metric=function)


def test_the_digest_changes_with_everything_that_fixes_distances():
    base = (["a", "b"], [[1.0], [2.0]])
    digests = {
        Space.from_arrays(*base).digest,
        Space.from_arrays(["a", "c"], base[1]).digest,
        Space.from_arrays(["ab", "c"], base[1]).digest,
        Space.from_arrays(base[0], [[1.0], [3.0]]).digest,
        Space.from_arrays(*base, scale=2).digest,
        Space.from_arrays(*base, metric="angle").digest,
    }
    assert len(digests) == 6
    assert Space.from_arrays(*base, name="other").digest in digests


def test_the_space_does_not_follow_the_callers_array():
    vectors = np.array([[1.0], [2.0]])
    space = Space.from_arrays(["a", "b"], vectors)
    vectors[0] = 9
    assert space.distance("a", "b") == 1.0
    with pytest.raises(ValueError, match="read-only"):
        space.vectors[0] = 3


def test_words_that_are_not_in_the_space_are_named_by_position_only():
    space = Space.from_arrays(["a"], [[1.0]])
    with pytest.raises(SfumatoError, match="position 1") as caught:
        space.positions(["a", "Smith"])
    assert "Smith" not in str(caught.value)


def test_part_of_a_space_keeps_distances():
    space = Space.from_arrays(list("abcd"), [[0.0], [1.0], [3.0], [7.0]])
    part = space.restricted(["d", "b"])
    assert part.words == ("b", "d")
    assert part.distance("b", "d") == 6
    assert space.head(2).words == ("a", "b")


def test_the_default_space_loads_and_its_typical_neighbour_is_at_distance_one():
    space = Space.load()
    assert len(space) > 20_000
    assert space.statistics.median_neighbour_distance == pytest.approx(1.0, abs=1e-6)
    assert len(set(space.words)) == len(space)
    assert all(word == word.lower() for word in space.words)


def test_statistics_come_from_the_cache_and_a_damaged_cache_is_ignored(tmp_path, monkeypatch):
    monkeypatch.setenv("SFUMATO_CACHE_DIR", str(tmp_path))
    make = lambda: Space.from_arrays(words(20), np.arange(20.0)[:, None])  # noqa: E731
    fresh = make().statistics
    (cached,) = tmp_path.iterdir()
    assert make().statistics == fresh
    for damage in (b"", b"{", b'{"points": 3}', b"[]"):
        cached.write_bytes(damage)
        assert make().statistics == fresh


@pytest.mark.parametrize(
    "damage",
    [
        {"diameter": math.nan}, {"diameter": math.inf}, {"diameter": 0.5}, {"diameter": True}, {"diameter": "19"},
        {"least_distance": 0}, {"least_distance": -1.0}, {"least_distance": 20.0}, {"least_distance": None},
        {"median_neighbour_distance": math.nan}, {"median_neighbour_distance": 0.5},
        {"median_neighbour_distance": 20.0}, {"density": math.nan}, {"density": -1.0}, {"density": 20.0},
        {"points": 0}, {"points": 21}, {"points": 19.5}, {"points": True}, {"points": 1}, {"exact": 1},
    ],
    ids=str,
)  # fmt: skip
def test_figures_that_no_space_has_are_computed_again(tmp_path, monkeypatch, damage):
    monkeypatch.setenv("SFUMATO_CACHE_DIR", str(tmp_path))
    make = lambda: Space.from_arrays(words(20), np.arange(20.0)[:, None])  # noqa: E731
    fresh = make().statistics
    (cached,) = tmp_path.iterdir()
    cached.write_text(json.dumps({**fresh.to_json(), **damage}))
    assert make().statistics == fresh
    assert json.loads(cached.read_text()) == fresh.to_json()


def test_one_point_has_figures_that_are_read_back(tmp_path, monkeypatch):
    monkeypatch.setenv("SFUMATO_CACHE_DIR", str(tmp_path))
    make = lambda: Space.from_arrays(words(2), [[1.0], [1.0]])  # noqa: E731
    fresh = make().statistics
    monkeypatch.setattr("sfumato.space.space.compute_statistics", None)
    assert make().statistics == fresh


@pytest.mark.parametrize("far", [1.0, 30.0, 3000.0])
@pytest.mark.parametrize("outliers", [1, 20])
def test_points_far_out_cost_few_pairs_and_no_figure(monkeypatch, far, outliers):
    """The error of single precision is a share of the farthest point's distance; beyond it nothing is told apart."""
    vectors = np.random.default_rng(0).normal(size=(2000, 30))
    vectors[:outliers] *= far
    geometry = Space.from_arrays(words(2000), vectors).geometry
    nearest, diameter = nearest_distances(geometry)
    picked = []
    between = type(geometry).between
    monkeypatch.setattr(
        type(geometry), "between", lambda self, one, two: (picked.append(len(one)), between(self, one, two))[1]
    )
    found = _Screened(geometry).statistics(1, None)
    assert (found.diameter, found.least_distance) == (diameter, nearest.min())
    assert found.median_neighbour_distance == pytest.approx(np.median(nearest), rel=1e-4)
    assert sum(picked) < 2000 * 2000 / 50
    assert max(picked) <= 4096


def test_an_unwritable_cache_is_silently_not_used(monkeypatch):
    monkeypatch.setenv("SFUMATO_CACHE_DIR", os.devnull + "/nowhere")
    assert Space.from_arrays(words(5), np.arange(5.0)[:, None]).statistics.diameter == 4


def test_no_word_is_written_to_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SFUMATO_CACHE_DIR", str(tmp_path))
    names = [f"sentinel{i}" for i in range(2100)]
    space = Space.from_arrays(names, np.random.default_rng(0).integers(-99, 99, (2100, 4)).astype(np.int8))
    import sfumato

    sanitizer = sfumato.Sanitizer(sfumato.compile("tem", space, epsilon=5.0, tuning="published"))
    sanitizer(" ".join(names[:50]))
    files = list(tmp_path.rglob("*"))
    assert files
    for file in files:
        assert b"sentinel" not in file.read_bytes()
        assert "sentinel" not in file.name


def test_statistics_are_the_same_for_any_number_of_threads_and_processes():
    code = (
        "import numpy as np; from sfumato.space import Space; from sfumato.space.statistics import compute_statistics;"
        "v = np.random.default_rng(3).normal(size=(1000, 16));"
        "print(compute_statistics(Space.from_arrays([str(i) for i in range(1000)], v).geometry, threads=3))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    vectors = np.random.default_rng(3).normal(size=(1000, 16))
    geometry = Space.from_arrays([str(i) for i in range(1000)], vectors).geometry
    assert out.strip() == str(compute_statistics(geometry, threads=1))
    assert available_threads() >= 1


def along(factor):
    def distance(a, b):
        return factor * np.abs(a[:, None, 0] - b[None, :, 0])

    return distance


def of_rows(a, b):
    return np.abs(a[:, None] - b[None]).sum(axis=2)


class Steps:
    """Says of itself that it equals every other one."""

    def __init__(self, factor):
        self.factor, self.__name__ = factor, "steps"

    def __call__(self, a, b):
        return self.factor * np.abs(a[:, None, 0] - b[None, :, 0])

    def __eq__(self, other):
        return isinstance(other, Steps)

    def __hash__(self):
        return 1


@pytest.mark.parametrize("make", [along, Steps])
def test_unlike_metrics_of_ones_own_have_unlike_digests_and_their_promises_do_not_add(make):
    """Two functions of one name once had the same digest, though the one's unit was a thousand of the other's."""
    near, far = make(1.0), make(1000.0)
    base = (["a", "b"], [[1.0], [2.0]])
    digests = {Space.from_arrays(*base, metric=function).digest for function in (near, far)}
    assert len(digests) == 2
    assert {Space.from_arrays(*base, metric=near).digest, Space.from_arrays(*base, metric=far).digest} == digests
    one, same, other = (
        sfumato.compile("tem", Space.from_arrays(*base, metric=function), epsilon=1.0).guarantee
        for function in (near, near, far)
    )
    assert (one + same).epsilon == 2.0
    with pytest.raises(CompositionError, match="space_digest"):
        one + other


def test_a_metric_that_is_called_like_a_builtin_one_is_another_one():
    def euclidean(a, b):
        return 1000 * np.abs(a - b.T)

    base = (["a", "b"], [[1.0], [2.0]])
    assert Space.from_arrays(*base, metric=euclidean).digest != Space.from_arrays(*base).digest


def test_a_function_that_takes_the_place_of_another_in_memory_has_a_token_of_its_own():
    tokens = [own_metric.token_of(along(1.0)) for _ in range(200)]
    assert len(set(tokens)) == 200
    assert len([known for known in own_metric._tokens.values() if known[1] in tokens]) == 0


def test_a_space_of_ones_own_metric_that_is_read_elsewhere_has_the_digest_of_its_function_there(monkeypatch):
    space = Space.from_arrays(["a", "b"], [[1.0], [2.0]], metric=of_rows)
    before, written = space.digest, pickle.dumps(space)
    assert pickle.loads(written).digest == before
    monkeypatch.setattr(own_metric, "_tokens", {})  # as in another process
    assert pickle.loads(written).digest != before
    plain = Space.from_arrays(["a", "b"], [[1.0], [2.0]])
    assert pickle.loads(pickle.dumps(plain)).digest == plain.digest


def test_words_with_line_breaks_are_told_apart():
    vectors = [[1.0], [2.0]]
    assert Space.from_arrays(["a\nb", "c"], vectors).digest != Space.from_arrays(["a", "b\nc"], vectors).digest
