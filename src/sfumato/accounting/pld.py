"""Privacy loss distributions: the tightest accountant, by numerical convolution in dp-accounting.

The distribution of the loss of one release is put on a grid in such a way that the privacy curve can only go up
(Doroshenko et al. 2022), and convolved with itself by fast Fourier transform.  Releases that are only Gaussian need
no grid: their curve is known in closed form.

Two things are done here rather than by dp-accounting's own accountant.  The number of repetitions is applied to each
distribution by its ``self_compose``, for every kind of event.  And the rounding of the Fourier transform, which grows
with the number of releases and may have either sign, is taken off the delta that is asked for; a delta that is not
well above it has no answer here (infinity), and the other accountants answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, singledispatch
from typing import Any

import numpy as np

from sfumato.accounting.base import Accountant
from sfumato.accounting.events import (
    ApproximateEvent,
    BoundedRangeEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    MixtureOfGaussiansEvent,
    PureEvent,
    Release,
    SampledGaussianEvent,
)
from sfumato.accounting.extras import dp_accounting
from sfumato.accounting.gaussian import composed_mu, delta_of, epsilon_of
from sfumato.accounting.mixture import Mixture
from sfumato.accounting.rounding import up

FINEST_INTERVAL = 1e-4
"""Width of the grid of losses, unless a single loss is narrower or the sum of all is very wide."""
_GREATEST_GRID = 4_000_000
_COARSE_GRID = 20_000
_WIDTHS_PER_DEVIATION = 20
_ROUNDING_PER_RELEASE = 1e-15
_ROUNDING = 1e-14
_NOTHING = 1e-300
_TAIL = 10.0
"""Standard deviations of the noise beyond which there is less than 1e-23 of it."""


class LossDistribution(Accountant):
    """Convolves the distributions of the privacy loss."""

    name = "pld"
    title = "privacy loss distributions"
    source = "Koskela, Jalko and Honkela 2020; Doroshenko et al. 2022; Choquette-Choo et al. 2024"
    handles = (
        GaussianEvent,
        SampledGaussianEvent,
        MixtureOfGaussiansEvent,
        LaplaceEvent,
        PureEvent,
        BoundedRangeEvent,
        ApproximateEvent,
    )

    def _epsilon(self, event: Event, delta: float) -> float:
        mu, rest = _split(event)
        if not rest:
            return epsilon_of(mu, delta)
        usable = delta - rounding_of(event)
        if usable < delta / 2:
            return math.inf
        return up(_epsilon_at(_distribution(event), usable), 1e-12)

    def _delta(self, event: Event, epsilon: float) -> float:
        mu, rest = _split(event)
        if not rest:
            return delta_of(mu, epsilon) if mu > 0 else 0.0
        return max(float(_distribution(event).get_delta_for_epsilon(epsilon)), 0.0) + rounding_of(event)


def rounding_of(event: Event) -> float:
    """Return how much delta the rounding of the convolution may hide.

    It grows with the number of releases: 4e-15 was seen at 1,000 and 4e-12 at 100,000.

    >>> rounding_of(LaplaceEvent(scale=1.0) * 1000) < 2e-12
    True
    """
    return _ROUNDING + _ROUNDING_PER_RELEASE * event.releases


def _split(event: Event) -> tuple[float, tuple[tuple[Release, int], ...]]:
    """Return mu of the purely Gaussian releases, and the other ones that cost anything, in their simplest form."""
    gaussian: list[tuple[float, int]] = []
    rest: dict[Release, int] = {}
    for release, times in event.parts:
        simple = _simplified(release)
        if isinstance(simple, GaussianEvent):
            gaussian.append((up(1 / simple.sigma), times))
        elif simple is not None:
            rest[simple] = rest.get(simple, 0) + times
    return composed_mu(gaussian), tuple(rest.items())


@singledispatch
def _simplified(release: Release) -> Release | None:
    """Return the release in a form that is cheaper to handle, or None where it costs nothing."""
    return release


@_simplified.register
def _(release: PureEvent) -> Release | None:
    return release if release.epsilon > 0 else None


@_simplified.register
def _(release: BoundedRangeEvent) -> Release | None:
    return release if release.eta > 0 else None


@_simplified.register
def _(release: SampledGaussianEvent) -> Release | None:
    return GaussianEvent(release.sigma) if release.rate == 1 else release


@_simplified.register
def _(release: MixtureOfGaussiansEvent) -> Release | None:
    shifts: dict[float, float] = {}
    for shift, probability in zip(release.sensitivities, release.probabilities, strict=True):
        if probability > 0:
            shifts[shift] = shifts.get(shift, 0.0) + probability
    greatest = max(shifts)
    if greatest == 0:
        return None
    if len(shifts) == 1:
        return GaussianEvent(release.sigma / greatest)
    if len(shifts) == 2 and 0.0 in shifts:
        return SampledGaussianEvent(release.sigma / greatest, shifts[greatest] / math.fsum(shifts.values()))
    return release


@lru_cache(maxsize=4)  # the widest take 64 MB each
def _distribution(event: Event) -> Any:
    mu, rest = _split(event)
    interval = _interval(mu, rest)
    library = dp_accounting("dp_accounting.pld.privacy_loss_distribution")
    total: Any = None
    if mu > 0:
        total = library.from_gaussian_mechanism(1 / mu * (1 - 1e-15), value_discretization_interval=interval)
    for release, times in rest:
        one = _single(release, interval)
        many = one.self_compose(times) if times > 1 else one
        total = many if total is None else total.compose(many)
    return total


@lru_cache(maxsize=64)
def _single(release: Release, interval: float) -> Any:
    return _on_grid(release, interval, dp_accounting("dp_accounting.pld.privacy_loss_distribution"))


def _interval(mu: float, rest: tuple[tuple[Release, int], ...]) -> float:
    """Choose the grid: fine for the narrowest loss, but never so fine that the sum does not fit into memory.

    The moments of each loss are taken from a coarse grid; the choice is a power of two times the finest, so that near
    events share one.
    """
    widest = mu * mu + 2 * 12 * mu
    finest = FINEST_INTERVAL
    for release, times in rest:
        reach = _reach(release)
        losses, masses = _losses(_single(release, reach / _COARSE_GRID)._pmf_remove)
        mean = float(losses @ masses)
        deviation = math.sqrt(max(float((losses - mean) ** 2 @ masses), 0.0))
        widest += max(2 * (times * abs(mean) + 12 * math.sqrt(times) * deviation), 2 * reach)
        finest = min(finest, deviation / _WIDTHS_PER_DEVIATION)
    wanted = max(finest, widest / _GREATEST_GRID)
    return float(FINEST_INTERVAL * 2.0 ** math.ceil(math.log2(wanted / FINEST_INTERVAL)))


def _losses(pmf: Any) -> tuple[Any, Any]:
    """Return the finite losses of one direction of a distribution, and their probabilities."""
    dense = pmf.to_dense_pmf()
    return (np.arange(dense.size) + dense._lower_loss) * dense._discretization, dense._probs


def _epsilon_at(distribution: Any, delta: float) -> float:
    """Return where the privacy curve crosses ``delta``.

    The curve is the greatest, over all thresholds, of U - e^epsilon L, with U and L the masses that two neighbouring
    inputs put above the threshold; so it crosses at the greatest ln((U - delta) / L).  (dp-accounting walks the grid
    in Python.)
    """
    crossings = []
    for pmf in {id(pmf): pmf for pmf in (distribution._pmf_remove, distribution._pmf_add)}.values():
        if pmf._infinity_mass > delta:
            return math.inf
        losses, masses = _losses(pmf)
        losses, under_one = losses[::-1], pmf._infinity_mass + np.cumsum(masses[::-1])
        over = under_one > delta
        if not over.any():
            continue
        reference = float(losses[int(np.argmax(over))])
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            under_other = np.maximum(np.cumsum(masses[::-1] * np.exp(reference - losses)), _NOTHING)
            crossing = reference + np.log((under_one[over] - delta) / under_other[over])
        # A threshold speaks of epsilons up to its loss; beyond, it is only the rounding of masses that are next to nothing.
        crossings.append(float(np.max(np.minimum(crossing, losses[over]))))
    return max(crossings, default=0.0)


@singledispatch
def _reach(release: Release) -> float:
    """Return about how large the loss of one release gets."""
    raise NotImplementedError


@_reach.register
def _(release: SampledGaussianEvent) -> float:
    return (0.5 / release.sigma + 12) / release.sigma


@_reach.register
def _(release: MixtureOfGaussiansEvent) -> float:
    shift = release.greatest_shift / release.sigma
    return shift * (shift / 2 + 12)


@_reach.register
def _(release: LaplaceEvent) -> float:
    return 1 / release.scale


@_reach.register
def _(release: PureEvent) -> float:
    return release.epsilon


@_reach.register
def _(release: ApproximateEvent) -> float:
    return max(release.epsilon, FINEST_INTERVAL)


@_reach.register
def _(release: BoundedRangeEvent) -> float:
    return release.eta


@singledispatch
def _on_grid(release: Release, interval: float, library: Any) -> Any:
    """Return dp-accounting's distribution of one release."""
    raise NotImplementedError


