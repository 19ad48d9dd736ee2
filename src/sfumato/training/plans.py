"""All kinds of plan, and reading one back.

>>> plan_from_json({"method": "none", "slots": 10, "rate": 0.5, "steps": 3, "masked": False})
PlainPlan(slots=10, rate=0.5, steps=3, masked=False)
"""

from __future__ import annotations

from typing import Any

from sfumato.foundation.errors import ParameterError
from sfumato.training.plan import Plan, PublishedPlan, TrainingPlan, UserPlan
from sfumato.training.unprotected import PlainPlan

AnyPlan = Plan | PlainPlan
_PLANS: dict[str, type[Plan] | type[PlainPlan]] = {
    TrainingPlan.method: TrainingPlan,
    UserPlan.method: UserPlan,
    PublishedPlan.method: PublishedPlan,
    "none": PlainPlan,
    "masked": PlainPlan,
}
METHODS = tuple(_PLANS)


def plan_from_json(data: dict[str, Any]) -> AnyPlan:
    """Read back what ``to_json`` of a plan wrote."""
    kind = _PLANS.get(str(data.get("method")))
    if kind is None:
        raise ParameterError(f"method must be one of {', '.join(METHODS)}")
    return kind(**{name: value for name, value in data.items() if name != "method"})
