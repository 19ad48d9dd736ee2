import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato
from sfumato.foundation.errors import ParameterError
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism import artifact, rowstore
from sfumato.mechanism.marks import cells_by_marks, marks_of
from sfumato.space import Space

WEIGHTS = st.lists(st.one_of(st.just(0), st.integers(0, 3), st.integers(0, 2**57)), min_size=16, max_size=16)


@settings(max_examples=300)
@given(WEIGHTS.filter(any), st.data())
def test_what_marks_call_sure_is_the_cell_the_number_falls_on(weights, data):
    """Numbers next to every running sum, where a rounded comparison would err first, and any others."""
    sums = np.cumsum(np.array(weights, dtype=object))
    total = int(sums[-1])
    numbers = {int(s) + step for s in sums for step in (-1, 0, 1)} | {data.draw(st.integers(0, total - 1))}
    numbers = np.array(sorted(number for number in numbers if 0 <= number < total), dtype=np.uint64)
    marks = marks_of(np.tile(np.array(weights, dtype=np.uint64), (len(numbers), 1)))
    cells, sure = cells_by_marks(marks, numbers, np.full(len(numbers), total, dtype=np.uint64))
    right = np.array([next(k for k, s in enumerate(sums) if s > int(number)) for number in numbers])
    assert (cells[sure] == right[sure]).all()


def test_marks_are_nearly_always_sure():
    rng = np.random.default_rng(0)
    weights = rng.integers(2**40, 2**44, (20_000, 16)).astype(np.uint64)
    totals = weights.sum(axis=1, dtype=np.uint64)
    sure = cells_by_marks(marks_of(weights), (rng.random(20_000) * totals).astype(np.uint64), totals)[1]
    assert 0.998 < sure.mean() < 1


@pytest.fixture(scope="module")
def space():
    vectors = np.random.default_rng(7).integers(-40, 40, (1203, 8)).astype(np.int8)
    return Space.from_arrays([f"w{i}" for i in range(1203)], vectors)


def test_draws_are_the_same_with_marks_and_without(space, monkeypatch):
    ids = np.random.default_rng(1).integers(-1, 1203, 60_000)
    with_marks = sfumato.compile("tem", space, epsilon=0.05, tuning="published")
    drawn = with_marks.sample(ids, RunKey.from_seed(1).record(0))
    rows = with_marks._store._rows
    assert len(rows.marks) == len(rows.tail_sums) > 0
    monkeypatch.setattr(rowstore.RowStore, "_split", lambda self, missing, table: iter([(missing, False)]))
    without = sfumato.compile("tem", space, epsilon=0.05, tuning="published")
    assert np.array_equal(without.sample(ids, RunKey.from_seed(1).record(0)), drawn)
    assert len(without._store._rows.marks) == 0


def test_where_memory_is_short_the_first_rows_stay_and_draws_are_the_same(space):
    key = RunKey.from_seed(2)
    every = np.arange(1203)
    expected = sfumato.compile("tem", space, epsilon=0.05, tuning="published").sample(every, key.record(0))
    memory = 200_000
    little = sfumato.compile("tem", space, epsilon=0.05, tuning="published", row_memory=memory)
    largest = 0
    for _ in range(2):
        for at in range(0, 1203, 40):
            little.sample(every[at : at + 40], key.record(1))
            largest = max(largest, rowstore._sizes(little._store._rows)[-1])
        assert np.array_equal(little.sample(every, key.record(0)), expected)
    rows = little._store._rows
    marked = int(np.searchsorted(rows.tail_starts, len(rows.marks)))
    assert 0 < marked < len(rows.totals)
    assert np.array_equal(rows.slot[:marked], np.arange(marked))
    assert largest < 2 * memory


def test_a_snapshot_stays_as_it_is_while_rows_are_added(space):
    mechanism = sfumato.compile("tem", space, epsilon=0.05, tuning="published")
    before = mechanism._store.rows(np.arange(30), mechanism)
    copies = {name: getattr(before, name).copy() for name in rowstore._GROWING}
    for at in range(30, 600, 50):
        mechanism._store.rows(np.arange(at, at + 50), mechanism)
    assert all(np.array_equal(getattr(before, name), copies[name]) for name in copies)
    after = mechanism._store._rows
    assert all(np.array_equal(getattr(after, name)[: len(copies[name])], copies[name]) for name in copies)


def test_a_file_holds_marks_of_the_first_rows_and_gives_the_same_draws(space, tmp_path):
    mechanism = sfumato.compile("tem", space, epsilon=0.05, tuning="published")
    artifact.save(mechanism, tmp_path / "m.sfm", row_bytes=2_000_000)
    mapped = artifact.load(tmp_path / "m.sfm")
    assert 0 < len(mapped._store._mapped.marks) < len(mapped._store._mapped.tail_sums)
    ids = np.random.default_rng(1).integers(-1, 1203, 20_000)
    key = RunKey.from_seed(1)
    assert np.array_equal(mapped.sample(ids, key.record(0)), mechanism.sample(ids, key.record(0)))


def test_cells_are_shared_only_where_the_table_says_so(space):
    tem = sfumato.compile("tem", space, epsilon=0.05, tuning="published")
    assert tem.compile_rows(np.array([3])).shared
    assert len(rowstore.pack_rows(np.array([3]), tem, with_marks=True).marks) > 0
    plus = sfumato.compile("santext-plus", space, epsilon=0.05)
    assert not plus.compile_rows(np.array([3])).shared
    assert len(rowstore.pack_rows(np.array([3]), plus, with_marks=True).marks) == 0
    weights = np.ones((2, 3), dtype=np.uint64)
    for cells, shared in ((np.zeros((1, 3), dtype=int), False), (np.zeros((2, 3), dtype=int), True)):
        with pytest.raises(ParameterError, match="shared=True"):
            rowstore.CompiledRows(cells, weights, np.zeros(2), shared=shared)


def test_marks_behind_rows_without_any_are_not_taken_for_those_of_the_first_rows(space):
    tem = sfumato.compile("tem", space, epsilon=0.05, tuning="published")
    growing = rowstore._growing(rowstore._no_rows(1203))
    rowstore._append_rows(growing, np.arange(3), tem, True)
    rowstore._append_rows(growing, np.arange(3, 5), tem, False)
    with pytest.raises(AssertionError, match="first rows"):
        rowstore._append_rows(growing, np.arange(5, 7), tem, True)


def test_marks_of_rows_with_other_cells_are_not_kept_together(space):
    every, some = (
        sfumato.compile("tem", space, epsilon=0.05, tuning="published", outputs=words)
        for words in (space.words[1:], space.words[:-1])
    )
    growing = rowstore._growing(rowstore._no_rows(1203))
    rowstore._append_rows(growing, np.arange(3), every, True)
    with pytest.raises(AssertionError, match="share their cells"):
        rowstore._append_rows(growing, np.arange(3, 5), some, True)
