import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from sfumato.foundation.randomness import RunKey, SystemSource
from sfumato.mechanism import noise

CONFIDENCE = 1e-6
"""Chance that right noise fails one test; the keys are fixed, so a pass stays a pass."""
NUMBERS = st.integers(0, 2**64 - 1)


def numbers(count, each, seed=0):
    return noise.expand(noise.keys_of_draws(RunKey.from_seed(seed).record(0), count), each)


def from_tail(values):
    """What a number stands for, in exact arithmetic: (tail probability, upper end)."""
    return [((value // 2 + 0.5) / 2**64, value % 2 == 1) for value in values]


def test_normals_are_normal():
    assert stats.kstest(noise.normals(numbers(20_000, 10)).ravel(), "norm").pvalue > CONFIDENCE


@pytest.mark.parametrize("dimension", [1, 2, 3, 50, 128, 300])
def test_lengths_follow_the_gamma_distribution(dimension):
    drawn = noise.lengths(numbers(50_000, 1)[:, 0], dimension)
    assert stats.kstest(drawn, stats.gamma(dimension).cdf).pvalue > CONFIDENCE


@pytest.mark.parametrize("dimension", [1, 3, 128, 300])
def test_lengths_are_accurate_far_out_on_both_ends(dimension):
    ends = np.array([0, 1, 2, 3, 2**20, 2**20 + 1, 2**50, 2**50 + 1, 2**64 - 2, 2**64 - 1], dtype=np.uint64)
    for length, (tail, upper) in zip(noise.lengths(ends, dimension), from_tail(ends.tolist()), strict=True):
        found = special.gammaincc(dimension, length) if upper else special.gammainc(dimension, length)
        assert found == pytest.approx(tail, rel=1e-9)


@pytest.mark.parametrize("dimension", [2, 3, 128])
def test_directions_are_uniform_on_the_sphere(dimension):
    drawn = noise.directions(numbers(50_000, dimension))
    assert (drawn * drawn).sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    axes = np.random.default_rng(0).normal(size=(3, dimension))
    for axis in np.vstack([np.eye(dimension)[:2], axes / np.linalg.norm(axes, axis=1)[:, None]]):
        along = drawn @ axis  # its square has a beta distribution, and both signs are equally likely
        assert stats.kstest(along**2, stats.beta(0.5, (dimension - 1) / 2).cdf).pvalue > CONFIDENCE
        assert stats.binomtest(int((along > 0).sum()), len(along)).pvalue > CONFIDENCE


def test_a_direction_in_one_dimension_is_a_sign():
    drawn = noise.directions(numbers(20_000, 1))
    assert set(drawn.ravel().tolist()) == {-1.0, 1.0}
    assert stats.binomtest(int((drawn > 0).sum()), len(drawn)).pvalue > CONFIDENCE


@pytest.mark.parametrize("dimension", [1, 3, 128])
def test_every_component_has_the_right_variance(dimension):
    """E r**2 / d = d + 1: a standard deviation passed as a variance, or the reverse, is far from it."""
    drawn = noise.noise(numbers(40_000, dimension + 1))
    squares = (drawn * drawn).sum(axis=1) / dimension
    error = stats.norm.isf(CONFIDENCE / 2) * squares.std() / math.sqrt(len(squares))
    assert abs(squares.mean() - (dimension + 1)) < error
    assert error < 0.15 * (dimension + 1)


def test_length_and_direction_are_independent():
    drawn = noise.noise(numbers(50_000, 4))
    long = np.linalg.norm(drawn, axis=1) > special.gammaincinv(3, 0.5)
    table = [[int((long & (drawn[:, 0] > 0)).sum()), int((long & (drawn[:, 0] <= 0)).sum())]]
    table.append([int((~long & (drawn[:, 0] > 0)).sum()), int((~long & (drawn[:, 0] <= 0)).sum())])
    assert stats.chi2_contingency(table).pvalue > CONFIDENCE


def test_no_two_draws_share_their_noise():
    drawn = noise.noise(numbers(5000, 4))
    assert len(np.unique(drawn, axis=0)) == 5000
    correlations = np.corrcoef(drawn[:-1].ravel(), drawn[1:].ravel())[0, 1]
    assert abs(correlations) < stats.norm.isf(CONFIDENCE / 2) / math.sqrt(3 * 4999)


@given(st.lists(NUMBERS, min_size=1, max_size=20))
def test_any_integers_give_finite_noise(values):
    values = np.array(values, dtype=np.uint64)
    assert np.isfinite(noise.normals(values)).all()
    assert (noise.normals(values) != 0).all()
    assert (noise.lengths(values, 128) > 0).all()
    assert np.isfinite(noise.lengths(values, 1)).all()
    assert ((noise.unit_interval(values) >= 0) & (noise.unit_interval(values) < 1)).all()
    row = np.array([[*values, 0]], dtype=np.uint64)
    assert np.isfinite(noise.noise(row)).all()


@given(NUMBERS, st.integers(1, 2**31))
def test_below_is_the_whole_part_of_the_product(number, bound):
    assert noise.below(np.array([number], dtype=np.uint64), bound).tolist() == [number * bound // 2**64]


def test_a_batch_of_records_gets_what_each_would_get_alone():
    key = RunKey.from_seed(3)
    together = noise.keys_of_draws(key.records([4, 9], [3, 5]), 8)
    alone = [noise.keys_of_draws(key.record(4), 3), noise.keys_of_draws(key.record(9), 5)]
    assert np.array_equal(together, np.vstack(alone))
    whole = noise.noise(noise.expand(together, 129))
    parts = [noise.noise(noise.expand(row[None, :], 129)) for row in together]
    assert np.array_equal(whole, np.vstack(parts))


def test_an_expanded_key_does_not_depend_on_how_much_is_asked_for():
    keys = noise.keys_of_draws(RunKey.from_seed(3).record(0), 3)
    assert np.array_equal(noise.expand(keys, 300)[:, :7], noise.expand(keys, 7))


def test_the_system_source_never_repeats_itself():
    one, other = (noise.keys_of_draws(SystemSource(), 4) for _ in range(2))
    assert not (one == other).any()


def test_nothing_to_draw():
    assert noise.expand(noise.keys_of_draws(SystemSource(), 0), 5).shape == (0, 5)
    assert noise.noise(np.empty((0, 5), dtype=np.uint64)).shape == (0, 4)
