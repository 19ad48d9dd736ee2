import dataclasses
import math
import pickle
from itertools import pairwise

import numpy as np
import pytest
from scipy import special, stats

import sfumato
from sfumato.foundation.errors import CertificationError, ParameterError
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism.base import UNKNOWN
from sfumato.mechanism.laplace import laplace, vickrey
from sfumato.mechanism.stretch import Stretch
from sfumato.mechanism.transforms import TRANSFORMS
from sfumato.mechanism.vector import NoiseField, Settings, compile_vector, first_probability
from sfumato.space import Space

CONFIDENCE = 1e-6
"""Chance that a right sampler fails one test; the keys are fixed, so a pass stays a pass."""
TRANSFORM_OPTIONS = {name: {} for name in TRANSFORMS} | {"jl": {"jl_beta": 2.0, "jl_dimension": 4}}


def words(count):
    return [f"w{i}" for i in range(count)]


@pytest.fixture(scope="module")
def space():
    return Space.from_arrays(words(100), np.random.default_rng(0).normal(size=(100, 6)))


@pytest.fixture(scope="module")
def line():
    return Space.from_arrays(list("abcde"), [[0.0], [1.0], [2.0], [3.0], [4.0]])


def key(seed=0):
    return RunKey.from_seed(seed).record(0)


def spherical(mechanism, ids, source):
    """The noise that was added to each word, times its rate."""
    start = mechanism.field.locations[mechanism.space.points[ids]]
    return (mechanism.vectors(ids, source) - start) * mechanism.rate


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("noise", ["plain", "calibrated"])
def test_noise_has_the_stated_rate(space, transform, noise):
    mechanism = laplace(space, epsilon=3.0, transform=transform, noise=noise, **TRANSFORM_OPTIONS[transform])
    ids = np.tile(np.arange(100), 200)
    added = spherical(mechanism, ids, key())
    dimension = added.shape[1]
    assert stats.kstest(np.linalg.norm(added, axis=1), stats.gamma(dimension).cdf).pvalue > CONFIDENCE
    constant = mechanism.field.stretch.constant
    assert mechanism.rate == pytest.approx(3.0 if noise == "plain" else 3.0 / constant)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_the_promise_is_the_rate_times_the_constant(space, transform):
    options = TRANSFORM_OPTIONS[transform]
    plain = laplace(space, epsilon=3.0, transform=transform, noise="plain", **options)
    constant = plain.field.stretch.constant
    assert plain.guarantee.certified == pytest.approx(3.0 * constant)
    assert plain.guarantee.epsilon == max(3.0, plain.guarantee.certified)
    calibrated = laplace(space, epsilon=3.0, transform=transform, **options)
    assert calibrated.guarantee.certified == calibrated.guarantee.epsilon == 3.0
    assert calibrated.rate * constant <= 3.0 * (1 + 1e-15)
    for guarantee in (plain.guarantee, calibrated.guarantee):
        assert guarantee.arithmetic == "float64"
        assert guarantee.radius == space.statistics.diameter
        assert "floating point" in guarantee.statement()
        assert ("stretches distances" in guarantee.statement()) == (constant != 1)


def test_the_length_of_the_noise_is_printed_in_typical_neighbour_distances(space):
    median = space.statistics.median_neighbour_distance
    noisy = laplace(space, epsilon=0.1).guarantee.statement()
    assert f"{6 / 0.1:.4g}, {6 / 0.1 / median:.3g} times the median distance" in noisy
    assert "drowns" in noisy
    assert "drowns" not in laplace(space, epsilon=50.0).guarantee.statement()


def test_on_a_line_words_have_the_closed_form(line):
    """In one dimension the noise is the Laplace distribution, and words lie between midpoints.

    Noise on squared distances, a wrong rate, or an excluded input would each show here.
    """
    epsilon, draws = 1.5, 200_000
    mechanism = laplace(line, epsilon=epsilon)
    edges = np.array([-np.inf, 0.5, 1.5, 2.5, 3.5, np.inf])
    for word in range(5):
        expected = np.diff(stats.laplace(word, 1 / epsilon).cdf(edges))
        counts = np.bincount(mechanism.sample(np.full(draws, word), key(word)), minlength=5)
        assert stats.chisquare(counts, expected * draws).pvalue > CONFIDENCE


