"""Laplace noise shaped by the spread of the vocabulary (Xu et al. 2020).

Noise with density proportional to ``exp(-rate |M**(-1/2) z|)``, where M mixes the covariance of the public vocabulary,
scaled to a mean variance of 1, with the identity: ``M = lam Sigma + (1 - lam) I``.  It promises ``rate`` times the
Mahalanobis distance of M.  That is another distance than the space's, so epsilons of the two do not compare; here it is
converted: the Mahalanobis distance is at most ``constant`` times the euclidean one, over all pairs of words.  But for
rounding, ``constant`` is at most 1 over the root of M's least eigenvalue; what is used is what was measured.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.foundation.checks import gather, require_share
from sfumato.foundation.errors import CertificationError, ParameterError
from sfumato.foundation.registry import mechanism
from sfumato.mechanism.stretch import Inverse, Stretch, Tick, measure, remembered
from sfumato.mechanism.vector import NoiseField, Settings, VectorMechanism, compile_vector
from sfumato.space import Space
from sfumato.space.metric import FloatArray

_LEAST_EIGENVALUE = 1e-9
_MOST_OFF = 0.01


@mechanism("mahalanobis", kind="metric")
def mahalanobis(
    space: Space,
    *,
    epsilon: float,
    lam: float = 0.5,
    noise: str = "calibrated",
    mapping: str = "nearest",
    t: float = 0.5,
    decoding: str = "exact",
    probes: int = 32,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    threads: int | None = None,
    tick: Tick | None = None,
) -> VectorMechanism:
    """Laplace noise that is longer in directions in which the vocabulary spreads more; the nearest word comes out.

    ``lam`` is the weight of the vocabulary's covariance; 0 is :func:`~sfumato.mechanism.laplace.laplace`.  With
    ``noise="calibrated"`` the promise is ``epsilon`` in the euclidean distance; with ``"plain"`` it is ``epsilon`` in the
    Mahalanobis distance, as published, and the guarantee states what that comes to in the euclidean one.

    >>> plane = Space.from_arrays(list("abc"), [[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    >>> mechanism = mahalanobis(plane, epsilon=2.0, lam=0.5, noise="plain")
    >>> round(mechanism.guarantee.certified, 3)
    2.445
    """
    settings = Settings(epsilon, noise, mapping, t, decoding, probes, inputs, outputs)
    gather(lambda: settings.check(space), lambda: require_share(lam=lam))
    lam = float(lam)
    points = space.centred
    root, inverse, least = _roots(_mixed(space, lam))
    if lam == 0:
        stretch = Stretch(1.0, space.statistics.median_neighbour_distance)
    else:

        def compute() -> dict[str, float]:
            found = measure(space, points @ inverse.matrix, threads=threads, tick=tick, inverse=inverse)
            return {"constant": found.constant, "neighbour": found.neighbour}

        figures = remembered(space, ["mahalanobis", lam], compute, lambda _: points @ inverse.matrix, inverse)
        stretch = Stretch(figures["constant"], figures["neighbour"])
    nominal = epsilon if noise == "plain" or stretch.constant == 0 else epsilon / stretch.constant
    note = (
        f"The noise promises {nominal:.6g} per unit of Mahalanobis distance (lam {lam:g}, least eigenvalue {least:.4g}); "
        "that distance is not the space's, so the two epsilons do not compare"
    )
    return compile_vector("mahalanobis", space, settings, NoiseField(points, stretch, root, space.middle), [note])


def _mixed(space: Space, lam: float) -> FloatArray:
    """Return lam Sigma + (1 - lam) I, with Sigma scaled to a mean variance of 1."""
    vectors = space.centred[space.points]
    centred = vectors - vectors.mean(axis=0)
    covariance = centred.T @ centred / len(centred)
    dimension = len(covariance)
    mean_variance = float(np.trace(covariance)) / dimension
    if mean_variance == 0:  # one vector only: it spreads equally in all directions
        return np.eye(dimension)
    return np.asarray(lam * covariance / mean_variance + (1.0 - lam) * np.eye(dimension))


def _roots(matrix: FloatArray) -> tuple[FloatArray, Inverse, float]:
    """Return the symmetric root of a matrix, its inverse, and the least eigenvalue of the matrix."""
    values, vectors = np.linalg.eigh(matrix)
    least = float(values.min())
    if least < _LEAST_EIGENVALUE:
        raise ParameterError(
            "the vocabulary does not spread in all directions, so the noise would vanish in some; use a lam below 1"
        )
    root = np.asarray((vectors * np.sqrt(values)) @ vectors.T)
    inverse = np.asarray((vectors / np.sqrt(values)) @ vectors.T)
    return root, Inverse(inverse, _off(root, inverse)), least


def _off(root: FloatArray, inverse: FloatArray) -> float:
    """Return by what share a length can differ between the inverse as computed and the inverse of the root.

    With ``inverse root = I + S`` the true one is ``(I + S)**-1 inverse``, so lengths are off by at most ``1 / (1 - |S|)``; the
    product that shows S is itself rounded, and so is the image of a difference of points.
    """
    dimension = len(root)
    rounding = dimension * 2.0**-51 * float(np.linalg.norm(inverse)) * float(np.linalg.norm(root))
    off = float(np.linalg.norm(inverse @ root - np.eye(dimension))) + rounding
    if not off < _MOST_OFF:
        raise CertificationError(
            "the spread of the vocabulary is so unlike in its directions that its root cannot be inverted; use a lesser lam"
        )
    return off
