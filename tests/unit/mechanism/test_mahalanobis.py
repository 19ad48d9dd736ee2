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


@pytest.mark.parametrize("lam", [0.5, 0.9, 1 - 1e-8, 1.0])
@pytest.mark.parametrize("offset", [0.0, 1e9, 1e12])
def test_far_from_the_origin_the_promise_is_kept(lam, offset):
    """What the noise hides is |spread**-1 (x - x')|, whatever was computed to find the constant."""
    for seed in range(6):
        vectors = np.random.default_rng(seed).normal(size=(15, 3)) * [1, 1, 3e-5] + offset
        space = Space.from_arrays(words(15), vectors)
        try:
            mechanism = mahalanobis(space, epsilon=2.0, lam=lam)
        except ParameterError:
            assert offset or lam == 1  # no spread left in the third direction
            continue
        points, distances = mechanism.field.points[space.points], space.distances(np.arange(15))
        losses = [
            mechanism.rate
            * np.linalg.norm(np.linalg.solve(mechanism.field.spread, points[i] - points[j]))
            / distances[i, j]
            for i in range(15)
            for j in range(i)
            if distances[i, j]
        ]
        assert max(losses) <= mechanism.guarantee.certified * (1 + 1e-9)
        if offset == 0:
            assert max(losses) >= mechanism.guarantee.certified * (1 - 1e-6)


def test_images_that_are_rounded_are_not_what_is_measured():
    """Points of one plane far from each other, two of them near: the spread across the plane is so small that images are
    rounded beyond the difference of those two, which are stretched most.
    """
    for seed in range(20):
        flat = np.random.default_rng(seed).integers(-(2**22), 2**22, size=(30, 2)) * [1, 2]
        flat[1] = flat[0] + [5, -3]  # about where they spread least
        vectors = np.column_stack([flat[:, 0], flat[:, 1], -flat.sum(axis=1)])  # the third direction is (1, 1, 1)
        space = Space.from_arrays(words(30), vectors)
        mechanism = mahalanobis(space, epsilon=2.0, lam=1 - 1e-8, noise="plain")
        # In the plane, where the root has no great and no small eigenvalue.
        plane = np.linalg.qr(np.column_stack([np.ones(3), np.eye(3)[:, :2]]))[0][:, 1:]
        inside = np.linalg.inv(plane.T @ mechanism.field.spread @ plane)
        gaps = [vectors[i] - vectors[j] for i in range(30) for j in range(i)]
        worst = max(np.linalg.norm(inside @ (plane.T @ gap)) / np.linalg.norm(gap) for gap in gaps)
        assert worst <= mechanism.field.stretch.constant <= worst * (1 + 2.0**-22)


def test_weights_have_their_own_cached_figures(tmp_path, monkeypatch):
    monkeypatch.setenv("SFUMATO_CACHE_DIR", str(tmp_path))
    space = Space.from_arrays(words(2100), np.random.default_rng(0).normal(size=(2100, 3)) * [3.0, 1.0, 0.3])
    found = {}
    for lam in (0.3, 0.9, 0.3, 0.9):
        constant = mahalanobis(space, epsilon=2.0, lam=lam, noise="plain").field.stretch.constant
        assert found.setdefault(lam, constant) == constant
    assert len(list(tmp_path.glob("stretch-*.json"))) == 2
    least = {lam: np.linalg.eigvalsh(mixed(space, lam)).min() ** -0.5 for lam in found}
    assert all(0.95 * least[lam] <= found[lam] <= least[lam] * (1 + 1e-6) for lam in found)
    assert found[0.9] > 1.2 * found[0.3]


def test_lengths_are_told_in_the_distance_they_are_of():
    """The noise has that mean length, and neighbours that distance, in the Mahalanobis distance only."""
    rng = np.random.default_rng(0)
    space = Space.from_arrays(words(200), rng.normal(size=(200, 20)) * np.r_[10.0, np.full(19, 0.1)])
    mechanism = mahalanobis(space, epsilon=3.0, lam=0.98, noise="plain")
    inverse = np.linalg.inv(mechanism.field.spread)
    added = (mechanism.vectors(np.zeros(20_000, dtype=int), key()) - space.vectors[0]) @ inverse
    told = next(note for note in mechanism.guarantee.notes if "mean length" in note)
    assert "(both in Mahalanobis distance)" in told
    length, times = (float(told.split(before)[1].split()[0].strip(",")) for before in ("length of ", f"{20 / 3:.4g}, "))
    # Gamma(20) / 3: the mean of 20,000 draws is within 5 standard errors.
    assert np.linalg.norm(added, axis=1).mean() == pytest.approx(
        length, abs=5 * math.sqrt(20) / 3 / math.sqrt(20_000) + 1e-3
    )
    images = space.vectors @ inverse
    between = np.linalg.norm(images[:, None] - images[None], axis=2) + np.diag(np.full(200, np.inf))
    assert times == pytest.approx(length / np.median(between.min(axis=1)), rel=1e-2)
    assert "Mahalanobis" not in next(n for n in laplace(space, epsilon=3.0).guarantee.notes if "mean length" in n)


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
