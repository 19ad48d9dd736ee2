import math

import numpy as np
import pytest
from scipy import stats

from sfumato.foundation.errors import ParameterError
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism.laplace import laplace
from sfumato.mechanism.mahalanobis import mahalanobis
from sfumato.space import Space

CONFIDENCE = 1e-6
"""Chance that a right sampler fails one test; the keys are fixed, so a pass stays a pass."""


def words(count):
    return [f"w{i}" for i in range(count)]


@pytest.fixture(scope="module")
def space():
    rng = np.random.default_rng(0)
    shape = np.array([[3.0, 0.5, 0.0], [0.0, 1.0, 0.2], [0.0, 0.0, 0.3]])
    return Space.from_arrays(words(80), rng.normal(size=(80, 3)) @ shape + 5.0)


def key(seed=0):
    return RunKey.from_seed(seed).record(0)


def mixed(space, lam):
    """M by its definition: the covariance scaled to a mean variance of 1, mixed with the identity."""
    covariance = np.cov(space.vectors.T, bias=True)
    return lam * covariance / np.mean(np.diag(covariance)) + (1 - lam) * np.eye(space.dimension)


@pytest.mark.parametrize("lam", [0.0, 0.3, 1.0])
def test_noise_has_the_shape_of_the_vocabulary(space, lam):
    mechanism = mahalanobis(space, epsilon=2.0, lam=lam, noise="plain")
    ids = np.tile(np.arange(80), 500)
    added = mechanism.vectors(ids, key()) - space.vectors[ids]
    m = mixed(space, lam)
    lengths = np.sqrt(np.einsum("ij,jk,ik->i", added, np.linalg.inv(m), added))
    assert stats.kstest(lengths * 2.0, stats.gamma(3).cdf).pvalue > CONFIDENCE
    directions = added @ np.linalg.inv(np.linalg.cholesky(m)).T
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    for axis in range(3):
        assert stats.kstest(directions[:, axis] ** 2, stats.beta(0.5, 1).cdf).pvalue > CONFIDENCE
    # E z z' = M d (d + 1) / rate**2 / d
    second = added.T @ added / len(added)
    assert second == pytest.approx(m * 4 / 4, abs=0.05 * np.abs(m).max())


def constant_by_hand(space, lam):
    inverse = np.linalg.inv(mixed(space, lam))
    worst = 0.0
    for one in range(len(space)):
        for other in range(one):
            gap = space.vectors[one] - space.vectors[other]
            worst = max(worst, math.sqrt(gap @ inverse @ gap) / math.sqrt(gap @ gap))
    return worst


@pytest.mark.parametrize("lam", [0.2, 0.7, 1.0])
def test_the_promise_is_converted_to_the_distance_of_the_space(space, lam):
    plain = mahalanobis(space, epsilon=2.0, lam=lam, noise="plain").guarantee
    constant = constant_by_hand(space, lam)
    assert 2.0 * constant <= plain.certified <= 2.0 * constant * (1 + 1e-6)
    assert plain.epsilon == max(plain.certified, 2.0)
    least = np.linalg.eigvalsh(mixed(space, lam)).min()
    assert plain.certified <= 2.0 / math.sqrt(least) * (1 + 1e-8)
    assert "Mahalanobis" in plain.statement()
    assert "do not compare" in plain.statement()
    calibrated = mahalanobis(space, epsilon=2.0, lam=lam)
    assert calibrated.guarantee.certified == calibrated.guarantee.epsilon == 2.0
    assert calibrated.rate == pytest.approx(2.0 / constant, rel=1e-6)


def test_without_the_covariance_it_is_multivariate_laplace(space):
    ids = np.tile(np.arange(80), 20)
    one, other = mahalanobis(space, epsilon=2.0, lam=0.0), laplace(space, epsilon=2.0)
    assert one.guarantee.certified == other.guarantee.certified
    assert np.array_equal(one.sample(ids, key()), other.sample(ids, key()))


def test_noise_that_would_vanish_in_a_direction_is_refused():
    flat = Space.from_arrays(words(3), [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
    with pytest.raises(ParameterError, match="lam below 1"):
        mahalanobis(flat, epsilon=1.0, lam=1.0)
    assert mahalanobis(flat, epsilon=1.0, lam=0.9).guarantee.certified == 1.0


def test_one_vector_spreads_nowhere():
    space = Space.from_arrays(["only", "same"], [[1.0, 2.0], [1.0, 2.0]])
    mechanism = mahalanobis(space, epsilon=1.0, lam=1.0)
    assert mechanism.guarantee.certified == 0
    assert mechanism.sample(np.array([0, 1]), key()).tolist() == [0, 0]


@pytest.mark.parametrize("lam", [-0.1, 1.1, math.nan, None, "0.5"])
def test_a_weight_outside_its_domain_is_refused(space, lam):
    with pytest.raises(ParameterError, match="lam"):
        mahalanobis(space, epsilon=1.0, lam=lam)


def test_a_batch_draws_what_its_records_draw_alone():
    """Also with so many dimensions that a matrix product would round by its shape."""
    rng = np.random.default_rng(1)
    space = Space.from_arrays(words(300), rng.normal(size=(300, 100)))
    mechanism = mahalanobis(space, epsilon=20.0)
    ids = np.arange(300)
    run = RunKey.from_seed(2)
    together = mechanism.vectors(ids, run.records(range(300), [1] * 300))
    alone = [mechanism.vectors(ids[i : i + 1], run.record(i))[0] for i in range(300)]
    assert np.array_equal(together, np.array(alone))
