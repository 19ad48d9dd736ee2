"""What a charge does, on both databases."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sfumato.foundation.errors import ParameterError
from sfumato.ledger import (
    BudgetExistsError,
    Cost,
    Ledger,
    OverdraftError,
    Request,
    ReusedKeyError,
    UnknownBudgetError,
    UnlikeCostError,
)

TENTH = Cost.pure("0.1")


def test_a_budget_is_spent_to_the_last_unit_and_not_beyond(ledger: Ledger) -> None:
    ledger.create("ada", kind="pure", limit="0.3")
    assert [ledger.charge("ada", TENTH).number for _ in range(3)] == [1, 2, 3]
    with pytest.raises(OverdraftError, match=r"0 of epsilon left, the release costs 0\.000000001"):
        ledger.charge("ada", Cost.pure("1e-9"))
    budget = ledger.budget("ada", "pure")
    assert (budget.spent, budget.left, budget.charges) == (Fraction(3, 10), 0, 3)
    assert ledger.verify().passed


def test_a_refused_charge_leaves_no_trace(ledger: Ledger) -> None:
    ledger.create("ada", kind="pure", limit=1)
    before = ledger.budget("ada", "pure")
    for cost in (Cost.pure(2), Cost.metric("0.1"), Cost.concentrated("0.1")):
        with pytest.raises((OverdraftError, UnknownBudgetError)):
            ledger.charge("ada", cost, key="k")
    assert ledger.budget("ada", "pure") == before
    assert list(ledger.history()) == []
    assert ledger.charge("ada", TENTH, key="k").replayed is False


def test_a_retried_request_is_charged_once(ledger: Ledger) -> None:
    ledger.create("ada", kind="pure", limit=1)
    first = ledger.charge("ada", TENTH, key="request 1", fingerprint="f")
    again = ledger.charge("ada", TENTH, key="request 1", fingerprint="f")
    assert (first.replayed, again.replayed) == (False, True)
    assert (again.number, again.hash) == (first.number, first.hash)
    assert ledger.budget("ada", "pure").spent == Fraction(1, 10)


@pytest.mark.parametrize(
    ("cost", "fingerprint"), [(Cost.pure("0.2"), "f"), (TENTH, "g"), (TENTH * 2, "f")], ids=["cost", "print", "times"]
)
def test_a_key_stands_for_one_thing(ledger: Ledger, cost: Cost, fingerprint: str) -> None:
    ledger.create("ada", kind="pure", limit=1)
    ledger.charge("ada", TENTH, key="k", fingerprint="f")
    with pytest.raises(ReusedKeyError):
        ledger.charge("ada", cost, key="k", fingerprint=fingerprint)
    assert ledger.budget("ada", "pure").spent == Fraction(1, 10)


def test_a_key_does_not_stand_for_a_cost_of_another_scope_or_another_purpose(ledger: Ledger) -> None:
    """An equal amount in another metric is another release: it must not run on the charge of the first."""
    ledger.create("ada", kind="metric", limit=5)
    ledger.create("bob", kind="metric", limit=5)
    ledger.charge("ada", Cost.metric(1, scope="metric: euclidean"), key="k", purpose="tem")
    ledger.charge("bob", Cost.metric(1), key="k", purpose="tem")
    for subject in ("ada", "bob"):
        for scope, purpose in (("metric: cosine", "tem"), ("", "santext")):
            with pytest.raises(ReusedKeyError):
                ledger.charge(subject, Cost.metric(1, scope=scope), key="k", purpose=purpose)
    assert ledger.charge("ada", Cost.metric(1, scope="metric: euclidean"), key="k", purpose="tem").replayed
    assert ledger.verify().charges == 2


def test_keys_of_unlike_subjects_do_not_meet(ledger: Ledger) -> None:
    for name in ("ada", "bob"):
        ledger.create(name, kind="pure", limit=1)
        assert not ledger.charge(name, TENTH, key="k").replayed


def test_kinds_and_scopes_are_never_mixed(ledger: Ledger) -> None:
    ledger.create("ada", kind="metric", limit=5)
    ledger.create("ada", kind="pure", limit=5)
    ledger.charge("ada", Cost.metric(1, scope="metric: euclidean"))
    with pytest.raises(UnlikeCostError, match="do not add"):
        ledger.charge("ada", Cost.metric(1, scope="metric: cosine"))
    assert ledger.budget("ada", "pure").spent == 0
    assert ledger.budget("ada", "metric").scope == "metric: euclidean"
    with pytest.raises(UnlikeCostError):
        Cost.metric(1) + Cost.pure(1)
    with pytest.raises(ParameterError, match="one kind and scope"):
        Request("ada", [Cost.metric(1), Cost.pure(1)])


def test_a_limit_never_changes(ledger: Ledger) -> None:
    ledger.create("ada", kind="pure", limit=1)
    with pytest.raises(BudgetExistsError):
        ledger.create("ada", kind="pure", limit=2)
    assert ledger.create_each(["ada", "bob", "bob"], kind="pure", limit=2) == 1
    assert ledger.budget("ada", "pure").limit == 1
    assert ledger.budget("bob", "pure").limit == 2


def test_delta_is_a_budget_as_well(ledger: Ledger) -> None:
    ledger.create("ada", kind="approximate", limit=10, delta_limit="1e-5")
    ledger.charge("ada", Cost.approximate(1, "6e-6"))
    with pytest.raises(
        OverdraftError, match=r"9 of epsilon and 0.000004 of delta left, the release costs 1 and 0.000006$"
    ):
        ledger.charge("ada", Cost.approximate(1, "6e-6"))
    assert ledger.budget("ada", "approximate").delta_left == Fraction(4, 10**6)


def test_charge_all_is_all_or_nothing(ledger: Ledger) -> None:
    ledger.create_each(["ada", "bob"], kind="pure", limit=1)
    ledger.charge("bob", Cost.pure("0.95"))
    with pytest.raises(OverdraftError):
        ledger.charge_all([Request("ada", [TENTH]), Request("bob", [TENTH])])
    assert ledger.budget("ada", "pure").spent == 0
    assert len(ledger.charge_all([Request("ada", [TENTH]), Request("bob", [Cost.pure("0.05")])])) == 2


def test_a_partial_request_is_charged_as_far_as_it_goes(ledger: Ledger) -> None:
    ledger.create("ada", kind="pure", limit="0.35")
    request = Request("ada", [TENTH] * 5, "k", partial=True)
    outcome = ledger.charge_each([request])[0]
    assert outcome.accepted == 3
    assert isinstance(outcome.refusal, OverdraftError)
    again = ledger.charge_each([request])[0]
    assert again.accepted == 3
    assert again.charge is not None
    assert again.charge.replayed
    assert ledger.budget("ada", "pure").spent == Fraction(3, 10)


def test_a_batch_charges_equal_keys_once_and_reports_each(ledger: Ledger) -> None:
    ledger.create("ada", kind="pure", limit=1)
    requests = [Request("ada", [TENTH], "k"), Request("ada", [TENTH], "k"), Request("eve", [TENTH])]
    first, second, third = ledger.charge_each(requests)
    assert (first.accepted, second.accepted, third.accepted) == (1, 1, 0)
    assert isinstance(third.refusal, UnknownBudgetError)
    assert ledger.budget("ada", "pure").charges == 1


def test_history_is_in_order_and_of_one_subject_where_asked(ledger: Ledger) -> None:
    ledger.create_each(["ada", "bob"], kind="pure", limit=1)
    for name in ("bob", "ada", "bob"):
        ledger.charge(name, TENTH, purpose="tem")
    assert [line.number for line in ledger.history("bob")] == [1, 2]
    assert len(list(ledger.history())) == 3
    assert {line.purpose for line in ledger.history(kind="pure")} == {"tem"}
    assert list(ledger.history("nobody")) == []
