"""Private representations: sentences become vectors, vectors are clipped and noised, and only then leave their owner.

>>> from sfumato.latent import release, release_once
>>> plan = release_once(epsilon=4.0, clip=1.0, dimension=3)
>>> release([[0.1, 0.2, 0.3]], plan).shape, plan.guarantee.kind
((1, 3), 'gaussian')

The names below are fetched when they are first used; encoders, heads and the layer need the extra ``torch``, the server and
its client the extra ``server``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.latent.amplification import AmplifiedPlan, secretly_sampled, shuffled, upsampled
    from sfumato.latent.calibration import release_once, several_releases, single_release
    from sfumato.latent.heads import Head, HeadSettings
    from sfumato.latent.labels import RandomisedResponse
    from sfumato.latent.layer import GaussianLayer
    from sfumato.latent.orders import mixed_order, secret_sample
    from sfumato.latent.plan import NoisePlan
    from sfumato.latent.published import PublishedPlan, as_published
    from sfumato.latent.release import release, release_records
    from sfumato.latent.service.client import LatentClient
    from sfumato.latent.service.terms import Terms
    from sfumato.latent.tasks import Examples, TaskResult, run_task
    from sfumato.latent.vectors import choose_clip, clip

_HOMES = {
    "amplification": ("AmplifiedPlan", "secretly_sampled", "shuffled", "upsampled"),
    "calibration": ("release_once", "several_releases", "single_release"),
    "heads": ("Head", "HeadSettings"),
    "labels": ("RandomisedResponse",),
    "layer": ("GaussianLayer",),
    "orders": ("mixed_order", "secret_sample"),
    "plan": ("NoisePlan",),
    "published": ("PublishedPlan", "as_published"),
    "service.client": ("LatentClient",),
    "service.terms": ("Terms",),
    "tasks": ("Examples", "TaskResult", "run_task"),
    "vectors": ("choose_clip", "clip"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

# ``release`` is the name of a function and of its module: it is taken at once, so that the function wins.
from sfumato.latent.release import release, release_records  # noqa: E402

__all__ = [
    "AmplifiedPlan",
    "Examples",
    "GaussianLayer",
    "Head",
    "HeadSettings",
    "LatentClient",
    "NoisePlan",
    "PublishedPlan",
    "RandomisedResponse",
    "TaskResult",
    "Terms",
    "as_published",
    "choose_clip",
    "clip",
    "mixed_order",
    "release",
    "release_once",
    "release_records",
    "run_task",
    "secret_sample",
    "secretly_sampled",
    "several_releases",
    "shuffled",
    "single_release",
    "upsampled",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
