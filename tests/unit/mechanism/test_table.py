"""Tables that are given cell by cell: what runs is what was given, or it is refused."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato
from sfumato.foundation.errors import DataError, ParameterError
from sfumato.foundation.guarantee import PureGuarantee
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism.table import DenseTable, StoredTable
from sfumato.space import Space

SPACE = Space.from_arrays(["a", "b"], [[0.0], [1.0]])
CLAIM = PureGuarantee(mechanism="own", epsilon=2.0, certified=2.0)
WRAPPING = np.array([[2**63, 2**63 + 2**62], [2**62, 2**62]], dtype=np.uint64)
"""The sum of the first row, in 64 bits, is 2**62: its second word would never be drawn."""
REFUSED = {
    "a total that wraps around": WRAPPING,
    "a total just above the limit": np.array([[2**62, 2**62 + 1], [1, 1]], dtype=np.uint64),
    "an empty row": np.array([[1, 1], [0, 0]], dtype=np.uint64),
    "negative": np.array([[1, 1], [-1, 5]]),
    "fractions": np.array([[0.5, 0.5], [0.3, 0.7]]),
    "whole floats": np.array([[1.0, 1.0], [1.0, 2.0]]),
    "truths": np.array([[True, True], [True, False]]),
    "objects": np.array([[1, 2**70], [1, 1]], dtype=object),
}


@pytest.mark.parametrize("weights", REFUSED.values(), ids=REFUSED)
def test_weights_that_no_draw_can_be_made_from_are_refused(weights):
    with pytest.raises(ParameterError, match="weights"):
        DenseTable(SPACE, weights, CLAIM)


@pytest.mark.parametrize("weights", REFUSED.values(), ids=REFUSED)
def test_a_stored_table_is_checked_like_one_that_is_given(weights):
    both, shared = np.arange(2), np.empty((0, 2), dtype=np.int32)
    with pytest.raises(DataError, match="weights"):
        StoredTable(SPACE, both, both, CLAIM, shared, weights)


@pytest.mark.parametrize("cells", [[[0, 1], [0, 2]], [[0, -1], [0, 1]], [[0, 1]], [[0], [1]], [[0.0, 1.0], [0.0, 1.0]]])
def test_a_stored_table_whose_cells_do_not_fit_is_refused(cells):
    both = np.arange(2)
    with pytest.raises(DataError, match="does not fit"):
        StoredTable(SPACE, both, both, CLAIM, np.array(cells), np.ones((2, 2), dtype=np.uint64))
    with pytest.raises(DataError, match="does not fit"):
        StoredTable(SPACE, both, both, CLAIM, np.empty((0, 3), dtype=np.int32), np.ones((2, 3), dtype=np.uint64))


@pytest.mark.parametrize("kind", [np.uint64, np.int64, np.uint8, np.int32, ">u8"])
def test_whole_numbers_of_every_type_are_taken(kind):
    table = DenseTable(SPACE, np.array([[3, 1], [1, 3]], dtype=kind), CLAIM)
    assert table.row("a").probability(0) == Fraction(3, 4)
    assert sfumato.verify(table).realised == pytest.approx(np.log(3))


def test_a_total_of_exactly_the_limit_is_drawn_from():
    table = DenseTable(SPACE, np.array([[2**62, 2**62], [2**63 - 1, 1]], dtype=np.uint64), CLAIM)
    drawn = table.sample(np.zeros(10_000, dtype=np.intp), RunKey.from_seed(1).record(0))
    assert 0.45 < drawn.mean() < 0.55


def test_nobody_can_change_a_table_afterwards():
    given_weights = np.array([[3, 1], [1, 3]], dtype=np.uint64)
    base = given_weights.copy()
    view = base[:]
    view.flags.writeable = False
    tables = [DenseTable(SPACE, weights, CLAIM) for weights in (given_weights, view)]
    given_weights[:] = base[:] = 1
    assert [table.row("a").probability(0) for table in tables] == [Fraction(3, 4)] * 2
    with pytest.raises(ValueError, match="read-only"):
        tables[0]._table[0, 0] = 1


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=9))
def test_rows_are_taken_exactly_where_their_total_is_in_range(row):
    space = Space.from_arrays([f"w{i}" for i in range(len(row))], np.arange(len(row))[:, None])
    weights = np.array([row], dtype=np.uint64)
    if 1 <= sum(row) <= 2**63:
        assert DenseTable(space, weights, CLAIM, inputs=["w0"]).row("w0").total == sum(row)
    else:
        with pytest.raises(ParameterError, match="add up to"):
            DenseTable(space, weights, CLAIM, inputs=["w0"])
