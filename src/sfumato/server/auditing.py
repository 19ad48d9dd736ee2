"""How an offered mechanism stands up to measurement: figures about public words, computed once and shown on the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sfumato.audit import Deniability, verify
from sfumato.audit.attacks import BayesAttack, Rows, bayes_attack
from sfumato.foundation.errors import CertificationError
from sfumato.mechanism.base import Mechanism, TableMechanism

ATTACKED_WORDS = 2000
"""The attacker chooses among the first so many input words; published vocabularies list frequent words first."""
_VERIFIED_WORDS = 5000
_AT_ONCE = 200


@dataclass(frozen=True)
class Audit:
    """What was measured."""

    figures: Deniability
    verified: bool | None
    """Whether the recomputation agrees with the claim; None where it takes too long to be made here."""
    realised: float | None
    attack: BayesAttack | None
    """None for mechanisms without a table."""
    attacked: int


def audit(mechanism: Mechanism, figures: Deniability) -> Audit:
    """Recompute the claim, and let the best possible attacker guess."""
    verified: bool | None = None
    realised: float | None = None
    if isinstance(mechanism, TableMechanism) and len(mechanism.inputs) <= _VERIFIED_WORDS:
        try:
            result = verify(mechanism)
            verified, realised = result.passed, float(result.realised)
        except CertificationError:
            pass  # there is no single epsilon to verify
    if not isinstance(mechanism, TableMechanism):
        return Audit(figures, verified, realised, None, 0)
    chosen = mechanism.inputs[:ATTACKED_WORDS]
    prior = np.full(len(chosen), 1 / len(chosen))
    attack = bayes_attack(prior, _rows(mechanism, chosen), len(mechanism.space))
    return Audit(figures, verified, realised, attack, len(chosen))


def _rows(mechanism: TableMechanism, chosen: np.ndarray[tuple[int], np.dtype[np.intp]]) -> Iterator[Rows]:
    for start in range(0, len(chosen), _AT_ONCE):
        ids = chosen[start : start + _AT_ONCE]
        compiled = mechanism.compile_rows(ids)
        totals = compiled.weights.sum(axis=1, dtype=np.float64)
        outputs = compiled.cells[0] if len(compiled.cells) == 1 else compiled.cells
        yield Rows(np.arange(start, start + len(ids)), outputs, compiled.weights / totals[:, None])
