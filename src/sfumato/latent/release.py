"""Clip and noise vectors as a plan says: the one place where private vectors become public ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sfumato.foundation.errors import DataError, ParameterError
from sfumato.foundation.guarantee import Guarantee
from sfumato.foundation.randomness import RunKey, Source, SystemSource
from sfumato.latent import noise
from sfumato.latent.plan import NoisePlan
from sfumato.latent.vectors import clip

FloatArray = npt.NDArray[np.float64]
PURPOSE = "latent noise"


def release(
    vectors: npt.ArrayLike,
    plan: NoisePlan,
    source: Source | None = None,
    *,
    mask: npt.NDArray[np.bool_] | None = None,
) -> FloatArray:
    """Return clipped and noised vectors; noise comes from the operating system's generator unless a source is given.

    Shape (sentences, dimension), or (sentences, tokens, dimension) where the plan's position is "token"; there, places
    without a token (``mask``) come out as zeros and get no noise: how many tokens a sentence has is public.

    >>> plan = NoisePlan(clip=1.0, scale=2.0, dimension=3)
    >>> release([[0.1, 0.2, 0.3]], plan).shape
    (1, 3)
    """
    array = checked_shape(vectors, plan)
    return _noised(clip(array, plan.clip, plan.norm), plan, source or SystemSource(), mask)


def release_records(
    vectors: npt.ArrayLike, plan: NoisePlan, key: RunKey, numbers: Sequence[int], purpose: str = PURPOSE
) -> FloatArray:
    """Return the release of records by number: the noise of record i follows from the run key and i.

    A repeated call gives the very same vectors, so a retry is not a second release.  The same key and number must never be
    used for another sentence: the difference of the two outputs would have no noise at all.
    """
    array = checked_shape(vectors, plan)
    if len(numbers) != len(array):
        raise ParameterError("every sentence needs the number of its record")
    if plan.position == "token":
        raise ParameterError("noise by record number is for sentence vectors")
    clipped = clip(array, plan.clip, plan.norm)
    if plan.distribution == "discrete":
        rows = [
            _noised(clipped[i : i + 1], plan, key.record(number, purpose), None) for i, number in enumerate(numbers)
        ]
        return np.concatenate(rows) if rows else clipped
    source = key.records(numbers, [plan.dimension] * len(numbers), purpose)
    return _noised(clipped, plan, source, None)


def stated(plan_guarantee: Guarantee, secure: bool) -> Guarantee:
    """Return a guarantee as it holds for noise that is (not) secret."""
    return dataclasses.replace(plan_guarantee, secure=plan_guarantee.secure and secure)


def checked_shape(vectors: npt.ArrayLike, plan: NoisePlan) -> FloatArray:
    """Return vectors as float64; raise where their shape is not the plan's."""
    array = np.asarray(vectors, dtype=np.float64)
    wanted = 3 if plan.position == "token" else 2
    if array.ndim != wanted or array.shape[-1] != plan.dimension:
        shape = "(sentences, tokens, dimension)" if wanted == 3 else "(sentences, dimension)"
        raise DataError(f"vectors must have shape {shape} with dimension {plan.dimension}, got {array.shape}")
    if wanted == 3 and array.shape[1] > plan.tokens:
        raise DataError(f"a sentence has up to {plan.tokens} tokens in this plan, got {array.shape[1]}; cut them off")
    return array


def on_grid(clipped: FloatArray, plan: NoisePlan, source: Source) -> FloatArray:
    """Return the discrete release of clipped vectors: value and noise are added as whole numbers of grid steps."""
    steps = np.rint(clipped / plan.grid).astype(np.int64)
    return np.asarray((steps + noise.discrete_gaussian(source, clipped.shape, plan.steps)) * plan.grid)


def _noised(clipped: FloatArray, plan: NoisePlan, source: Source, mask: npt.NDArray[np.bool_] | None) -> FloatArray:
    if clipped.size == 0:
        return clipped
    if plan.distribution == "discrete":
        released = on_grid(clipped, plan, source)
    elif plan.distribution == "laplace":
        released = clipped + noise.laplace(source, clipped.shape, plan.scale)
    else:
        released = clipped + noise.gaussian(source, clipped.shape, plan.scale)
    if mask is not None:
        if mask.shape != clipped.shape[:2]:
            raise DataError("the mask says for each token place of each sentence whether there is a token")
        released *= mask[:, :, None]
    return np.asarray(released, dtype=np.float64)
