"""The screened maximum over pairs is that of all pairs, also in spaces that are made to mislead the screen."""

import numpy as np
import pytest

import sfumato
from sfumato.mechanism import kernel
from sfumato.mechanism.screened import SlopeScreen
from sfumato.space import Space, statistics
from sfumato.space.grid import on_grid
from sfumato.space.metric import Euclidean, euclidean

POINTS = 1700
"""More than two tiles, so that the worst pair can lie in any of six."""


def all_pairs(geometry, values, gamma, allowance):
    """Return the greatest slope by its definition, in float64 from differences."""
    best = 0.0
    for place in range(len(values) - 1):
        others = np.arange(place + 1, len(values))
        distances = np.sqrt(geometry.between(np.full(len(others), place), others)) * geometry.scale
        slopes = (np.abs(values[others] - values[place]) + allowance) / np.minimum(distances, gamma)
        best = max(best, float(slopes.max()))
    return best


def screened(geometry, values, gamma, allowance, threads=1):
    return SlopeScreen(geometry, np.arange(len(values)), values, gamma, allowance).steepest(threads, None)


def cloud(seed, count=POINTS, dimension=20):
    return np.random.default_rng(seed).normal(size=(count, dimension))


def near_twins(seed):
    """The steepest pairs are far nearer to each other than single precision can tell."""
    points = cloud(seed)
    points[-5:] = points[:5] + 1e-9 * cloud(seed + 1, 5)
    return points


def far_outlier(seed):
    """One point so far out that all others are one point in single precision."""
    points = cloud(seed)
    points[800] *= 1e7
    return points


SPACES = {"cloud": cloud, "near twins": near_twins, "far outlier": far_outlier}
VALUES = {
    "smooth": lambda points, rng: points[:, 0].copy(),
    "unlike": lambda points, rng: rng.normal(size=len(points)),
    "equal": lambda points, rng: np.full(len(points), 3.0),
    "nearly equal": lambda points, rng: 1e-9 * rng.normal(size=len(points)),
    "one jump": lambda points, rng: (np.arange(len(points)) == 1650) * 40.0,
    "heavy tails": lambda points, rng: rng.standard_cauchy(size=len(points)),
}


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize(("gamma", "allowance"), [(np.inf, 1e-7), (2.5, 1e-7), (0.5, 1e-3), (np.inf, 10.0)])
def test_the_greatest_slope_is_that_of_all_pairs(space, values, gamma, allowance):
    points = SPACES[space](5)
    if space == "far outlier":  # every pair is looked at there, so a smaller one will do
        points = np.vstack([points[:300], points[800:801]])
    elif (gamma, allowance) != (2.5, 1e-7):
        points = points[-900:]
    geometry = Euclidean("euclidean", points - points.mean(axis=0), 0.7)
    chosen = VALUES[values](geometry.points, np.random.default_rng(9))
    found = screened(geometry, chosen, gamma, allowance)
    assert found.slope == pytest.approx(all_pairs(geometry, chosen, gamma, allowance), rel=1e-12)
    assert found.first != found.second


def test_integer_vectors_are_screened_too():
    vectors = np.unique(np.random.default_rng(2).integers(-90, 90, (POINTS, 12)), axis=0).astype(np.int8)
    geometry = euclidean(vectors, 0.01)
    values = np.random.default_rng(3).normal(size=len(geometry)) * 0.1
    found = screened(geometry, values, 1.5, 1e-7)
    assert found.slope == pytest.approx(all_pairs(geometry, values, 1.5, 1e-7), rel=1e-12)


def test_the_outcome_does_not_depend_on_threads():
    geometry = Euclidean("euclidean", cloud(1), 1.0)
    values = np.random.default_rng(4).normal(size=POINTS)
    one, two = (screened(geometry, values, np.inf, 1e-7, threads) for threads in (1, 2))
    assert (one.slope, one.first, one.second) == (two.slope, two.first, two.second)
    assert np.array_equal(one.pairs, two.pairs)


def test_nothing_to_lose_has_slope_zero():
    geometry = Euclidean("euclidean", cloud(1, 30), 1.0)
    assert screened(geometry, np.zeros(30), np.inf, 0.0).slope == 0.0


@pytest.mark.parametrize("tuning", ["published", "calibrated", "tight", "filled"])
@pytest.mark.parametrize("inputs", [None, 700])
def test_a_screened_certificate_is_the_exact_one(monkeypatch, tuning, inputs):
    vectors = np.random.default_rng(6).normal(size=(900, 10))
    space = Space.from_arrays([f"w{i}" for i in range(900)], vectors)
    some = None if inputs is None else space.words[-inputs:]
    exact = sfumato.compile("tem", space, epsilon=9.0, tuning=tuning, inputs=some)
    monkeypatch.setattr(kernel, "SCREENED_FROM", 1)
    weights, fill = exact.tuned.weights, exact.tuned.fill
    log_z = kernel.log_sums(exact.ground, weights, exact.rate, 1, fill=fill)
    found = kernel.certify(exact.ground, log_z, exact.rate, 1, fill=fill)
    # Distances from products and from differences may differ in the last bits, and the allowance covers it.
    assert found.epsilon == pytest.approx(exact.certificate.epsilon, rel=1e-10)
    assert {found.first, found.second} == {exact.certificate.first, exact.certificate.second}


@pytest.mark.parametrize("points", [cloud(3, 1000), near_twins(4)[-1000:], far_outlier(5)[780:880]])
def test_screened_statistics_are_the_exact_ones(monkeypatch, points):
    geometry = _on_grid(points, 1.3)
    monkeypatch.setattr(statistics, "SCREENED_FROM", 10**9)
    exact = statistics.compute_statistics(geometry, threads=1)
    monkeypatch.setattr(statistics, "SCREENED_FROM", 1)
    found = statistics.compute_statistics(geometry, threads=1)
    assert found.diameter == pytest.approx(exact.diameter, rel=1e-12)
    assert found.least_distance == pytest.approx(_least(geometry), rel=1e-9)
    if exact.diameter < 1e3:
        assert found.median_neighbour_distance == pytest.approx(exact.median_neighbour_distance, rel=1e-4)
        assert found.density == pytest.approx(exact.density, rel=0.05)


def _on_grid(points, scale):
    whole, step, _ = on_grid(points)
    return Euclidean("euclidean", np.unique(whole, axis=0).astype(np.float64), scale * step)


def _least(geometry):
    return (
        min(
            float(np.sqrt(geometry.between(np.full(len(geometry) - i - 1, i), np.arange(i + 1, len(geometry))).min()))
            for i in range(len(geometry) - 1)
        )
        * geometry.scale
    )
