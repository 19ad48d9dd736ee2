import json
import math
import re

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sfumato.foundation.errors import CertificationError, ParameterError
from sfumato.mechanism import stretch as stretch_module
from sfumato.mechanism.stretch import Inverse, TooMuch, measure
from sfumato.mechanism.transforms import TRANSFORMS, Transform, least_dimension, projection
from sfumato.space import Space

ROUNDING = 2.0**-22
"""Constants are rounded up to 24 bits."""


def words(count):
    return [f"w{i}" for i in range(count)]


def gaussian(count=60, dimension=8, seed=0, size=1.0):
    return Space.from_arrays(words(count), np.random.default_rng(seed).normal(size=(count, dimension)) * size)


@st.composite
def spaces(draw):
    """Small spaces of integers (also stored as such) or of floats, with duplicates and near pairs among them."""
    shape = (draw(st.integers(2, 12)), draw(st.integers(2, 4)))
    if draw(st.booleans()):
        vectors = draw(arrays.arrays(np.int8, shape, elements=st.integers(-20, 20)))
        return Space.from_arrays(words(shape[0]), vectors, scale=draw(st.sampled_from([1.0, 0.1])))
    elements = st.floats(-5, 5).map(lambda value: round(value, 3))
    return Space.from_arrays(words(shape[0]), draw(arrays.arrays(np.float64, shape, elements=elements)))


def brute_constant(points, images):
    """The Lipschitz constant by its definition, pair by pair."""
    best = 0.0
    for one in range(len(points)):
        for other in range(one):
            best = max(best, math.dist(images[one], images[other]) / math.dist(points[one], points[other]))
    return best


def image_by_hand(name, vectors):
    if name == "unit-norm":
        return np.array([v / math.hypot(*v) for v in vectors])
    if name == "unit-ball":
        return np.array([v / max(1.0, math.hypot(*v)) for v in vectors])
    if name == "clip":
        return np.array([[min(max(c, -1.0), 1.0) for c in v] for v in vectors])
    if name == "min-max":
        return np.array([[2 * (c - min(v)) / (max(v) - min(v)) - 1 for c in v] for v in vectors])
    low, high = vectors.min(), vectors.max()
    return np.array([[low + (high - low) * (c - min(v)) / (max(v) - min(v)) for c in v] for v in vectors])


def bound_by_hand(name, vectors):
    if name == "unit-norm":
        return 1 / np.linalg.norm(vectors, axis=1).min()
    if name in ("unit-ball", "clip"):
        return 1.0
    by_range = 2 * (1 + math.sqrt(2 * vectors.shape[1])) / (vectors.max(axis=1) - vectors.min(axis=1)).min()
    return by_range if name == "min-max" else by_range * (vectors.max() - vectors.min()) / 2


@pytest.mark.parametrize("name", ["unit-norm", "unit-ball", "clip", "min-max", "observed-range"])
@given(space=spaces())
def test_images_constants_and_bounds(name, space):
    vectors = space.locations
    if name == "unit-norm":
        assume(np.linalg.norm(vectors, axis=1).min() > 0)
    if name in ("min-max", "observed-range"):
        assume((vectors.max(axis=1) - vectors.min(axis=1)).min() > 0)
    image = Transform(name).apply(space)
    assert image.locations == pytest.approx(image_by_hand(name, vectors), abs=1e-12)
    brute = brute_constant(vectors, image.locations)
    assert image.stretch.constant >= brute * (1 - 1e-12)
    unchanged = 1.0 if np.array_equal(image.locations, vectors) else 0.0  # also where there is but one point
    assert image.stretch.constant <= max(brute, unchanged) * (1 + ROUNDING)
    assert brute <= bound_by_hand(name, vectors) * (1 + 1e-9)


@given(space=spaces(), seed=st.integers(0, 100))
def test_any_map_is_measured_as_its_definition_says(space, seed):
    points = space.locations
    images = np.random.default_rng(seed).normal(size=(len(points), 3))
    found = measure(space, images).constant
    brute = brute_constant(points, images)
    assert brute <= found <= brute * (1 + ROUNDING)


@pytest.mark.parametrize("threads", [1, 3])
def test_all_tiles_are_looked_at(threads, monkeypatch):
    """The one stretched pair lies far from the diagonal, and the outcome does not depend on threads."""
    monkeypatch.setattr("sfumato.space.metric.TILE", 16)
    monkeypatch.setattr(stretch_module, "upper_tiles", lambda n: _tiles(n, 16))
    space = gaussian(200, 5)
    points = space.locations
    images = points.copy()
    images[7] += 3 * (points[7] - points[190])
    found = measure(space, images, threads=threads)
    assert found.constant == pytest.approx(brute_constant(points, images), rel=ROUNDING)
    between = np.linalg.norm(images[:, None] - images[None], axis=2) + np.diag(np.full(200, np.inf))
    assert found.neighbour == pytest.approx(np.median(between.min(axis=1)))
    assert found == measure(space, images, threads=1)


