import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sfumato.foundation.errors import ParameterError
from sfumato.mechanism.integers import LARGEST_TOTAL, LEAST_WEIGHT, rounding_loss, to_weights

ROWS = arrays(np.float64, st.tuples(st.integers(1, 3), st.integers(1, 40)), elements=st.floats(1e-300, 1e6))


@given(ROWS)
def test_no_cell_is_empty_and_no_total_passes_two_to_the_63(kernel):
    weights = to_weights(kernel.copy())
    assert (weights >= LEAST_WEIGHT).all()
    for row in weights:
        assert sum(map(int, row)) <= LARGEST_TOTAL


@given(ROWS)
def test_weights_are_the_probabilities_but_for_the_stated_loss(kernel):
    weights = to_weights(kernel.copy())
    for real, row in zip(kernel, weights, strict=True):
        total, mass = sum(map(int, row)), sum(map(Fraction, real.tolist()))
        for p, w in zip(real.tolist(), row.tolist(), strict=True):
            loss = math.log(Fraction(w, total)) - math.log(Fraction(p) / mass) if w > LEAST_WEIGHT else 0.0
            assert abs(loss) <= rounding_loss(len(row)) + 1e-12


@given(arrays(np.float64, st.tuples(st.just(2), st.integers(2, 20)), elements=st.floats(1e-30, 1)))
def test_rounding_adds_at_most_the_stated_loss_to_any_log_ratio(kernel):
    weights = to_weights(kernel.copy()).astype(object)
    masses = [sum(map(Fraction, row.tolist())) for row in kernel]
    real = max(Fraction(a) / masses[0] / (Fraction(b) / masses[1]) for a, b in kernel.T.tolist())
    held = max(Fraction(a, sum(weights[0])) / Fraction(b, sum(weights[1])) for a, b in weights.T.tolist())
    assert math.log(held) <= max(0.0, math.log(real)) + rounding_loss(len(kernel[0])) + 1e-12


@pytest.mark.parametrize("bad", [[[0.0, 0.0]], [[np.nan, 1.0]], [[np.inf, 1.0]]])
def test_rows_that_are_no_distribution_are_refused(bad):
    with pytest.raises(ParameterError):
        to_weights(np.array(bad))


def test_the_loss_stays_small_for_the_largest_vocabularies():
    assert rounding_loss(50_000) < 2e-7
    assert rounding_loss(2_200_000) < 5e-6
