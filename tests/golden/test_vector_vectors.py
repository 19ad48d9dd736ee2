"""Figures computed independently (mpmath, 30 digits) for noise on vectors."""

import mpmath
import numpy as np
import pytest
from scipy import stats

from sfumato.foundation.randomness import RunKey
from sfumato.mechanism.laplace import laplace
from sfumato.mechanism.noise import lengths
from sfumato.mechanism.transforms import least_dimension
from sfumato.mechanism.vector import first_probability
from sfumato.space import Space

CONFIDENCE = 1e-6
BEYOND_3 = 0.0619688044167
"""P(|noise| > 3) in 3 dimensions at epsilon 2."""


def test_vickrey():
    assert first_probability(np.array([0.3]), np.array([0.7]), 0.75) == pytest.approx([0.4375], rel=1e-15)


def test_length_of_the_noise():
    with mpmath.workdps(30):
        exact = mpmath.gammainc(3, 6, mpmath.inf, regularized=True)
    assert float(exact) == pytest.approx(BEYOND_3, abs=1e-13)
    # The integer whose tail probability this is gives a length of 3 at epsilon 2, that is 6 at epsilon 1.
    number = 2 * round(float(exact) * 2**64) + 1
    assert lengths(np.array([number], dtype=np.uint64), 3)[0] == pytest.approx(6.0, rel=1e-11)


def test_share_of_long_noise():
    space = Space.from_arrays(["here", "there"], np.eye(2, 3))
    mechanism = laplace(space, epsilon=2.0, mapping="none")
    noisy = mechanism.vectors(np.zeros(400_000, dtype=int), RunKey.from_seed(0).record(0))
    beyond = int((np.linalg.norm(noisy - space.vectors[0], axis=1) > 3).sum())
    assert stats.binomtest(beyond, 400_000, BEYOND_3).pvalue > CONFIDENCE


@pytest.mark.parametrize(("points", "beta"), [(40_000, 0.5), (40_000, 1.0), (2000, 0.3), (2, 1.0)])
def test_least_dimension_of_a_projection(points, beta):
    def fails(dimension):
        with mpmath.workdps(40):
            tail = mpmath.gammainc(
                mpmath.mpf(dimension) / 2, dimension * (1 + mpmath.mpf(beta)) ** 2 / 2, mpmath.inf, regularized=True
            )
            return points * (points - 1) / 2 * tail > 0.05

    found = least_dimension(points, beta)
    assert not fails(found)
    assert all(fails(dimension) for dimension in range(1, found))
