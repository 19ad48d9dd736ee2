"""Noisy vectors whose owner pays from a ledger."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.foundation.guarantee import Guarantee
from sfumato.ledger import Cost, Ledger, Request


class VectorPayment:
    """Charges a subject for vectors before they are noised; given to a latent client as ``payment``.

    Each record costs one release under each guarantee: its vector, and its label where labels go through randomised
    response (budgets of kinds of their own).  All charges of a batch are made together or not at all.

    >>> import tempfile
    >>> from sfumato.foundation.guarantee import GaussianGuarantee
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger.open(folder.name + "/budgets.db")
    >>> _ = ledger.create("ada", kind="gaussian", limit=10)
    >>> pay = VectorPayment(ledger, "ada")
    >>> pay([GaussianGuarantee(mechanism="latent gaussian", mu=0.5)], 8)
    >>> float(ledger.budget("ada", "gaussian").left)
    8.0
    >>> ledger.close(); folder.cleanup()
    """

    def __init__(self, ledger: Ledger, subject: str, purpose: str = "noisy vectors") -> None:
        self._ledger = ledger
        self._subject = subject
        self._purpose = purpose

    def __call__(self, guarantees: Sequence[Guarantee], count: int, key: str | None = None) -> None:
        """Charge ``count`` records; raise, and let nothing be released, where the budget does not allow it.

        The same ``key`` is charged once: it stands for the very same noisy vectors.
        """
        if count:
            costs = [Cost.of(guarantee) * count for guarantee in guarantees]
            keys = [None if key is None else f"{key} {place}" for place in range(len(costs))]
            self._ledger.charge_all(
                [
                    Request(self._subject, [cost], key=one, purpose=self._purpose)
                    for cost, one in zip(costs, keys, strict=True)
                ]
            )
