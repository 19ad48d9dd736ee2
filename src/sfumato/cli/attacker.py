"""``--attacker-success``: epsilon chosen by what the best attacker recovers."""

from __future__ import annotations

from typing import Any

from sfumato.audit.attacker_success import AttackerSuccess, epsilon_for_attacker_success
from sfumato.audit.prior import frequency_prior
from sfumato.cli.progress import CompileProgress
from sfumato.foundation.checks import require_probability
from sfumato.foundation.errors import ParameterError
from sfumato.foundation.registry import Entry
from sfumato.mechanism.base import Mechanism
from sfumato.space import Space


def require_calibratable(target: float, known: Entry, epsilon: float | None, neighbour_loss: float | None) -> None:
    """Find what is wrong with the request before anything slow is begun."""
    require_probability(attacker_success=target)
    if epsilon is not None or neighbour_loss is not None:
        raise ParameterError(
            "give one of --attacker-success, --epsilon and --neighbour-loss: epsilon follows from each of them"
        )
    if not known.takes_epsilon:
        raise ParameterError(f"{known.name} has no epsilon to choose; leave --attacker-success out")
    frequency_prior(["the"])  # the library is installed


def calibrate_to_attacker(
    known: Entry, space: Space, options: dict[str, Any], target: float, progress: CompileProgress
) -> AttackerSuccess[Mechanism]:
    """Return the mechanism whose optimal attacker recovers at most ``target``; ``options`` hold the first epsilon."""

    def compile_at(epsilon: float) -> Mechanism:
        progress.prefix = f"tuning {known.name} for epsilon {epsilon:.4g} (slow once, then cached): "
        mechanism: Mechanism = known.compiler(space, **{**options, "epsilon": epsilon})
        progress.prefix = ""
        return mechanism

    return epsilon_for_attacker_success(
        compile_at, target, frequency_prior, start=options["epsilon"], tick=progress.tick, say=progress.say
    )
