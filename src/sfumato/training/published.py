"""The accounting of UeDP as it was published, kept for comparison: it is unsound.

Lai, Phan et al., *User-Entity Differential Privacy in Learning Natural Language Models* (2022), sample users with rate
q_u and entities with rate q_e and put a product of the two into the moments accountant (Abadi et al. 2016), as if a
record took part with that probability.  Three things are wrong with it:

* removing an entity changes the update of every sampled user who mentions it, each by up to twice the clipping bound;
  the noise is fitted to one user's update;
* the estimator divides by weights that are counted on the private data;
* a sentence is touched if its user *or* its entity is: a union, whose rate is not the product.

What they print follows from the rates alone, and :func:`moments_epsilon` repeats it.

>>> rates = PublishedRates(user=50 / 946, entity=0.5, sensitive=11176 / 14040)
>>> [round(moments_epsilon(rates.of(estimator), noise=2.0, steps=50, delta=1e-5), 2) for estimator in ESTIMATORS]
[0.52, 0.61, 1.18]
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from sfumato.foundation.checks import (
    gather,
    require_count,
    require_one_of,
    require_positive,
    require_probability,
    require_share,
)

ESTIMATORS = ("f_E", "f_E+", "user")
"""The estimator of sensitive entities, the one whose non-sensitive sentences are entities too, and users alone."""

UNSOUND = (
    "the published analysis treats users and entities as sampled by one coin of rate q_u q_e; removing an entity moves "
    "the update of every user who mentions it by up to twice the clipping bound, the denominators are computed from "
    "the private data, and the sampling is a union; the true loss is not bounded by this epsilon"
)

_ORDERS = (*range(2, 65), 128, 256, 512)
"""The orders of the accountants of that time: whole numbers."""


@dataclass(frozen=True)
class PublishedRates:
    """The rates from which the published epsilon follows."""

    user: float
    entity: float = 1.0
    sensitive: float = 1.0
    """Sentences with a sensitive entity, over all sentences."""

    def __post_init__(self) -> None:
        gather(
            lambda: require_share(user=self.user, entity=self.entity, sensitive=self.sensitive),
            lambda: require_positive(user=self.user, entity=self.entity, sensitive=self.sensitive),
        )

    def of(self, estimator: str) -> float:
        """Return the rate that is put into the accountant for an estimator."""
        require_one_of(ESTIMATORS, estimator=estimator)
        entity = {"f_E": self.entity * self.sensitive, "f_E+": self.entity, "user": 1.0}[estimator]
        return self.user * entity


def moments_epsilon(rate: float, *, noise: float, steps: int, delta: float) -> float:
    """Return the epsilon of the moments accountant, with its original conversion, at whole orders only."""
    gather(
        lambda: require_share(rate=rate),
        lambda: require_positive(rate=rate, noise=noise),
        lambda: require_count(steps=steps),
        lambda: require_probability(delta=delta),
    )
    bounds = ((steps * _log_moment(rate, noise, order) - math.log(delta)) / (order - 1) for order in _ORDERS)
    return float(min(bounds))


def _log_moment(rate: float, noise: float, order: int) -> float:
    """Return ln E[(density ratio)^order] of the sampled Gaussian (Mironov, Talwar and Zhang 2019, section 3.3)."""
    if rate == 1:
        return order * (order - 1) / (2 * noise**2)
    k = np.arange(order + 1, dtype=np.float64)
    binomials = special.gammaln(order + 1) - special.gammaln(k + 1) - special.gammaln(order - k + 1)
    terms = binomials + k * math.log(rate) + (order - k) * math.log1p(-rate) + k * (k - 1) / (2 * noise**2)
    return float(special.logsumexp(terms))
