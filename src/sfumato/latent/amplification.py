"""Less noise for the same promise, where the server cannot see who takes part.

Every function here assumes something about who sees what, and says it in the guarantee's notes.  Against a server that
knows who sent which vector none of it holds: then use :mod:`sfumato.latent.calibration`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from sfumato.accounting.accountants import accountant
from sfumato.accounting.events import ApproximateEvent
from sfumato.accounting.gaussian import delta_of, epsilon_of, mu_for
from sfumato.accounting.rounding import up
from sfumato.accounting.search import greatest
from sfumato.foundation.checks import gather, require_count, require_epsilon, require_positive, require_probability
from sfumato.foundation.errors import ParameterError
from sfumato.foundation.guarantee import ApproximateGuarantee, Unit
from sfumato.latent.plan import PUBLIC, SENTENCE_NEIGHBOURS, NoisePlan

_SHARES = (0.02, 0.1, 0.3, 0.6, 0.9)
"""How delta is divided between the rounds and their composition; all are tried, the least epsilon is taken."""
_ORDERS = 48

SAMPLING_NOTE = (
    "Holds for one owner who picks the sentences of a round secretly, uniformly and without replacement, and sends them "
    "in a random order: whoever learns which sentences took part gets the promise of a release without sampling; where "
    "labels are sent along, the sentences of each label must be sampled by themselves, none at a larger share"
)
SHUFFLE_NOTE = (
    "Holds against whoever sees the shuffled vectors only: the shuffler must be honest, the vectors unlinkable to their "
    "senders, and all of them must be there and noised by this plan; where labels are sent along, a vector hides among "
    "those of its own label only, so that the number counted on must be that of the rarest label"
)
FICTITIOUS_NOTE = (
    "The fictitious queries are made from public sentences by the same clipping and noise, each true query is sent once, "
    "and the order is random; fictitious queries made in any other way count for nothing"
)


@dataclass(frozen=True)
class AmplifiedPlan:
    """Noise, and the promise it makes under an assumption."""

    noise: NoisePlan
    """What is added; its own guarantee is the one that holds without the assumption."""
    guarantee: ApproximateGuarantee


def sampled_epsilon(mu: float, rate: float, rounds: int, delta: float) -> float:
    """Return epsilon of ``rounds`` secret samples without replacement of a share ``rate``, each released mu-privately.

    One round: a (ln(1 + q (e^eps - 1)), q delta) guarantee for each point of the curve (Balle, Barthe and Gaboardi
    2018, theorem 9: without replacement, one record replaced).  Several: the optimal composition theorem, and never
    worse than without sampling.

    >>> sampled_epsilon(0.5, 0.1, 1, 1e-5) < epsilon_of(0.5, 1e-5)
    True
    """
    gather(
        lambda: require_positive(mu=mu, rate=rate),
        lambda: require_count(rounds=rounds),
        lambda: require_probability(delta=delta),
    )
    if rate > 1:
        raise ParameterError(f"rate must be at most 1, got {rate}")
    plain = epsilon_of(math.sqrt(rounds) * mu, delta)

    def one(at: float) -> float:
        base = at / rate
        return 0.0 if base >= 1 else _sampled_once(epsilon_of(mu, base), rate)

    return min(plain, _composed(one, rounds, delta))


def _sampled_once(epsilon: float, rate: float) -> float:
    """Return ln(1 + q (e^eps - 1)) without overflow."""
    if epsilon < 1:
        return up(math.log1p(rate * math.expm1(epsilon)), 1e-14)
    return up(max(epsilon + math.log(rate + (1 - rate) * math.exp(-epsilon)), 0.0), 1e-14)


def shuffled_epsilon(mu: float, records: int, delta: float, rounds: int = 1) -> float:
    """Return epsilon of ``rounds`` shuffled batches of ``records`` mu-private vectors, one of each record.

    Feldman, McMillan and Talwar (2021), theorem 3.8, which is valid for (eps0, delta0) randomisers: the shuffled batch
    is (eps, delta' + (e^eps + 1)(1 + e^-eps0 / 2) n delta0)-private.  Gaussian noise has such a pair for every eps0; the
    best is searched for, and the bound without shuffling is used where it is smaller.

    >>> shuffled_epsilon(0.5, 20_000, 1e-5) < epsilon_of(0.5, 1e-5)
    True
    """
    gather(
        lambda: require_positive(mu=mu),
        lambda: require_count(records=records, rounds=rounds),
        lambda: require_probability(delta=delta),
    )
    plain = epsilon_of(math.sqrt(rounds) * mu, delta)
    return min(plain, _composed(lambda at: _shuffled_once(mu, records, at), rounds, delta))


def _shuffled_once(mu: float, records: int, delta: float) -> float:
    best = epsilon_of(mu, delta)
    for share in _SHARES:
        rest = share * delta
        inside = records / (16 * math.log(2 / rest))
        if inside <= 1:
            continue
        limit = math.log(inside)
        for step in range(1, _ORDERS + 1):
            local = limit * step / _ORDERS
            power = math.exp(local)
            spread = 8 * math.sqrt(power * math.log(4 / rest) / records) + 8 * power / records
            epsilon = up(math.log1p((power - 1) / (power + 1) * spread), 1e-14)
            lost = (math.exp(epsilon) + 1) * (1 + 0.5 / power) * records * delta_of(mu, local)
            if epsilon < best and rest + lost <= delta:
                best = epsilon
    return best


def _composed(one: Callable[[float], float], rounds: int, delta: float) -> float:
    if rounds == 1:
        return one(delta)
    optimal = accountant("optimal")
    bounds = []
    for share in _SHARES:
        each = share * delta / rounds
        epsilon = one(each)
        if math.isfinite(epsilon):
            bounds.append(optimal.epsilon(ApproximateEvent(epsilon, each) * rounds, delta))
    return min(bounds, default=math.inf)


def secretly_sampled(
    *, epsilon: float, clip: float, dimension: int, records: int, batch: int, rounds: int = 1, delta: float = 1e-5
) -> AmplifiedPlan:
    """Return the noise for ``rounds`` rounds of ``batch`` out of ``records`` sentences, secretly sampled by one owner.

    :func:`~sfumato.latent.orders.secret_sample` does the sampling.  Where labels are sent with the vectors, they may tell
    who took part (the only sentence with its label is seen to be there), so each label is sampled by itself.
    """
    gather(lambda: require_count(records=records, batch=batch, rounds=rounds))
    if batch > records:
        raise ParameterError(f"a batch of {batch} cannot be taken from {records} records")
    rate = batch / records
    return _calibrated(
        lambda mu: sampled_epsilon(mu, rate, rounds, delta),
        epsilon=epsilon,
        delta=delta,
        clip=clip,
        dimension=dimension,
        rounds=rounds,
        name="latent gaussian, secretly sampled",
        notes=(SAMPLING_NOTE, f"{batch} of {records} sentences in each of {rounds} rounds"),
    )


def shuffled(
    *, epsilon: float, clip: float, dimension: int, records: int, rounds: int = 1, delta: float = 1e-5
) -> AmplifiedPlan:
    """Return the noise for batches of ``records`` sentences that an honest shuffler makes anonymous.

    Where labels are sent with the vectors, ``records`` is how many the rarest label has at least: vectors of unlike
    labels cannot be taken for each other.
    """
    return _calibrated(
        lambda mu: shuffled_epsilon(mu, records, delta, rounds),
        epsilon=epsilon,
        delta=delta,
        clip=clip,
        dimension=dimension,
        rounds=rounds,
        name="latent gaussian, shuffled",
        notes=(SHUFFLE_NOTE, f"{records} sentences in each of {rounds} batches"),
    )


def upsampled(
    *, epsilon: float, clip: float, dimension: int, queries: int, fictitious: int, delta: float = 1e-5
) -> AmplifiedPlan:
    """Return the noise for true queries hidden among fictitious ones.

    The theorem of :func:`shuffled` holds for any other records in the batch, so fictitious ones count, if the same
    randomiser made them.  Each true query is sent once (:func:`~sfumato.latent.orders.mixed_order`
    gives the order).
    """
    gather(lambda: require_count(queries=queries), lambda: require_count(fictitious=fictitious + 1))
    return _calibrated(
        lambda mu: shuffled_epsilon(mu, queries + fictitious, delta),
        epsilon=epsilon,
        delta=delta,
        clip=clip,
        dimension=dimension,
        rounds=1,
        name="latent gaussian, up-sampled",
        notes=(SHUFFLE_NOTE, FICTITIOUS_NOTE, f"{queries} true and {fictitious} fictitious queries"),
    )


def _calibrated(
    epsilon_at: Callable[[float], float],
    *,
    epsilon: float,
    delta: float,
    clip: float,
    dimension: int,
    rounds: int,
    name: str,
    notes: tuple[str, ...],
) -> AmplifiedPlan:
    gather(
        lambda: require_epsilon(epsilon=epsilon),
        lambda: require_probability(delta=delta),
        lambda: require_positive(clip=clip),
        lambda: require_count(dimension=dimension),
    )
    least = mu_for(epsilon, delta) / math.sqrt(rounds) * (1 - 1e-12)
    # Not every accountant is monotone to the last digit: what is returned was asked itself, so it is safe.
    mu = greatest(lambda one: epsilon_at(one) <= epsilon, least, 64 * max(least, 0.1), tolerance=1e-3)
    plan = NoisePlan(clip=clip, scale=up(2 * clip / mu), dimension=dimension, delta=delta, releases=rounds)
    plain = replace(plan, releases=1).epsilon()
    promise = ApproximateGuarantee(
        mechanism=name,
        unit=Unit.RECORD,
        neighbours=SENTENCE_NEIGHBOURS,
        releases=rounds,
        public=PUBLIC[1:],
        arithmetic="float64",
        epsilon=epsilon,
        delta=delta,
        notes=(*notes, f"Without this assumption one release is ({plain:.4g}, {delta:g}) private"),
    )
    return AmplifiedPlan(plan, promise)
