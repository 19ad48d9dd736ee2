"""Multivariate Laplace noise on word vectors, decoded to the nearest word or to one of the two nearest.

The published mechanisms are Feyisetan et al. (2020; "Madlib", "CMP") and, for the choice between the two nearest words,
Xu et al. (2021; "Vickrey").  The promise and its theorem are in :mod:`sfumato.mechanism.vector`, the maps before the noise
in :mod:`sfumato.mechanism.transforms`.
"""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.foundation.checks import gather, require_one_of
from sfumato.foundation.registry import mechanism
from sfumato.mechanism.stretch import Tick
from sfumato.mechanism.transforms import TRANSFORMS, Transform
from sfumato.mechanism.vector import NoiseField, Settings, VectorMechanism, compile_vector
from sfumato.space import Space


def _compile(name: str, space: Space, settings: Settings, transform: Transform) -> VectorMechanism:
    gather(
        lambda: settings.check(space),
        lambda: require_one_of(TRANSFORMS, transform=transform.name),
        transform.check,
    )
    image = transform.apply(space)
    notes = [image.sentence] if image.sentence else []
    return compile_vector(name, space, settings, NoiseField(image.points, image.stretch, origin=image.origin), notes)


@mechanism("laplace", kind="metric")
def laplace(
    space: Space,
    *,
    epsilon: float,
    transform: str = "none",
    noise: str = "calibrated",
    mapping: str = "nearest",
    t: float = 0.5,
    decoding: str = "exact",
    probes: int = 32,
    low: float = -1.0,
    high: float = 1.0,
    jl_beta: float = 0.5,
    jl_dimension: int | None = None,
    jl_seed: int = 0,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    threads: int | None = None,
    tick: Tick | None = None,
) -> VectorMechanism:
    """Multivariate Laplace noise on the word's vector; the nearest word comes out.

    ``transform`` is applied to all vectors first; with ``noise="calibrated"`` the noise is scaled so that the promise is
    ``epsilon`` in the distance of the space, with ``"plain"`` it is that of ``epsilon`` after the transform, and the
    guarantee states what that comes to.  ``mapping`` is ``nearest``, ``vickrey`` (one of the two nearest, see
    :func:`vickrey`) or ``none`` (noisy vectors, from ``vectors()``).  ``decoding="approximate"`` searches the ``probes``
    nearest lists of words only.  ``low`` and ``high`` are the box of ``clip``.

    >>> line = Space.from_arrays(list("abc"), [[0.0], [1.0], [2.0]])
    >>> mechanism = laplace(line, epsilon=2.0)
    >>> mechanism.guarantee.certified, mechanism.guarantee.arithmetic
    (2.0, 'float64')
    >>> plain = laplace(line, epsilon=2.0, transform="clip", low=0.0, high=1.5, noise="plain")
    >>> plain.guarantee.certified
    2.0
    """
    settings = Settings(epsilon, noise, mapping, t, decoding, probes, inputs, outputs)
    choice = Transform(transform, low, high, jl_beta, jl_dimension, jl_seed, threads, tick)
    return _compile("laplace", space, settings, choice)


@mechanism("vickrey", kind="metric")
def vickrey(
    space: Space,
    *,
    epsilon: float,
    t: float = 0.5,
    transform: str = "none",
    noise: str = "calibrated",
    decoding: str = "exact",
    probes: int = 32,
    low: float = -1.0,
    high: float = 1.0,
    jl_beta: float = 0.5,
    jl_dimension: int | None = None,
    jl_seed: int = 0,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    threads: int | None = None,
    tick: Tick | None = None,
) -> VectorMechanism:
    """Multivariate Laplace noise on the word's vector; one of the two nearest words comes out.

    With distances d1 <= d2 from the noisy vector the nearest is taken with probability
    ``(1 - t) d2 / (t d1 + (1 - t) d2)``: ``t = 0`` always takes it, ``t = 1`` never.  The choice looks at the noisy vector
    only, so the promise is that of :func:`laplace`.

    >>> line = Space.from_arrays(list("abc"), [[0.0], [1.0], [2.0]])
    >>> vickrey(line, epsilon=2.0, t=0.75).guarantee.certified
    2.0
    """
    settings = Settings(epsilon, noise, "vickrey", t, decoding, probes, inputs, outputs)
    choice = Transform(transform, low, high, jl_beta, jl_dimension, jl_seed, threads, tick)
    return _compile("vickrey", space, settings, choice)
