"""Lets records through whose subjects can pay, a batch at a time, and counts the others.

All charges of a batch are made in one transaction, one for each subject, before anything of the batch is released.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sfumato.foundation.checks import require_one_of
from sfumato.foundation.errors import BudgetError, ParameterError
from sfumato.foundation.randomness import RunKey
from sfumato.ledger import Cost, Ledger, OverdraftError, Request, UnknownBudgetError
from sfumato.release.single import ReleasedBeforeError

WHEN_EXHAUSTED = ("skip", "stop")


@dataclass(frozen=True)
class ReleaseTally:
    """How many records were released, and how many were not, and why.  Never whose."""

    released: int = 0
    exhausted: int = 0
    """Their subject's budget has not enough left."""
    without_budget: int = 0
    """Their subject has no budget, or there is no subject."""
    after_stop: int = 0
    """They came after the record at which the run stopped."""
    who: frozenset[str] = field(default=frozenset(), repr=False)
    """The subjects of records that were held back; filled only where it was asked for."""

    @property
    def held_back(self) -> int:
        """How many records were not released."""
        return self.exhausted + self.without_budget + self.after_stop

    def __add__(self, other: ReleaseTally) -> ReleaseTally:
        return ReleaseTally(
            self.released + other.released,
            self.exhausted + other.exhausted,
            self.without_budget + other.without_budget,
            self.after_stop + other.after_stop,
            self.who | other.who,
        )


class Gate:
    """Charges the subjects of records and says which records may be released.

    ``when_exhausted`` is ``"skip"`` (hold back the records of subjects that cannot pay) or ``"stop"`` (release
    nothing
    from the first such record on).  With a run key, a repeated run finds its own charges and pays nothing: its noise
    is the same.  A repeated run over *other* texts under the same run key is refused: the same noise on two texts
    gives both away.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        key: RunKey | None = None,
        when_exhausted: str = "skip",
        purpose: str = "",
        name_subjects: bool = False,
    ) -> None:
        require_one_of(WHEN_EXHAUSTED, when_exhausted=when_exhausted)
        self._ledger = ledger
        self._key = key
        self._run = None if key is None else key.stream("ledger run", b"").uint64(2).tobytes().hex()
        self._stops = when_exhausted == "stop"
        self._purpose = purpose
        self._names = name_subjects
        self.stopped = False
        self.tally = ReleaseTally()

    def admit(
        self,
        subjects: Sequence[str | None],
        costs: Sequence[Cost],
        *,
        first_record: int = 0,
        contents: Sequence[str] = (),
    ) -> list[bool]:
        """Charge the records of a batch and return which of them may be released.

        ``contents`` are the texts, of which a digest under the run key is kept, so that a repeated run is recognised.
        """
        if len(subjects) != len(costs) or (contents and len(contents) != len(costs)):
            raise ParameterError("a batch has as many subjects as costs (and contents)")
        if self.stopped:
            self.tally += ReleaseTally(after_stop=len(costs))
            return [False] * len(costs)
        groups: dict[str, list[int]] = {}
        for place, subject in enumerate(subjects):
            if subject:
                groups.setdefault(subject, []).append(place)
        if self._stops:
            return self._admit_until_refusal(subjects, costs, groups, first_record, contents)
        admitted = [False] * len(costs)
        tally = ReleaseTally(without_budget=len(costs) - sum(map(len, groups.values())))
        requests = [
            self._request(subject, places, costs, first_record, contents, partial=True)
            for subject, places in groups.items()
        ]
        outcomes = self._ledger.charge_each(requests)
        for (subject, places), outcome in zip(groups.items(), outcomes, strict=True):
            for place in places[: outcome.accepted]:
                admitted[place] = True
            held = len(places) - outcome.accepted
            tally += _held_back(outcome.refusal, held, subject if self._names else None)
            if outcome.charge is not None and outcome.charge.replayed and self._key is None:
                raise ReleasedBeforeError("a charge without a run key came back from the ledger; nothing is released")
        self.tally += replace(tally, released=sum(admitted))
        return admitted

    def _admit_until_refusal(
        self,
        subjects: Sequence[str | None],
        costs: Sequence[Cost],
        groups: dict[str, list[int]],
        first_record: int,
        contents: Sequence[str],
    ) -> list[bool]:
        """Charge the whole batch, or else one record after the other up to the first that cannot be paid for."""
        requests = [self._request(subject, places, costs, first_record, contents) for subject, places in groups.items()]
        if all(subjects):
            try:
                self._ledger.charge_all(requests)
            except (OverdraftError, UnknownBudgetError):
                pass
            else:
                self.tally += ReleaseTally(released=len(costs))
                return [True] * len(costs)
        released = 0
        refusal: Exception | None = None
        for place, subject in enumerate(subjects):
            if not subject:
                break
            outcome = self._ledger.charge_each([self._request(subject, [place], costs, first_record, contents)])[0]
            if not outcome.accepted:
                refusal = outcome.refusal
                break
            released += 1
        self.stopped = True
        who = subjects[released] if self._names else None
        left = len(costs) - released - 1
        self.tally += ReleaseTally(released=released, after_stop=left) + _held_back(refusal, 1, who or None)
        return [True] * released + [False] * (left + 1)

    def _request(
        self,
        subject: str,
        places: list[int],
        costs: Sequence[Cost],
        first_record: int,
        contents: Sequence[str],
        *,
        partial: bool = False,
    ) -> Request:
        key = fingerprint = None
        if self._key is not None:
            # The place of the first record names the group: batches begin at the same records when a run is repeated.
            key = f"{self._run}:{first_record + places[0]}:{len(places)}"
            texts = "\0".join(contents[place] for place in places) if contents else ""
            message = f"{self._purpose}\0{costs[places[0]].scope}\0{texts}".encode(errors="surrogatepass")
            fingerprint = hmac.new(self._key.secret, message, hashlib.sha256).hexdigest()
        return Request(
            subject, [costs[place] for place in places], key, self._purpose, fingerprint or "", partial=partial
        )


def _held_back(refusal: Exception | None, count: int, who: str | None) -> ReleaseTally:
    if count == 0:
        return ReleaseTally()
    names = frozenset([who] if who else [])
    if refusal is None or isinstance(refusal, UnknownBudgetError):
        return ReleaseTally(without_budget=count, who=names)
    if isinstance(refusal, OverdraftError):
        return ReleaseTally(exhausted=count, who=names)
    if isinstance(refusal, BudgetError):
        raise refusal
    raise TypeError(f"a refusal of type {type(refusal).__name__}")