@pytest.mark.parametrize("t", [0.0, 0.3, 0.75, 1.0])
def test_vickrey_takes_each_of_the_two_nearest_with_its_chance(line, t):
    """Integrated over the noise: from word 2, cell by cell of the (first, second) nearest."""
    epsilon, draws = 1.5, 200_000
    mechanism = vickrey(line, epsilon=epsilon, t=t)
    expected = np.zeros(5)
    grid = np.linspace(-20, 24, 440_001)
    middles = (grid[1:] + grid[:-1]) / 2
    masses = np.diff(stats.laplace(2, 1 / epsilon).cdf(grid))
    order = np.argsort(np.abs(middles[:, None] - np.arange(5.0)), axis=1, kind="stable")[:, :2]
    near = np.abs(middles[:, None] - order)
    chance = (1 - t) * near[:, 1] / (t * near[:, 0] + (1 - t) * near[:, 1])
    np.add.at(expected, order[:, 0], masses * chance)
    np.add.at(expected, order[:, 1], masses * (1 - chance))
    counts = np.bincount(mechanism.sample(np.full(draws, 2), key(1)), minlength=5)
    assert stats.chisquare(counts, expected / expected.sum() * draws).pvalue > CONFIDENCE


def test_vickrey_with_t_0_is_the_nearest_word(space):
    ids = np.tile(np.arange(100), 20)
    assert np.array_equal(
        vickrey(space, epsilon=2.0, t=0.0).sample(ids, key()), laplace(space, epsilon=2.0).sample(ids, key())
    )


def test_the_choice_between_two_words():
    zeros = np.zeros(1)
    assert first_probability(zeros, zeros, 0.5) == 1  # 0 / 0: the first
    assert first_probability(zeros, np.ones(1), 1.0) == 1
    assert first_probability(np.ones(1), np.ones(1), 0.3) == pytest.approx(0.7)
    assert first_probability(np.ones(1), np.ones(1), 1.0) == 0


def test_twins_are_the_two_nearest_words():
    """Words on one point are equally near: the first is taken with probability 1 - t."""
    space = Space.from_arrays(words(4), [[0.0], [0.0], [0.0], [9.0]])
    drawn = vickrey(space, epsilon=20.0, t=0.3).sample(np.zeros(50_000, dtype=int), key())
    counts = np.bincount(drawn, minlength=4)
    assert counts[2] == counts[3] == 0
    assert stats.binomtest(int(counts[1]), 50_000, 0.3).pvalue > CONFIDENCE


def test_observed_range_draws_what_min_max_draws_at_a_scaled_epsilon(space):
    half = float(space.vectors.max() - space.vectors.min()) / 2
    ids = np.tile(np.arange(100), 20)
    one = laplace(space, epsilon=2.0, transform="observed-range", noise="plain")
    other = laplace(space, epsilon=2.0 * half, transform="min-max", noise="plain")
    assert one.guarantee.certified == pytest.approx(other.guarantee.certified)
    assert np.array_equal(one.sample(ids, key()), other.sample(ids, key()))


class TestDecodingIsPostProcessing:
    """What comes out is a function of the noisy vector and public data."""

    @pytest.mark.parametrize("mapping", ["nearest", "vickrey"])
    def test_words_are_those_of_the_vectors(self, space, mapping):
        mechanism = laplace(space, epsilon=2.0, mapping=mapping)
        ids = np.tile(np.arange(100), 20)
        vectors = mechanism.vectors(ids, key())
        numbers = np.concatenate([numbers for _, _, numbers in mechanism._draws(ids, key())])
        decoded = mechanism.decode(vectors, numbers[:, -1])
        assert np.array_equal(decoded, mechanism.sample(ids, key()))
        order = np.argsort(np.linalg.norm(vectors[:, None] - space.vectors[None], axis=2), axis=1)
        if mapping == "nearest":
            assert np.array_equal(decoded, order[:, 0])
        else:
            assert ((decoded == order[:, 0]) | (decoded == order[:, 1])).all()

    def test_the_input_is_not_excluded(self, space):
        ids = np.arange(100)
        assert np.array_equal(laplace(space, epsilon=1e4).sample(ids, key()), ids)

    def test_any_word_can_come_out_for_any(self, space):
        """No list of candidates is taken from the true word."""
        drawn = laplace(space, epsilon=0.5).sample(np.zeros(60_000, dtype=int), key())
        assert len(np.unique(drawn)) == 100

    def test_private_words_are_not_in_the_index(self, space):
        mechanism = laplace(space, epsilon=5.0, inputs=space.words[:50], outputs=space.words[50:])
        assert mechanism.sample(np.tile(np.arange(100), 50), key()).min() >= 50
        assert len(mechanism.targets.points) == 50