def _tiles(points, step):
    tiles = [slice(start, min(start + step, points)) for start in range(0, points, step)]
    for number, rows in enumerate(tiles):
        yield rows, tiles[number:]


def near_pair_beside_far_points(seed):
    """A pair so near, where vectors are so long, that a block of products hardly sees it, and a map that stretches it most.

    Another pair, which the block sees well, is stretched nearly as much and is the greatest ratio that the block shows.
    """
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(10, 20))
    vectors[2] = 100 * rng.normal(size=20)  # the longest vectors set the rounding of all
    vectors[3] = vectors[2]
    vectors[3, 0] += 3e-5
    space = Space.from_arrays(words(10), vectors)
    images = space.locations.copy()
    images[3] = images[2] + 1.3 * (images[3] - images[2])
    images[1] = images[0] + 1.28 * (images[1] - images[0])
    return space, images


def test_pairs_nearer_than_the_rounding_of_blocks_are_computed_one_by_one():
    """Whether the block shows such a pair as more or less than it is, is chance: some seeds need the slack that is added for
    its rounding, some that all pairs within it are looked at again.
    """
    tried = 0
    for seed in range(200):
        space, images = near_pair_beside_far_points(seed)
        if len(space.locations) == 10:  # the grid may join the near pair
            tried += 1
            brute = brute_constant(space.locations, images)
            assert brute * (1 - 1e-9) <= measure(space, images).constant <= brute * (1 + ROUNDING)
    assert tried > 100


@pytest.mark.parametrize("scale", [1.0, 0.1])
@pytest.mark.parametrize("offset", [1e9, 1e12, 1e14])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_far_from_the_origin_no_pair_is_stretched_beyond_the_constant(name, offset, scale):
    """Measured on what noise is added to, against the distances that the guarantee speaks of."""
    vectors = np.random.default_rng(0).normal(size=(30, 4)) * 3 + offset
    space = Space.from_arrays(words(30), vectors, scale=scale)
    low = float(np.median(vectors)) * scale
    image = Transform(name, low=low, high=low + scale, jl_beta=3.0, jl_dimension=3).apply(space)
    distances = space.distances(np.arange(30))
    images = image.points[space.points]
    worst = max(
        math.dist(images[i], images[j]) / distances[i, j] for i in range(30) for j in range(i) if distances[i, j]
    )
    assert worst <= image.stretch.constant * (1 + 1e-9)
    # No farther from what the transform means than numbers of this size can tell apart.
    assert np.isfinite(image.locations).all()
    if name == "none":
        assert np.abs(image.locations[space.points] - vectors * scale).max() <= 4 * np.spacing(offset * scale)


def test_what_an_inverse_is_off_by_is_added():
    space = gaussian(20, 3)
    matrix = np.diag([2.0, 1.0, 0.5])
    exact, off = (measure(space, space.centred @ matrix, inverse=Inverse(matrix, off)).constant for off in (0.0, 0.01))
    assert exact == pytest.approx(brute_constant(space.centred, space.centred @ matrix), rel=ROUNDING)
    assert off == pytest.approx(exact / 0.99, rel=ROUNDING)


def test_ratios_that_cannot_be_computed_are_an_error():
    space = gaussian(5, 2)
    images = space.locations.copy()
    images[3] *= 1e200
    with np.errstate(all="ignore"), pytest.raises(CertificationError, match="scale the vectors"):
        measure(space, images)


def test_a_limit_stops_the_search():
    space = gaussian(30, 3)
    with pytest.raises(TooMuch):
        measure(space, space.locations * 2, limit=1.9)
    assert measure(space, space.locations * 2, limit=2.1).constant == pytest.approx(2, rel=ROUNDING)


def test_one_point_is_not_stretched():
    space = Space.from_arrays(["only", "same"], [[1.0, 2.0], [1.0, 2.0]])
    for name in set(TRANSFORMS) - {"jl", "none"}:
        assert Transform(name, low=0.0, high=0.5).apply(space).stretch.constant <= 1


