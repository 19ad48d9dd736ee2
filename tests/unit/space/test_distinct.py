import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.space import Space, distinct, metric
from sfumato.space.distinct import distinct_rows

ROWS = st.lists(st.tuples(st.integers(-2, 2), st.integers(-1, 1), st.integers(0, 1)), min_size=1, max_size=40)


def kinds_of(rows):
    return [rows.index(row) for row in rows]


@given(ROWS, st.sampled_from([np.int8, np.int32, np.float64]))
def test_equal_rows_are_of_one_kind(rows, dtype):
    first, kinds = distinct_rows(np.array(rows, dtype=dtype))
    assert first[kinds].tolist() == kinds_of(rows)


@given(ROWS)
def test_rows_whose_sums_agree_are_compared(rows):
    original = distinct._sums
    distinct._sums = lambda array: original(array) % np.uint64(3)
    try:
        first, kinds = distinct_rows(np.array(rows, dtype=np.int32))
    finally:
        distinct._sums = original
    assert first[kinds].tolist() == kinds_of(rows)


@pytest.mark.parametrize("name", ["euclidean", "angle"])
def test_points_held_as_integers_have_the_same_distances(monkeypatch, name):
    vectors = np.random.default_rng(0).normal(size=(900, 7))
    words = [f"w{i}" for i in range(900)]
    usual = Space.from_arrays(words, vectors, metric=name)
    monkeypatch.setattr(metric, "_LARGEST_IN_FLOAT64", 100)
    few = metric.row_blocks
    monkeypatch.setattr(metric, "row_blocks", lambda rows, columns, cells=64: few(rows, columns, min(cells, 64)))
    lean = Space.from_arrays(words, vectors, metric=name)
    assert lean.geometry.points.dtype == np.int32
    some, columns = np.array([3, 5, 899]), np.arange(0, 900, 7)
    assert np.array_equal(lean.distances(some), usual.distances(some))
    assert np.array_equal(lean.distances(some, columns), usual.distances(some, columns))
    assert lean.statistics == usual.statistics
    pairs = np.random.default_rng(1).integers(0, 900, (3, 16))
    if name == "euclidean":
        assert np.array_equal(lean.geometry.squared_to_each(some, pairs), usual.geometry.squared_to_each(some, pairs))