class TestUnknownWords:
    @pytest.mark.parametrize("mapping", ["nearest", "vickrey"])
    def test_they_are_drawn_uniformly(self, space, mapping):
        drawn = laplace(space, epsilon=9.0, mapping=mapping).sample(np.full(100_000, UNKNOWN), key())
        assert stats.chisquare(np.bincount(drawn, minlength=100)).pvalue > CONFIDENCE

    def test_words_that_are_not_inputs_are_unknown_too(self, space):
        mechanism = laplace(space, epsilon=1e4, inputs=space.words[:50])
        assert np.array_equal(mechanism.sample(np.arange(50), key()), np.arange(50))
        drawn = mechanism.sample(np.full(50_000, 70), key())
        assert stats.chisquare(np.bincount(drawn, minlength=100)).pvalue > CONFIDENCE

    @pytest.mark.parametrize(("mapping", "reachable"), [("nearest", {0, 3}), ("vickrey", {0, 1, 3})])
    def test_they_come_out_as_what_known_words_come_out_as(self, mapping, reachable):
        """The third word of a point is never drawn for a known word, so it must not be for an unknown one."""
        space = Space.from_arrays(words(4), [[0.0], [0.0], [0.0], [1.0]])
        mechanism = laplace(space, epsilon=1.0, mapping=mapping)
        assert set(mechanism.sample(np.full(500, UNKNOWN), key()).tolist()) == reachable
        assert set(mechanism.sample(np.tile(np.arange(4), 500), key()).tolist()) == reachable

    def test_their_vectors_are_those_of_a_uniform_input(self, line):
        mechanism = laplace(line, epsilon=2.0, mapping="none")
        drawn = mechanism.vectors(np.full(50_000, UNKNOWN), key())[:, 0]

        def mixture(x):
            return np.mean([stats.laplace(centre, 0.5).cdf(x) for centre in range(5)], axis=0)

        assert stats.kstest(drawn, mixture).pvalue > CONFIDENCE


def test_without_mapping_there_are_vectors_only(space):
    mechanism = laplace(space, epsilon=2.0, mapping="none")
    ids = np.arange(100)
    assert np.array_equal(mechanism.vectors(ids, key()), laplace(space, epsilon=2.0).vectors(ids, key()))
    with pytest.raises(ParameterError, match="vectors"):
        mechanism.sample(ids, key())


@pytest.mark.parametrize(
    "bad", [np.array([100]), np.array([-2]), np.array([0.5]), np.array([[1]]), np.array([True]), [0]]
)
def test_ids_that_are_no_positions_are_refused(space, bad):
    mechanism = laplace(space, epsilon=2.0)
    for give in (mechanism.vectors, mechanism.sample):
        with pytest.raises(ParameterError, match="ids"):
            give(bad, key())


@pytest.mark.parametrize("constant", [math.nan, math.inf, -1.0])
def test_a_constant_that_no_map_has_is_not_certified(space, constant):
    settings = Settings(2.0, "calibrated", "nearest", 0.5, "exact", 32, None, None)
    field = NoiseField(space.centred, Stretch(constant, 1.0))
    with pytest.raises(CertificationError, match="stretches distances by"):
        compile_vector("laplace", space, settings, field, [])