def test_observed_range_is_min_max_at_a_scaled_epsilon():
    space = gaussian()
    half = (space.locations.max() - space.locations.min()) / 2
    one, other = Transform("min-max").apply(space), Transform("observed-range").apply(space)
    assert other.stretch.constant == pytest.approx(one.stretch.constant * half, rel=2 * ROUNDING)  # each is rounded up
    assert other.stretch.neighbour == pytest.approx(one.stretch.neighbour * half, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "vectors", "what"),
    [
        ("unit-norm", [[0.0, 0.0], [1.0, 2.0]], "zero vector"),
        ("min-max", [[1.0, 1.0], [1.0, 2.0]], "all equal"),
        ("observed-range", [[1.0, 1.0], [1.0, 2.0]], "all equal"),
    ],
)
def test_vectors_without_a_value_are_refused(name, vectors, what):
    with pytest.raises(ParameterError, match=what):
        Transform(name).apply(Space.from_arrays(words(2), vectors))


@pytest.mark.parametrize(
    "bad",
    [
        {"low": 1.0}, {"low": 2.0}, {"low": math.nan}, {"high": math.inf}, {"high": None}, {"low": True},
    ],
)  # fmt: skip
def test_a_box_must_be_one(bad):
    with pytest.raises(ParameterError, match="low"):
        Transform("clip", **bad).check()


