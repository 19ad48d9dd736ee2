import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.space import Space, closest
from sfumato.space.closest import least_apart


def space_of(vectors):
    return Space.from_arrays([f"w{i}" for i in range(len(vectors))], vectors)


def true_least(space):
    return space.statistics.least_distance / space.geometry.scale


@pytest.mark.parametrize("dimension", [1, 2, 5, 40])
@pytest.mark.parametrize("gap", [1e-4, 0.02, 0.3])
def test_the_bound_is_never_above_the_least_distance_and_finds_a_close_pair(dimension, gap):
    rng = np.random.default_rng(dimension)
    vectors = rng.normal(size=(3000, dimension))
    vectors[1700] = vectors[40] + gap * np.eye(dimension)[0]
    space = space_of(vectors)
    bound, least = least_apart(space.geometry), true_least(space)
    assert 1 <= bound <= least * (1 + 1e-12)
    if dimension == 40:
        assert bound == pytest.approx(least, rel=1e-9) if gap < 0.1 else bound > 0.05 * least


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(-30, 30), st.integers(-3, 3)), min_size=2, max_size=60, unique=True), st.data())
def test_every_pair_that_is_near_shares_a_cell_of_some_grid(rows, data):
    """Without the smallest cells' early stop: pairs at every distance up to the one asked for."""
    points = np.array(rows, dtype=np.float64)
    near = data.draw(st.floats(0.5, 40))
    keys = [closest._cells(points, near, number) for number in range(3)]
    found = {tuple(sorted(pair)) for key in keys for ends in closest._pairs(key) for pair in zip(*ends, strict=True)}
    for one in range(len(rows)):
        for other in range(one):
            if np.linalg.norm(points[one] - points[other]) <= near:
                assert (other, one) in found


def test_many_equal_cells_are_given_up_for_smaller_ones(monkeypatch):
    vectors = np.random.default_rng(0).normal(size=(2000, 3))
    space = space_of(vectors)
    monkeypatch.setattr(closest, "_PAIRS_PER_POINT", 0)
    assert least_apart(space.geometry) <= true_least(space) * (1 + 1e-12)
