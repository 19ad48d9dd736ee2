"""Lets records through whose subjects can pay, a batch at a time, and counts the others.

All charges of a batch are made in one transaction, before anything of the batch is released.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sfumato.foundation.checks import require_one_of
from sfumato.foundation.errors import BudgetError, ParameterError
from sfumato.foundation.randomness import RunKey
from sfumato.ledger import Cost, Ledger, OverdraftError, Request, UnknownBudgetError

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

    def to_json(self) -> dict[str, int]:
        """Return the numbers, without any names."""
        names = ("released", "exhausted", "without_budget", "after_stop")
        return {name: getattr(self, name) for name in names}

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
    nothing from the first such record on).  With a run key every record is a charge of its own, whose idempotency key
    follows from the run key and the record's number: a run that is repeated, or taken up again from any record, finds
    its own charges and pays nothing for what it paid before, and its noise is the same.  *Other* texts under the same
    run key are refused, and so is the same text under other ``terms`` (words that tell one way of drawing from
    another): the same noise on two texts, or through two mechanisms, gives more away than was paid for.  Without a
    run key, the records of a subject in one batch are one charge, as far as they are affordable.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        key: RunKey | None = None,
        when_exhausted: str = "skip",
        purpose: str = "",
        terms: str = "",
        name_subjects: bool = False,
    ) -> None:
        require_one_of(WHEN_EXHAUSTED, when_exhausted=when_exhausted)
        self._ledger = ledger
        self._key = key
        self._run = None if key is None else key.stream("ledger run", b"").uint64(2).tobytes().hex()
        self._stops = when_exhausted == "stop"
        self._purpose = purpose
        self._terms = terms
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

        def request(subject: str, places: list[int]) -> Request:
            return self._request(subject, places, costs, first_record, contents)

        if self._stops:
            return self._admit_until_refusal(subjects, request)
        admitted = [False] * len(costs)
        groups = self._groups(subjects)
        tally = ReleaseTally(without_budget=sum(not subject for subject in subjects))
        outcomes = self._ledger.charge_each([request(subject, places) for subject, places in groups])
        for (subject, places), outcome in zip(groups, outcomes, strict=True):
            for place in places[: outcome.accepted]:
                admitted[place] = True
            held = len(places) - outcome.accepted
            tally += _held_back(outcome.refusal, held, subject if self._names else None)
        self.tally += replace(tally, released=sum(admitted))
        return admitted

    def _groups(self, subjects: Sequence[str | None]) -> list[tuple[str, list[int]]]:
        """Return the records that become one charge: each its own where the run may be repeated, else a subject's."""
        if self._key is not None:
            return [(subject, [place]) for place, subject in enumerate(subjects) if subject]
        groups: dict[str, list[int]] = {}
        for place, subject in enumerate(subjects):
            if subject:
                groups.setdefault(subject, []).append(place)
        return list(groups.items())

    def _admit_until_refusal(
        self, subjects: Sequence[str | None], request: Callable[[str, list[int]], Request]
    ) -> list[bool]:
        """Charge the whole batch, or else one record after the other up to the first that cannot be paid for."""
        if all(subjects):
            try:
                self._ledger.charge_all([request(subject, places) for subject, places in self._groups(subjects)])
            except (OverdraftError, UnknownBudgetError):
                pass
            else:
                self.tally += ReleaseTally(released=len(subjects))
                return [True] * len(subjects)
        released = 0
        refusal: Exception | None = None
        for place, subject in enumerate(subjects):
            if not subject:
                break
            outcome = self._ledger.charge_each([request(subject, [place])])[0]
            if not outcome.accepted:
                refusal = outcome.refusal
                break
            released += 1
        if released == len(subjects):  # somebody made the budget that was missing
            self.tally += ReleaseTally(released=released)
            return [True] * released
        self.stopped = True
        who = subjects[released] if self._names else None
        left = len(subjects) - released - 1
        self.tally += ReleaseTally(released=released, after_stop=left) + _held_back(refusal, 1, who or None)
        return [True] * released + [False] * (left + 1)

    def _request(
        self, subject: str, places: list[int], costs: Sequence[Cost], first_record: int, contents: Sequence[str]
    ) -> Request:
        key, fingerprint = None, ""
        if self._key is not None:
            place = places[0]
            key = f"{self._run}:{first_record + place}"
            text = contents[place] if contents else ""
            message = json.dumps([self._purpose, self._terms, costs[place].scope, text]).encode()
            fingerprint = hmac.new(self._key.secret, message, hashlib.sha256).hexdigest()
        return Request(
            subject,
            [costs[place] for place in places],
            key,
            self._purpose,
            fingerprint,
            partial=not self._stops and self._key is None,
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
