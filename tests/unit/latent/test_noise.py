"""The noise has the law that the guarantee was computed for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from sfumato.foundation.errors import ParameterError
from sfumato.foundation.randomness import RunKey, Source, SystemSource
from sfumato.latent import noise
from sfumato.latent.plan import NoisePlan
from sfumato.latent.release import release

# Kolmogorov-Smirnov and chi-squared tests below have a fixed seed; at this level a right law fails once in a million.
LEVEL = 1e-6


def source(number: int) -> Source:
    return RunKey.from_seed(41).record(number)


@pytest.mark.parametrize("sigma", [0.01, 1.0, 7.5])
def test_gaussian_noise_is_normal_with_the_stated_deviation(sigma: float) -> None:
    drawn = noise.gaussian(source(1), (200, 200), sigma).ravel()
    assert stats.kstest(drawn / sigma, "norm").pvalue > LEVEL
    # The sum of squares over sigma^2 is chi-squared: a variance given as a deviation would be far outside.
    low, high = stats.chi2.ppf([LEVEL, 1 - LEVEL], drawn.size)
    assert low < (drawn**2).sum() / sigma**2 < high


@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_laplace_noise_has_the_stated_scale(scale: float) -> None:
    drawn = noise.laplace(source(2), (200, 200), scale).ravel()
    assert stats.kstest(drawn / scale, "laplace").pvalue > LEVEL


@pytest.mark.parametrize("sigma", [1, 2, 17, 700])
def test_the_discrete_gaussian_is_exact(sigma: int) -> None:
    count = 20_000
    drawn = noise.discrete_gaussian(source(sigma), (count,), sigma)
    edge = 8 * sigma
    values = np.arange(-edge, edge + 1)
    weights = np.exp(-(values**2) / (2 * sigma**2))
    expected = weights / weights.sum() * count
    bins = np.clip(drawn, -edge, edge)
    observed = np.bincount(bins + edge, minlength=len(values)).astype(float)
    # Cells of less than 20 expected draws are put together with their neighbours.
    groups = np.cumsum(expected) // 20
    grouped = [np.bincount(groups.astype(int), weights=one) for one in (observed, expected)]
    kept = grouped[1] > 0
    statistic = ((grouped[0] - grouped[1])[kept] ** 2 / grouped[1][kept]).sum()
    assert stats.chi2.sf(statistic, kept.sum() - 1) > LEVEL


@pytest.mark.parametrize("sigma", [0, 0.5, 1.5, noise.GREATEST_UNITS + 1])
def test_the_discrete_gaussian_takes_whole_steps(sigma: float) -> None:
    with pytest.raises(ParameterError, match="whole number of grid steps"):
        noise.discrete_gaussian(SystemSource(), (3,), sigma)  # type: ignore[arg-type]


@pytest.mark.parametrize("distribution", ["gaussian", "laplace", "discrete"])
def test_every_coordinate_and_every_sentence_has_its_own_noise(distribution: str) -> None:
    plan = NoisePlan(clip=1.0, scale=1.0, dimension=50, distribution=distribution, grid=0.01)
    released = release(np.zeros((40, 50)), plan)
    assert len(np.unique(released[0])) > 25
    correlations = np.corrcoef(released)[np.triu_indices(40, 1)]
    # Fisher's transform: each of 780 correlations of independent rows is beyond 6/sqrt(47) once in 10^9.
    assert np.abs(np.arctanh(correlations)).max() < 6 / math.sqrt(47)


def test_discrete_releases_lie_on_the_grid() -> None:
    plan = NoisePlan(clip=1.0, scale=2.0, dimension=6, distribution="discrete", grid=0.25)
    steps = release(np.random.default_rng(3).normal(size=(30, 6)), plan) / 0.25
    assert (steps == np.rint(steps)).all()


def test_tokens_that_are_not_there_are_zero_and_all_others_have_noise() -> None:
    plan = NoisePlan(clip=1.0, scale=1.0, dimension=3, position="token", tokens=4)
    mask = np.array([[True, True, False, False], [True, True, True, True]])
    released = release(np.zeros((2, 4, 3)), plan, mask=mask)
    assert (released[~mask] == 0).all()
    assert len(np.unique(released[mask])) == 18
