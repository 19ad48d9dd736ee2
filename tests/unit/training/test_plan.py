"""Plans and their accounting: figures that were computed elsewhere, and laws."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.foundation.errors import ParameterError, UnsoundError
from sfumato.foundation.guarantee import NoGuarantee, Unit, guarantee_from_json
from sfumato.training import PublishedPlan, PublishedRates, TrainingPlan, UserPlan, moments_epsilon, plan_from_json
from sfumato.training.published import ESTIMATORS

pytest.importorskip("dp_accounting", reason="the extra 'accounting' is not installed")

CONLL = PublishedRates(user=50 / 946, entity=0.5, sensitive=11176 / 14040)


def plan(**changes: float) -> TrainingPlan:
    values: dict[str, float] = {
        "slots": 14041, "rate": 0.02, "steps": 500, "clip": 1.0, "noise": 8.0, "per_user": 6, "per_entity": 2,
        "delta": 1e-5,
    }  # fmt: skip
    return TrainingPlan(**{**values, **changes})  # type: ignore[arg-type]


def test_sound_figures_computed_by_another_program() -> None:
    single = UserPlan(users=100, rate=0.02, steps=500, clip=1.0, noise=2.0, delta=1e-5)
    assert single.epsilon() == pytest.approx(0.921, abs=1e-3)
    assert plan().epsilon() == pytest.approx(1.788, abs=1e-3)


@pytest.mark.parametrize(("estimator", "printed"), list(zip(ESTIMATORS, (0.52, 0.62, 1.18), strict=True)))
def test_published_epsilons_of_conll(estimator: str, printed: float) -> None:
    """946 users of whom 50 are sampled, half of the entities, 11,176 sensitive sentences of 14,040."""
    epsilon = moments_epsilon(CONLL.of(estimator), noise=2.0, steps=50, delta=1e-5)
    assert epsilon == pytest.approx(printed, abs=0.02)


@pytest.mark.parametrize(
    ("rates", "printed"),
    [
        (PublishedRates(user=500 / 7500, entity=0.5, sensitive=67157 / 112000), (0.50, 0.75, 1.48)),
        (PublishedRates(user=0.0631, entity=0.5, sensitive=0.41), (0.40, 0.71, 1.40)),
    ],
    ids=["ag", "sec"],
)
def test_published_epsilons_of_ag_and_sec(rates: PublishedRates, printed: tuple[float, ...]) -> None:
    """The rates of users (and SEC's share of sensitive sentences) were solved for: f_E+ is the figure they predict."""
    found = [moments_epsilon(rates.of(name), noise=2.0, steps=50, delta=1e-5) for name in ESTIMATORS]
    assert found == pytest.approx(printed, abs=0.02)


@pytest.mark.parametrize(
    ("users", "sensitive", "steps"),
    [
        (50, 11176, (42, 282, 660, 1181, 1841, 2634)),
        (100, 5433, (45, 300, 701, 1253, 1951, 2791)),
        (100, 4406, (82, 471, 1086, 1932, 2996, 4280)),
        (100, 5187, (51, 332, 773, 1379, 2146, 3069)),
    ],
)
def test_the_stopping_rounds_of_the_published_runs(users: int, sensitive: int, steps: tuple[int, ...]) -> None:
    """The released program stops at these rounds for epsilon 0.5, 1.0, ... 3.0; nothing is fitted here."""
    rate = PublishedRates(user=users / 946, entity=0.5, sensitive=sensitive / 14040).of("f_E")
    found = [moments_epsilon(rate, noise=2.0, steps=count, delta=1e-5) for count in steps]
    assert found == pytest.approx([0.5, 1.0, 1.5, 2.0, 2.5, 3.0], abs=0.003)


def test_the_sound_accountant_says_more_for_the_same_noise() -> None:
    published = moments_epsilon(CONLL.of("f_E+"), noise=2.0, steps=50, delta=1e-5)
    sound = plan(noise=2.0, steps=50, rate=50 / 946, per_user=4, per_entity=4).epsilon()
    assert sound > 5 * published


@settings(max_examples=4)
@given(
    epsilon=st.floats(0.5, 10),
    group=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    rate=st.sampled_from([0.01, 0.1, 1.0]),
)
def test_calibrating_gives_what_was_asked(epsilon: float, group: tuple[int, int], rate: float) -> None:
    made = TrainingPlan.calibrate(
        epsilon=epsilon, delta=1e-5, slots=5000, rate=rate, steps=20, per_user=group[0], per_entity=group[1]
    )
    assert epsilon * 0.99 <= made.epsilon() <= epsilon


def test_a_plan_is_cut_short_before_its_budget_is_passed() -> None:
    short = plan().within(1.0)
    assert short.epsilon() <= 1.0 < short.with_steps(short.steps + 1).epsilon()
    assert plan().within(100.0) == plan()
    with pytest.raises(ParameterError, match="not even one step"):
        plan(noise=0.5).within(0.01)


def test_more_steps_cost_more_and_none_nothing() -> None:
    spent = [plan().epsilon(steps) for steps in (0, 1, 10, 100, 500)]
    assert spent[0] == 0
    assert spent == sorted(set(spent))
    assert isinstance(plan().guarantee(0), NoGuarantee)


def test_a_guarantee_says_what_is_protected_and_what_is_public() -> None:
    guarantee = plan().guarantee()
    assert guarantee.unit is Unit.USER_ENTITY
    assert guarantee.sound
    assert "one user" in guarantee.statement()
    assert "which slots belong to one user" in guarantee.statement()
    assert guarantee_from_json(guarantee.to_json()) == guarantee


def test_the_published_form_must_be_asked_for_and_says_that_it_is_unsound() -> None:
    values = {
        "rate": 50 / 946, "steps": 50, "clip": 1.0, "noise": 2.0, "delta": 1e-5, "users": 946, "entity_rate": 0.5,
        "sensitive": 11176, "sentences": 14040,
    }  # fmt: skip
    with pytest.raises(UnsoundError, match="allow_unsound"):
        PublishedPlan(**values)  # type: ignore[arg-type]
    published = PublishedPlan(**values, allow_unsound=True)  # type: ignore[arg-type]
    guarantee = published.guarantee()
    assert not guarantee.sound
    assert "UNSOUND" in guarantee.statement()
    assert published.deviation == pytest.approx(2.0 * 51)
    assert published.epsilon() == pytest.approx(0.62, abs=0.02)
    assert published.within(0.5).epsilon() <= 0.5


def test_plans_travel_as_json() -> None:
    for one in (plan(), UserPlan(users=9, rate=0.5, steps=2, clip=1.0, noise=1.0, delta=1e-5)):
        assert plan_from_json(one.to_json()) == one
    with pytest.raises(ParameterError, match="method"):
        plan_from_json({"method": "other"})


def test_all_problems_of_a_plan_are_named_at_once() -> None:
    with pytest.raises(ParameterError, match=r"rate.*noise.*delta.*per_user"):
        plan(rate=2.0, noise=float("nan"), delta=0.0, per_user=0)