@_on_grid.register
def _(release: SampledGaussianEvent, interval: float, library: Any) -> Any:
    return library.from_gaussian_mechanism(
        release.sigma, sampling_prob=release.rate, value_discretization_interval=interval
    )


@_on_grid.register
def _(release: MixtureOfGaussiansEvent, interval: float, library: Any) -> Any:
    """Put both directions of a mixture on the grid, from its exact curve.

    (dp-accounting does the same, but solves for one threshold at a time.)
    """
    mixture = Mixture.of(release.sigma, release.sensitivities, release.probabilities)
    lowest, highest = mixture.log_ratio(-_TAIL), mixture.log_ratio(mixture.greatest_shift + _TAIL)
    remove = _from_curve(lambda epsilons: mixture.deltas(epsilons, shifted=True), lowest, highest, interval)
    add = _from_curve(
        lambda epsilons: mixture.deltas(epsilons, shifted=False), -mixture.log_ratio(_TAIL), -lowest, interval
    )
    return library.PrivacyLossDistribution(remove, add)


@_on_grid.register
def _(release: LaplaceEvent, interval: float, library: Any) -> Any:
    return library.from_laplace_mechanism(release.scale, value_discretization_interval=interval)


@_on_grid.register
def _(release: PureEvent, interval: float, library: Any) -> Any:
    return _from_parameters(release.epsilon, 0.0, interval, library)