def test_vectors_lie_about_their_words_far_from_the_origin():
    """What is taken away before the noise is there again in what comes out."""
    vectors = np.random.default_rng(3).normal(size=(20, 3)) + np.array([1e6, -2e6, 0.0])
    far = Space.from_arrays(words(20), vectors)
    for transform in ("none", "jl", "clip", "unit-ball"):
        mechanism = laplace(far, epsilon=2e4, transform=transform, low=-1e7, high=1e7, jl_beta=3.0, jl_dimension=2)
        drawn = mechanism.vectors(np.arange(20), key())
        assert np.abs(drawn - mechanism.field.locations[far.points]).max() < 0.01
        if transform in ("none", "clip"):
            assert np.abs(drawn - vectors).max() < 0.01
    assert np.array_equal(laplace(far, epsilon=2e4).sample(np.arange(20), key()), np.arange(20))


def test_every_position_has_its_own_noise(space):
    added = spherical(laplace(space, epsilon=2.0), np.zeros(3000, dtype=int), key())
    assert len(np.unique(added, axis=0)) == 3000


def test_a_smaller_epsilon_gives_more_noise(space):
    lengths = [
        np.linalg.norm(spherical(m, np.arange(100), key()) / m.rate, axis=1)
        for m in (laplace(space, epsilon=e) for e in (0.01, 0.1, 1.0, 10.0, 100.0))
    ]
    assert all((more > less).all() for more, less in pairwise(lengths))


def test_a_batch_draws_what_its_records_draw_alone(space):
    mechanism = laplace(space, epsilon=2.0, mapping="vickrey")
    ids = np.random.default_rng(0).integers(-1, 100, 3000)
    counts = [1, 1000, 0, 1500, 499]
    run = RunKey.from_seed(5)
    together = mechanism.sample(ids, run.records(range(5), counts))
    parts = np.split(ids, np.cumsum(counts)[:-1])
    alone = [mechanism.sample(part, run.record(number)) for number, part in enumerate(parts)]
    assert np.array_equal(together, np.concatenate(alone))


def test_transforms_are_exact_at_the_ends_of_the_scale(space):
    """Vectors of any size, and noise of any length that can be represented."""
    for scale in (1e-30, 1e-6, 1e6, 1e30):
        scaled = Space.from_arrays(space.words, space.vectors * scale)
        mechanism = laplace(scaled, epsilon=min(1e6, 2.0 / scale))
        drawn = mechanism.sample(np.arange(100), key())
        assert np.isfinite(mechanism.vectors(np.arange(100), key())).all()
        if 2.0 / scale <= 1e6:
            assert np.array_equal(drawn, laplace(space, epsilon=2.0).sample(np.arange(100), key()))
    assert len(laplace(space, epsilon=1e-60).sample(np.arange(100), key())) == 100
    with pytest.raises(ParameterError, match="epsilon"):
        laplace(space, epsilon=1e-200)


def test_a_metric_that_is_not_euclidean_is_refused(space):
    angles = Space.from_arrays(space.words, space.vectors, metric="angle")

    def own(a, b):
        return np.abs(a[:, None, 0] - b[None, :, 0])

    for other in (angles, Space.from_arrays(space.words, space.vectors, metric=own)):
        with pytest.raises(ParameterError, match="tem"):
            laplace(other, epsilon=1.0)


@pytest.mark.parametrize(
    "bad",
    [
        {"t": math.nan}, {"t": -0.1}, {"t": 1.1}, {"probes": 0}, {"noise": "none"}, {"mapping": "far"},
        {"decoding": "quick"}, {"transform": "tanh"}, {"epsilon": math.nan}, {"transform": "clip", "low": math.nan},
    ],
)  # fmt: skip
def test_options_outside_their_domain_are_refused(space, bad):
    with pytest.raises(ParameterError, match=list(bad)[-1]):
        laplace(space, **{"epsilon": 1.0, **bad})


def test_all_problems_are_told_at_once(space):
    with pytest.raises(ParameterError, match=r"epsilon.*mapping.*transform"):
        laplace(space, epsilon=0.0, mapping="far", transform="tanh")


