"""How much noise: one release, several, or one that is trained on for ever.

The default of this package is :func:`release_once`: a sentence is encoded, noised and sent one time, and everything the
server does with the noisy vector afterwards, for however many epochs, is post-processing and costs nothing.  Sending
fresh noise in every epoch (:func:`several_releases`) needs sqrt(epochs) times the noise for the same promise.
"""

from __future__ import annotations

import math
from typing import Any

from sfumato.accounting.gaussian import sigma_for
from sfumato.accounting.rounding import up
from sfumato.accounting.zcdp import rho_for
from sfumato.foundation.checks import gather, require_count, require_epsilon, require_positive, require_probability
from sfumato.foundation.errors import ParameterError
from sfumato.latent.noise import GREATEST_UNITS
from sfumato.latent.plan import NoisePlan


def single_release(
    *,
    epsilon: float,
    clip: float,
    dimension: int,
    delta: float = 1e-5,
    distribution: str = "gaussian",
    position: str = "sentence",
    change: str = "sentence",
    tokens: int = 1,
) -> NoisePlan:
    """Return the least noise that makes one release of a sentence (epsilon, delta) private.

    >>> round(single_release(epsilon=1.0, delta=1e-5, clip=1.0, dimension=8).scale, 9)
    7.46126327
    """
    return several_releases(
        1,
        epsilon=epsilon,
        delta=delta,
        clip=clip,
        dimension=dimension,
        distribution=distribution,
        position=position,
        change=change,
        tokens=tokens,
    )


def release_once(*, epsilon: float, clip: float, dimension: int, delta: float = 1e-5, **options: Any) -> NoisePlan:
    """Return the noise for sending every sentence once and training on what was sent for ever (the default).

    The same noise as :func:`single_release`: whatever is computed from a noisy vector later costs nothing more.

    >>> release_once(epsilon=4.0, clip=1.0, dimension=8).releases
    1
    """
    return single_release(epsilon=epsilon, delta=delta, clip=clip, dimension=dimension, **options)


def several_releases(
    releases: int,
    *,
    epsilon: float,
    clip: float,
    dimension: int,
    delta: float = 1e-5,
    distribution: str = "gaussian",
    position: str = "sentence",
    change: str = "sentence",
    tokens: int = 1,
) -> NoisePlan:
    """Return the least noise for each of ``releases`` releases of one sentence, (epsilon, delta) private together.

    >>> once = single_release(epsilon=2.0, clip=1.0, dimension=4)
    >>> round(several_releases(16, epsilon=2.0, clip=1.0, dimension=4).scale / once.scale, 9)
    4.0
    """
    gather(
        lambda: require_epsilon(epsilon=epsilon),
        lambda: require_probability(delta=delta),
        lambda: require_positive(clip=clip),
        lambda: require_count(releases=releases, dimension=dimension, tokens=tokens),
    )

    def plan(scale: float, grid: float = 0.0) -> NoisePlan:
        return NoisePlan(
            clip=clip,
            scale=scale,
            dimension=dimension,
            distribution=distribution,
            position=position,
            change=change,
            tokens=tokens,
            grid=grid,
            delta=delta,
            releases=releases,
        )

    draft = plan(1.0, 1.0 / GREATEST_UNITS if distribution == "discrete" else 0.0)
    if distribution == "laplace":
        return plan(up(draft.sensitivity * releases / epsilon))
    if distribution == "gaussian":
        # One part in 10^12 above the least, so that the rounding of the guarantee stays below epsilon.
        return plan(sigma_for(epsilon, delta, draft.sensitivity, releases) * (1 + 1e-12))
    # With g = scale/units, sensitivity = (2 C + g sqrt(d)) sqrt(k) and scale = sensitivity * sqrt(n / 2 rho): solve for scale.
    factor = math.sqrt(releases / (2 * rho_for(epsilon, delta))) * math.sqrt(draft.changed_vectors)
    share = factor * math.sqrt(dimension) / GREATEST_UNITS
    if share >= 1:
        raise ParameterError(
            "the discrete Gaussian needs a finer grid than it has at this epsilon and dimension; "
            "use distribution='gaussian', fewer dimensions or a larger epsilon"
        )
    scale = up(2 * clip * factor / (1 - share), 1e-12)
    return plan(scale, scale / GREATEST_UNITS)
