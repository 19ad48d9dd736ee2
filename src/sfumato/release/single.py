"""One release: charge its cost, and only then run it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from sfumato.foundation.errors import BudgetError
from sfumato.ledger import Charge, Cost, Ledger

T = TypeVar("T")


class ReleasedBeforeError(BudgetError):
    """The charge was made by an earlier call, whose outcome cannot be drawn again."""


@dataclass(frozen=True)
class Released(Generic[T]):
    """What came out, and the charge that paid for it."""

    value: T
    charge: Charge


def release(
    ledger: Ledger,
    subject: str,
    cost: Cost,
    run: Callable[[], T],
    *,
    key: str | None = None,
    fingerprint: str = "",
    repeatable: bool = False,
    purpose: str = "",
) -> Released[T]:
    """Charge ``cost`` to the subject's budget and then call ``run``; where the charge fails, nothing is run.

    If the process dies in between, the budget is spent and nothing was released: a crash may waste budget, never
    privacy. A ``key`` that was charged before is not charged again; then ``run`` is called only if it is
    ``repeatable``, that is, draws the very same noise as the first time (because it takes it from a
    :class:`~sfumato.foundation.randomness.RunKey`). Fresh noise would be a second release that nobody paid for.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger.open(folder.name + "/budgets.db")
    >>> _ = ledger.create("ada", kind="pure", limit=1)
    >>> release(ledger, "ada", Cost.pure("0.5"), lambda: "noisy", key="request 1").value
    'noisy'
    >>> release(ledger, "ada", Cost.pure("0.5"), lambda: "noisy", key="request 1")
    Traceback (most recent call last):
        ...
    sfumato.release.single.ReleasedBeforeError: this key was charged before, and its outcome cannot be drawn again \
without paying for a second release; use a new key, or a run key that repeats the noise
    >>> ledger.close(); folder.cleanup()
    """
    charge = ledger.charge(subject, cost, key=key, purpose=purpose, fingerprint=fingerprint)
    if charge.replayed and not repeatable:
        raise ReleasedBeforeError(
            "this key was charged before, and its outcome cannot be drawn again without paying for a second release; "
            "use a new key, or a run key that repeats the noise"
        )
    return Released(run(), charge)