def test_a_mechanism_is_read_only_and_pickles(space):
    mechanism = laplace(space, epsilon=2.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.rate = 9.0
    with pytest.raises(ValueError, match="read-only"):
        mechanism.inputs[0] = 3
    thawed = pickle.loads(pickle.dumps(mechanism))
    ids = np.arange(100)
    assert np.array_equal(thawed.sample(ids, key()), mechanism.sample(ids, key()))


def test_approximate_decoding_states_its_recall(space):
    pytest.importorskip("faiss", reason="the extra 'ann' is not installed")
    big = Space.from_arrays(words(3000), np.random.default_rng(1).normal(size=(3000, 20)))
    exact = sfumato.compile("laplace", big, epsilon=10.0)
    assert exact.recall is None
    few, many = (sfumato.compile("laplace", big, epsilon=10.0, decoding="approximate", probes=p) for p in (1, 1000))
    assert 0.1 < few.recall < 0.95
    assert many.recall == 1.0
    assert f"{few.recall:.1%} came out as the nearest word" in few.guarantee.statement()
    assert few.guarantee.certified == exact.guarantee.certified
    ids = np.arange(3000)
    agree = np.mean(few.sample(ids, key()) == exact.sample(ids, key()))
    # Both are estimates of one share, from 500 and 3,000 draws.
    assert abs(agree - few.recall) < 5 * math.sqrt(0.25 / 500 + 0.25 / 3000)
    assert np.array_equal(many.sample(ids, key()), exact.sample(ids, key()))


def test_approximate_decoding_of_two_words_states_how_often_both_are_right():
    pytest.importorskip("faiss", reason="the extra 'ann' is not installed")
    big = Space.from_arrays(words(1000), np.random.default_rng(1).normal(size=(1000, 10)))
    nearest, vickrey_ = (
        laplace(big, epsilon=10.0, decoding="approximate", probes=2, mapping=m) for m in ("nearest", "vickrey")
    )
    assert vickrey_.recall < nearest.recall - 0.05  # the second is missed where the first is found
    assert f"{vickrey_.recall:.1%} were decoded to the two nearest words" in vickrey_.guarantee.statement()
    ids = np.tile(np.arange(1000), 3)
    vectors = vickrey_.vectors(ids, key())
    order = np.argsort(np.linalg.norm(vectors[:, None] - big.vectors[None], axis=2), axis=1)[:, :2]
    found = vickrey_.decoder.nearest(vectors, 2)[0]
    agree = np.mean((vickrey_.targets.first[found] == order).all(axis=1))
    # Both are estimates of one share, from 500 and 3,000 draws.
    assert abs(agree - vickrey_.recall) < 5 * math.sqrt(0.25 / 500 + 0.25 / 3000)


def test_twins_need_no_second_place():
    """Words on one point are the two nearest: approximate decoding is right where it finds that point."""
    pytest.importorskip("faiss", reason="the extra 'ann' is not installed")
    vectors = np.random.default_rng(1).normal(size=(500, 10))
    pairs = Space.from_arrays(words(1000), np.vstack([vectors, vectors]))
    options = {"epsilon": 10.0, "decoding": "approximate", "probes": 1}
    assert vickrey(pairs, **options).recall == laplace(pairs, **options).recall


@pytest.mark.parametrize("t", [0.5, 1.0])
def test_of_two_words_approximate_decoding_finds_both(t):
    pytest.importorskip("faiss", reason="the extra 'ann' is not installed")
    two = Space.from_arrays(["one", "two"], [[0.0, 0.0], [1.0, 0.0]])
    ids = np.tile([0, 1], 500)
    approximate = vickrey(two, epsilon=50.0, t=t, decoding="approximate", probes=1)
    assert np.array_equal(approximate.sample(ids, key()), vickrey(two, epsilon=50.0, t=t).sample(ids, key()))


def test_the_quantile_of_the_noise_length(line):
    """The chance to leave a ball of radius r around the word is Q(dimension, epsilon r)."""
    space = Space.from_arrays(words(3), np.random.default_rng(0).normal(size=(3, 3)))
    mechanism = laplace(space, epsilon=2.0, mapping="none")
    ids = np.zeros(100_000, dtype=int)
    beyond = np.linalg.norm(spherical(mechanism, ids, key()) / 2.0, axis=1) > 3
    assert stats.binomtest(int(beyond.sum()), len(ids), special.gammaincc(3, 6)).pvalue > CONFIDENCE
