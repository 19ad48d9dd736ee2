"""Choosing epsilon by what an attacker can recover: a number that needs no mathematics to be understood.

"The best attacker, who knows the mechanism and how frequent words are, recovers at most a quarter of the protected words."
The share is that of the Bayes-optimal attacker who sees one output for each word and a public prior, so no other attacker
that looks at words one at a time does better.  Attackers who also use the words around, or several outputs of one word, can:
the certified epsilon bounds them, this number does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sfumato.audit.channel import Tick, attack_mechanism, input_words
from sfumato.audit.prior import Prior
from sfumato.foundation.checks import LARGEST_EPSILON, gather, require_epsilon, require_probability
from sfumato.foundation.errors import CertificationError
from sfumato.mechanism.base import Mechanism

Found = TypeVar("Found", bound=Mechanism)
_TOLERANCE = 0.02
_MOST_TRIES = 25
_FARTHEST = 1e4


@dataclass(frozen=True)
class AttackerSuccess(Generic[Found]):
    """The mechanism that was found, and what the optimal attacker recovers of its inputs."""

    mechanism: Found
    epsilon: float
    success: float
    target: float
    blind: float
    """What a guess without looking at the output recovers."""
    prior: str
    tries: int

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        names = ("success", "target", "blind", "prior", "tries")
        return {**{name: getattr(self, name) for name in names}, "statement": self.statement()}

    def statement(self) -> str:
        """Return the result in plain English."""
        return (
            f"The best attacker who sees a single output word recovers {self.success:.1%} of the protected words (at most "
            f"{self.target:.1%} were asked for; {self.blind:.1%} are guessed without looking). Assumed known to the "
            f"attacker: the mechanism, epsilon, and {self.prior}. Attackers who use the words around, or several outputs "
            "of the same word, can recover more: what bounds them is the guarantee."
        )


def epsilon_for_attacker_success(
    compile_at: Callable[[float], Found],
    target: float,
    prior_of: Callable[[list[str]], Prior],
    *,
    start: float = 1.0,
    tick: Tick | None = None,
    say: Callable[[str], None] | None = None,
) -> AttackerSuccess[Found]:
    """Return the mechanism with the greatest epsilon found whose optimal attacker recovers at most ``target``.

    Success is not assumed to grow with epsilon: what is returned was computed for the mechanism that is returned.

    >>> import sfumato
    >>> from sfumato.audit.prior import uniform_prior
    >>> line = sfumato.Space.from_arrays(list("abcd"), [[0.0], [1.0], [2.0], [3.0]])
    >>> found = epsilon_for_attacker_success(lambda e: sfumato.compile("tem", line, epsilon=e), 0.5, uniform_prior)
    >>> 0.49 <= found.success <= 0.5
    True
    """
    gather(lambda: require_probability(target=target), lambda: require_epsilon(start=start))
    search = _Search(compile_at, target, prior_of, tick, say)
    low, high = search.bracket(start)
    return search.narrowed(low, high)


@dataclass(frozen=True)
class _Try(Generic[Found]):
    epsilon: float
    success: float
    mechanism: Found

    @property
    def score(self) -> float:
        """Log-odds of success, nearly linear in the logarithm of epsilon."""
        kept = min(max(self.success, 1e-12), 1 - 1e-12)
        return math.log(kept / (1 - kept))


class _Search(Generic[Found]):
    def __init__(
        self,
        compile_at: Callable[[float], Found],
        target: float,
        prior_of: Callable[[list[str]], Prior],
        tick: Tick | None,
        say: Callable[[str], None] | None,
    ) -> None:
        self._compile_at, self._target, self._prior_of = compile_at, target, prior_of
        self._tick, self._say = tick, say
        self._prior: Prior | None = None
        self._tries = 0

    def at(self, epsilon: float) -> _Try[Found]:
        self._tries += 1
        mechanism = self._compile_at(epsilon)
        if self._prior is None:
            self._prior = self._prior_of(input_words(mechanism))
            blind = float(self._prior.chances.max())
            if blind > self._target:
                raise CertificationError(
                    f"the most frequent protected word alone is guessed right {blind:.1%} of the time without looking at "
                    f"any output, so no mechanism keeps an attacker to {self._target:.1%}; ask for more than {blind:.1%}"
                )
        if self._say:
            self._say(f"computing what an attacker recovers at epsilon {epsilon:.4g}")
        attack = attack_mechanism(mechanism, self._prior, self._tick)
        return _Try(epsilon, attack.success, mechanism)

    def bracket(self, start: float) -> tuple[_Try[Found], _Try[Found] | None]:
        """Return tries on both sides of the target; None where even a huge epsilon stays below it."""
        here = self.at(start)
        if here.success <= self._target:
            low = here
            while low.epsilon * 2 <= min(_FARTHEST * start, LARGEST_EPSILON):
                high = self.at(low.epsilon * 2)
                if high.success > self._target:
                    return low, high
                low = high
            return low, None
        high = here
        while high.epsilon > start / _FARTHEST:
            low = self.at(high.epsilon / 2)
            if low.success <= self._target:
                return low, high
            high = low
        raise CertificationError(
            f"even at epsilon {high.epsilon:.3g} the optimal attacker recovers {high.success:.1%} of the protected words "
            "(a mechanism that replaces words within small groups reveals the group whatever epsilon is); ask for more, or "
            "choose another mechanism"
        )

    def narrowed(self, low: _Try[Found], high: _Try[Found] | None) -> AttackerSuccess[Found]:
        while high is not None and low.success < self._target * (1 - _TOLERANCE) and self._tries < _MOST_TRIES:
            if high.epsilon / low.epsilon < 1 + 1e-6:
                break  # success jumps here
            new = self.at(self._between(low, high))
            if new.success <= self._target:
                low = new
            else:
                high = new
        assert self._prior is not None
        blind = float(self._prior.chances.max())
        return AttackerSuccess(
            low.mechanism, low.epsilon, low.success, self._target, blind, self._prior.source, self._tries
        )

    def _between(self, low: _Try[Found], high: _Try[Found]) -> float:
        """Interpolate the log-odds in log epsilon, staying away from both ends."""
        aim = self._target * (1 - _TOLERANCE / 2)
        share = (math.log(aim / (1 - aim)) - low.score) / (high.score - low.score) if high.score > low.score else 0.5
        share = min(max(share, 0.05), 0.95)
        return float(low.epsilon * (high.epsilon / low.epsilon) ** share)
