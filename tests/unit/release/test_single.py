"""Charge first, then run; where the charge fails, nothing runs."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sfumato.ledger import Cost, Ledger, OverdraftError, ReusedKeyError, UnknownBudgetError
from sfumato.release import ReleasedBeforeError, release

HALF = Cost.pure("0.5")


def test_the_charge_is_on_disk_before_anything_runs(ledger: Ledger) -> None:
    ledger.create("ada", kind="pure", limit=1)
    seen = []

    def run() -> str:
        with Ledger.open(ledger.address) as other:  # as another process would see it
            seen.append(other.budget("ada", "pure").spent)
        return "noisy"

    released = release(ledger, "ada", HALF, run, purpose="tem")
    assert seen == [Fraction(1, 2)]
    assert released.value == "noisy"
    assert (released.charge.amount, released.charge.purpose) == (Fraction(1, 2), "tem")


@pytest.mark.parametrize(
    ("subject", "cost", "error"),
    [("ada", Cost.pure(2), OverdraftError), ("bob", HALF, UnknownBudgetError), ("ada", Cost.metric(1), UnknownBudgetError)],
)  # fmt: skip
def test_nothing_runs_unpaid(ledger: Ledger, subject: str, cost: Cost, error: type[Exception]) -> None:
    ledger.create("ada", kind="pure", limit=1)
    with pytest.raises(error):
        release(ledger, subject, cost, lambda: pytest.fail("it ran"))


def test_a_run_that_fails_is_not_refunded(ledger: Ledger) -> None:
    ledger.create("ada", kind="pure", limit=1)
    with pytest.raises(ZeroDivisionError):
        release(ledger, "ada", HALF, lambda: 1 / 0)
    assert ledger.budget("ada", "pure").left == Fraction(1, 2)


def test_a_retry_costs_nothing_and_runs_only_what_repeats_itself(ledger: Ledger) -> None:
    ledger.create("ada", kind="pure", limit="0.5")
    first = release(ledger, "ada", HALF, lambda: "the same", key="k", fingerprint="f", repeatable=True)
    again = release(ledger, "ada", HALF, lambda: "the same", key="k", fingerprint="f", repeatable=True)
    assert (first.charge.replayed, again.charge.replayed) == (False, True)
    assert again.value == "the same"
    with pytest.raises(ReleasedBeforeError):
        release(ledger, "ada", HALF, lambda: pytest.fail("it ran"), key="k", fingerprint="f")
    with pytest.raises(ReusedKeyError):
        release(ledger, "ada", HALF, lambda: pytest.fail("it ran"), key="k", fingerprint="g", repeatable=True)
    assert ledger.budget("ada", "pure").charges == 1