@_on_grid.register
def _(release: ApproximateEvent, interval: float, library: Any) -> Any:
    return _from_parameters(release.epsilon, release.delta, interval, library)


def _from_parameters(epsilon: float, delta: float, interval: float, library: Any) -> Any:
    common = dp_accounting("dp_accounting.pld.common")
    return library.from_privacy_parameters(
        common.DifferentialPrivacyParameters(epsilon, delta), value_discretization_interval=interval
    )


@_on_grid.register
def _(release: BoundedRangeEvent, interval: float, library: Any) -> Any:
    """Put the worst curve of all releases of range eta on the grid.

    Among them, two outputs with log-ratios t and t - eta are the worst; their curve at epsilon is greatest at
    t = (epsilon + eta) / 2, where it is (1 - e^-(eta - epsilon)/2)^2 / (1 - e^-eta).  A curve that is above those of
    all releases may stand in for each of them, also where later ones depend on earlier outputs (Zhu, Dong and Wang
    2022).
    """

    def curve(epsilons: Any) -> Any:
        inside = np.clip(epsilons, -release.eta, release.eta)
        deltas = np.expm1((inside - release.eta) / 2) ** 2 / -math.expm1(-release.eta)
        return np.where(epsilons < -release.eta, -np.expm1(epsilons), deltas)

    return library.PrivacyLossDistribution(_from_curve(curve, -release.eta, release.eta, interval))


def _from_curve(curve: Callable[[Any], Any], lowest: float, highest: float, interval: float) -> Any:
    """Return a distribution on the grid whose privacy curve is nowhere below ``curve`` (Doroshenko et al. 2022).

    Losses above ``highest`` count as infinite, those below ``lowest`` as the lowest.
    """
    first, last = math.floor(lowest / interval), math.ceil(highest / interval)
    deltas = np.minimum.accumulate(np.clip(curve(np.arange(first, last + 1) * interval), 0.0, 1.0))
    pmfs = dp_accounting("dp_accounting.pld.pld_pmf")
    return pmfs.create_pmf_pessimistic_connect_dots_fixed_gap(interval, first, last, deltas)
