"""Clipping bounds the distance of any two vectors by 2 C, whatever comes in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sfumato.foundation.errors import DataError, ParameterError
from sfumato.latent.vectors import NORMS, choose_clip, clip, greatest_distance, norms, pair_features, paired

ANY_VECTORS = arrays.arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.integers(1, 9)),
    elements=st.floats(allow_nan=False, allow_infinity=False, width=64),
)
BOUNDS = st.floats(1e-6, 1e6)


@given(ANY_VECTORS, BOUNDS, st.sampled_from(NORMS))
def test_no_two_clipped_vectors_are_further_apart_than_the_declared_sensitivity(
    vectors: np.ndarray, bound: float, norm: str
) -> None:
    both = np.concatenate([vectors, -vectors])
    with np.errstate(over="ignore"):
        clipped = clip(both, bound, norm)
    assert norms(clipped, norm).max() <= bound
    assert greatest_distance(clipped, norm) <= 2 * bound


def test_the_sensitivity_is_reached_so_it_cannot_be_c() -> None:
    clipped = clip([[5.0, 0.0], [-5.0, 0.0]], 1.0)
    assert greatest_distance(clipped) > 2 * (1 - 1e-11)


@given(ANY_VECTORS, st.sampled_from(NORMS))
def test_short_vectors_and_directions_stay(vectors: np.ndarray, norm: str) -> None:
    small = vectors / (np.abs(vectors).max() + 1.0) / vectors.shape[1]
    assert (clip(small, 1.1, norm) == small).all()
    doubled = clip(small * 8, 1.0, norm)
    assert ((doubled == 0) | (np.sign(doubled) == np.sign(small))).all()


def test_tiny_and_huge_numbers_neither_vanish_nor_overflow() -> None:
    assert norms([[3e-200, 4e-200], [3e200, 4e200]]) == pytest.approx([5e-200, 5e200], rel=1e-12)
    assert norms(clip([[3e200, 4e200]], 2.0)) == pytest.approx([2.0], rel=1e-11)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_named_by_its_place(bad: float) -> None:
    with pytest.raises(DataError, match="vector 1 is not finite"):
        clip([[1.0, 2.0], [bad, 0.0]], 1.0)


def test_the_clipping_norm_is_a_quantile_of_public_norms() -> None:
    public = np.random.default_rng(5).normal(size=(400, 3))
    chosen = choose_clip(public, share=0.25)
    assert abs((norms(public) <= chosen).mean() - 0.25) < 0.01
    with pytest.raises(DataError, match="there are none"):
        choose_clip(np.empty((0, 3)))
    with pytest.raises(DataError, match="clipping norm would be 0"):
        choose_clip(np.zeros((3, 3)))
    with pytest.raises(ParameterError, match="share"):
        choose_clip(public, share=1.0)


def test_a_pair_is_clipped_as_one_record() -> None:
    pair = paired([[3.0, 0.0]], [[0.0, 4.0]])
    assert norms(clip(pair, 1.0))[0] == pytest.approx(1.0, rel=1e-11)
    assert pair_features([[1.0, 2.0, 3.0, 5.0]]).tolist() == [[1, 2, 3, 5, 2, 3, 3, 10]]
    with pytest.raises(DataError, match="one size"):
        paired([[1.0]], [[1.0, 2.0]])
