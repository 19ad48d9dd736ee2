"""One request's release: charge, draw, answer.  The only place of the service where text becomes noisy text."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from sfumato.accounting.documents import document_composition
from sfumato.foundation.errors import ParameterError
from sfumato.foundation.guarantee import Guarantee
from sfumato.ledger import Charge, Cost, Ledger
from sfumato.release import release
from sfumato.sanitize import SanitizedBatch
from sfumato.server.catalogue import Service, described
from sfumato.server.keys import Caller
from sfumato.server.noise import NoiseKey


class SubjectError(ParameterError):
    """A request does not say whose budget is to be charged, or may not charge it."""


@dataclass(frozen=True)
class Release:
    """Texts that may be seen, what is promised about them, and the charge that paid for them."""

    texts: list[str] = field(repr=False)
    guarantee: Guarantee
    protected: int
    """How many words were drawn in all; public, as the positions of protected words are."""
    longest: int
    """Most protected words in one text."""
    charge: Charge | None

    @property
    def composition(self) -> dict[str, object] | None:
        """What the promise about a word comes to for the longest text."""
        found = document_composition(self.guarantee, self.longest)
        return None if found is None else found.to_json()


class Releases:
    """Charges and draws."""

    def __init__(self, ledger: Ledger | None, noise: NoiseKey) -> None:
        self._ledger = ledger
        self._noise = noise

    @property
    def ledger(self) -> Ledger | None:
        """The budgets, where they are kept."""
        return self._ledger

    def make(
        self, service: Service, caller: Caller, texts: list[str], *, subject: str | None, key: str | None
    ) -> Release:
        """Charge the subject for the texts and draw them; where the charge fails, nothing is drawn."""
        subject = self.subject_of(caller, subject)
        repeatable = None
        if key is not None:
            asked = [subject or "", service.policy, described(service.choice), _promise(service.guarantee), *texts]
            repeatable = self._noise.repeatable(caller.id, key, asked)

        def run() -> SanitizedBatch:
            return service.sanitizer.batch(texts, key=None if repeatable is None else repeatable.run_key)

        if self._ledger is None or service.prices is None or subject is None:
            return _released(run(), None)
        cost = _cost(service, texts)
        if cost is None:
            return _released(run(), None)
        released = release(
            self._ledger,
            subject,
            cost,
            run,
            key=None if repeatable is None else repeatable.ledger_key,
            fingerprint="" if repeatable is None else repeatable.fingerprint,
            repeatable=repeatable is not None,
            purpose=described(service.choice)[:200],
        )
        return _released(released.value, released.charge)

    def make_conversation(
        self, service: Service, caller: Caller, texts: dict[int, str], *, subject: str | None, conversation: str
    ) -> Release:
        """Charge and draw the messages of a conversation, given by their places: each once, however often it is sent.

        A message that is sent again in its place gets the noise it had, which is no second release and costs nothing.
        """
        made = [
            self.make(service, caller, [text], subject=subject, key="\0".join((conversation, str(place), text)))
            for place, text in texts.items()
        ]
        charges = [one.charge for one in made if one.charge is not None]
        return Release(
            [text for one in made for text in one.texts],
            service.guarantee,
            sum(one.protected for one in made),
            max((one.longest for one in made), default=0),
            next((charge for charge in charges if not charge.replayed), charges[0] if charges else None),
        )

    def subject_of(self, caller: Caller, subject: str | None) -> str | None:
        """Return whose budget is charged; None where there are no budgets."""
        if self._ledger is None:
            return None
        subject = subject or caller.subject
        if subject is None:
            raise SubjectError("say whose budget is to be charged: the key has no subject of its own")
        if not caller.may_name(subject):
            raise SubjectError("this key may not speak for that subject")
        return subject


def _cost(service: Service, texts: list[str]) -> Cost | None:
    """Return the price of the texts together; None where nothing is drawn."""
    assert service.prices is not None
    cost = service.prices.of_texts(texts)
    return cost if cost.amount or cost.delta else None


def _promise(guarantee: Guarantee) -> str:
    return json.dumps(guarantee.to_json(), sort_keys=True, default=str)


def _released(batch: SanitizedBatch, charge: Charge | None) -> Release:
    counts = batch.counts
    return Release(batch.texts, batch.guarantee, counts.protected, counts.longest_record, charge)