class TestProjection:
    def test_every_pair_is_within_the_stretch(self):
        space = gaussian(200, 100)
        choice = Transform("jl", jl_beta=0.5)
        image = choice.apply(space)
        assert image.locations.shape == (200, least_dimension(200, 0.5))
        brute = brute_constant(space.locations, image.locations)
        assert brute <= image.stretch.constant <= min(1.5, brute * (1 + ROUNDING))

    def test_a_matrix_that_fails_is_drawn_again(self):
        """So few dimensions that most matrices stretch some pair by more than one half."""
        space = gaussian(60, 30)
        attempts = []
        for seed in range(20):
            choice = Transform("jl", jl_beta=0.5, jl_dimension=20, jl_seed=seed)
            image = choice.apply(space)
            attempt = next(
                n for n in range(20)
                if brute_constant(space.locations, space.locations @ projection(seed, n, 30, 20)) <= 1.5
            )  # fmt: skip
            assert f"(seed {seed}, attempt {attempt})" in image.sentence
            assert np.array_equal(image.points, space.centred @ projection(seed, attempt, 30, 20))
            assert image.locations == pytest.approx(space.locations @ projection(seed, attempt, 30, 20))
            attempts.append(attempt)
        assert max(attempts) > 0

    def test_it_gives_up_where_no_matrix_does(self):
        with pytest.raises(CertificationError, match="jl_beta"):
            Transform("jl", jl_beta=0.01, jl_dimension=3).apply(gaussian(100, 10))

    def test_a_projection_to_more_dimensions_is_refused(self):
        with pytest.raises(ParameterError, match="jl_beta"):
            Transform("jl", jl_beta=0.1).apply(gaussian(100, 10))

    def test_the_matrix_is_that_of_its_seed(self):
        one, other = projection(1, 0, 40, 25), projection(2, 0, 40, 25)
        assert np.array_equal(one, projection(1, 0, 40, 25))
        assert not np.array_equal(one, other)
        assert not np.array_equal(one, projection(1, 1, 40, 25))
        # Entries of variance 1 / columns: the sum of 1,000 squares has a standard deviation of 25 sqrt(2 / 1000) / 25.
        assert (one**2).sum() / 40 == pytest.approx(1.0, abs=5 * math.sqrt(2 / 1000))

    @pytest.mark.parametrize(
        "bad",
        [
            {"jl_beta": 0}, {"jl_beta": math.nan}, {"jl_beta": 9e-4}, {"jl_beta": 1001.0}, {"jl_beta": True},
            {"jl_dimension": 0}, {"jl_dimension": 1.5}, {"jl_seed": -1}, {"jl_seed": 1.5}, {"jl_seed": True},
            {"low": math.nan}, {"high": -2.0},
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("name", TRANSFORMS)
    def test_parameters_outside_their_domain_are_refused_whatever_the_transform(self, bad, name):
        with pytest.raises(ParameterError, match=next(iter(bad))):
            Transform(name, **bad).check()

    def test_all_problems_are_told_at_once(self):
        with pytest.raises(ParameterError, match=r"low.*jl_beta.*jl_seed.*jl_dimension"):
            Transform("none", low=3.0, jl_beta=0, jl_seed=0.5, jl_dimension=0).check()

    @pytest.mark.parametrize("beta", [1e-3, 1e3])
    def test_the_ends_of_the_range_of_beta_are_in_it(self, beta):
        Transform("jl", jl_beta=beta).check()
        assert least_dimension(1000, beta) >= 1

    @pytest.mark.parametrize(("dimension", "given"), [(1, 1), (1, None), (3, 3), (3, 4)])
    def test_only_fewer_dimensions_are_a_projection(self, dimension, given):
        space = gaussian(30, dimension)
        with pytest.raises(ParameterError, match="jl_dimension"):
            Transform("jl", jl_beta=3.0, jl_dimension=given).apply(space)


class TestCache:
    @pytest.fixture
    def folder(self, tmp_path, monkeypatch):
        monkeypatch.setenv("SFUMATO_CACHE_DIR", str(tmp_path))
        return tmp_path

    @pytest.fixture
    def space(self):
        return gaussian(2100, 4, seed=5)

    @pytest.mark.parametrize(
        "choice",
        [
            Transform("unit-norm"),
            Transform("clip", low=-0.5, high=0.5),
            Transform("jl", jl_dimension=2, jl_beta=4.0, jl_seed=3),
        ],
        ids=lambda choice: choice.name,
    )
    def test_figures_are_computed_once(self, choice, folder, space, monkeypatch):
        once = choice.apply(space)
        files = list(folder.glob("stretch-*.json"))
        assert len(files) == 1
        assert all(isinstance(value, (int, float)) for value in json.loads(files[0].read_text()).values())
        monkeypatch.setattr("sfumato.mechanism.transforms.measure", None)
        again = choice.apply(space)
        assert again.stretch == once.stretch
        assert np.array_equal(again.locations, once.locations)

    def test_other_parameters_and_other_spaces_have_their_own(self, folder, space):
        for high in (0.5, 0.6):
            Transform("clip", high=high).apply(space)
        Transform("clip", high=0.5).apply(gaussian(2100, 4, seed=6))
        assert len(list(folder.glob("stretch-*.json"))) == 3

    @pytest.mark.parametrize(
        "constant", ["NaN", "Infinity", "-3", "0", "true", '"low"', "null", "1" + 400 * "0", "0.5", "0.95"]
    )
    @pytest.mark.parametrize("name", ["clip", "jl"])
    def test_a_damaged_figure_is_computed_again(self, folder, space, name, constant):
        """Also one that is a number, but less than what public pairs show."""
        choice = Transform(name, low=-2.0, high=2.0, jl_dimension=2, jl_beta=4.0)
        once = choice.apply(space).stretch
        file = next(folder.glob("stretch-*.json"))
        whole = file.read_text()
        damaged = re.sub(r'"constant": [^,]*', f'"constant": {constant}', whole)
        assert damaged != whole
        file.write_text(damaged)
        assert choice.apply(space).stretch == once
        assert file.read_text() == whole

    @pytest.mark.parametrize("attempt", ["-1", "20", "0.5", "1e300", "true"])
    def test_a_damaged_number_of_a_matrix_is_computed_again(self, folder, space, attempt):
        choice = Transform("jl", jl_dimension=2, jl_beta=4.0)
        once = choice.apply(space)
        file = next(folder.glob("stretch-*.json"))
        file.write_text(re.sub(r'"attempt": [^,}]*', f'"attempt": {attempt}', file.read_text()))
        again = choice.apply(space)
        assert np.array_equal(again.points, once.points)

    @pytest.mark.parametrize("content", ["{}", "[]", "{", '{"constant": 1.5}', '{"constant": 1.5, "other": 1}'])
    def test_a_damaged_file_is_computed_again(self, folder, space, content):
        once = Transform("unit-norm").apply(space).stretch
        next(folder.glob("stretch-*.json")).write_text(content)
        assert Transform("unit-norm").apply(space).stretch == once

    def test_matrices_of_two_seeds_have_a_file_each(self, folder, space):
        """Each constant is that of its own matrix, whichever was asked for first."""
        stretches = {}
        for seed in (3, 4, 3, 4):
            image = Transform("jl", jl_dimension=2, jl_beta=4.0, jl_seed=seed).apply(space)
            assert stretches.setdefault(seed, image.stretch) == image.stretch
        assert len(list(folder.glob("stretch-*.json"))) == 2
        assert stretches[3].constant != stretches[4].constant
        alone = [measure(space, space.centred @ projection(seed, 0, 4, 2)).constant for seed in (3, 4)]
        assert [stretches[3].constant, stretches[4].constant] == alone

    def test_small_spaces_are_not_kept(self, folder):
        Transform("unit-norm").apply(gaussian())
        assert not list(folder.glob("stretch-*"))
