"""Private training: users and entities at once, on one machine and federated.

A plan is calibrated and its guarantee read before anything is trained:

>>> from sfumato.training import TrainingPlan
>>> plan = TrainingPlan.calibrate(epsilon=4.0, delta=1e-5, slots=5000, rate=0.02, steps=100, per_user=4, per_entity=4)
>>> plan.guarantee().unit
<Unit.USER_ENTITY: 'user and entity'>

The names below are fetched when they are first used; those that train need the extra ``training``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.training.incidence import Limited, LimitReport, limit_incidence
    from sfumato.training.plan import Plan, PublishedPlan, TrainingPlan, UserPlan
    from sfumato.training.plans import AnyPlan, plan_from_json
    from sfumato.training.published import PublishedRates, moments_epsilon
    from sfumato.training.sentences import Sentence, read_conll, read_records, tag_entities
    from sfumato.training.unprotected import PlainPlan
    from sfumato.training.vocabulary import Vocabulary

_HOMES = {
    "sfumato.training.incidence": ("LimitReport", "Limited", "limit_incidence"),
    "sfumato.training.plan": ("Plan", "PublishedPlan", "TrainingPlan", "UserPlan"),
    "sfumato.training.plans": ("AnyPlan", "plan_from_json"),
    "sfumato.training.published": ("PublishedRates", "moments_epsilon"),
    "sfumato.training.sentences": ("Sentence", "read_conll", "read_records", "tag_entities"),
    "sfumato.training.unprotected": ("PlainPlan",),
    "sfumato.training.vocabulary": ("Vocabulary",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AnyPlan",
    "LimitReport",
    "Limited",
    "PlainPlan",
    "Plan",
    "PublishedPlan",
    "PublishedRates",
    "Sentence",
    "TrainingPlan",
    "UserPlan",
    "Vocabulary",
    "limit_incidence",
    "moments_epsilon",
    "plan_from_json",
    "read_conll",
    "read_records",
    "tag_entities",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)
