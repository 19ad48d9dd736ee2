"""Texts of many subjects through a sanitizer: each batch is paid for before any of it is drawn."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sfumato.foundation.guarantee import Guarantee
from sfumato.foundation.randomness import RunKey
from sfumato.ledger import Ledger
from sfumato.release.gate import Gate, ReleaseTally
from sfumato.release.prices import PriceList
from sfumato.sanitize import Sanitizer
from sfumato.sanitize.sanitizer import Counts


@dataclass(frozen=True)
class ReleasedTexts:
    """One batch after its release."""

    texts: list[str | None] = field(repr=False)
    """None where a text was held back."""
    guarantee: Guarantee
    counts: Counts


class TextRelease:
    """Sanitizes texts whose subjects can pay.

    >>> import sfumato, tempfile
    >>> space = sfumato.Space.from_arrays(["cold", "cool", "warm", "hot"], [[0.0], [1.0], [3.0], [4.0]])
    >>> sanitizer = Sanitizer(sfumato.compile("tem", space, epsilon=2.0))
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger.open(folder.name + "/budgets.db")
    >>> _ = ledger.create("ada", kind="metric", limit=5)
    >>> releases = TextRelease(ledger, sanitizer)
    >>> batch = releases.batch(["cold", "hot warm", "cool"], ["ada", "ada", "bob"])
    >>> [text is not None for text in batch.texts]
    [True, False, False]
    >>> releases.tally.released, releases.tally.exhausted, releases.tally.without_budget
    (1, 1, 1)
    >>> ledger.close(); folder.cleanup()
    """

    def __init__(
        self,
        ledger: Ledger,
        sanitizer: Sanitizer,
        *,
        key: RunKey | None = None,
        kind: str | None = None,
        when_exhausted: str = "skip",
        name_subjects: bool = False,
    ) -> None:
        self.sanitizer = sanitizer
        self.prices = PriceList.of(sanitizer, kind)
        self._key = key
        self._gate = Gate(
            ledger,
            key=key,
            when_exhausted=when_exhausted,
            purpose=sanitizer.guarantee.mechanism[:200],
            terms=_terms(sanitizer.guarantee),
            name_subjects=name_subjects,
        )

    @property
    def tally(self) -> ReleaseTally:
        """How many records were released so far, and how many held back."""
        return self._gate.tally

    def take_up(self, tally: Mapping[str, int], stopped: bool) -> None:
        """Go on counting where a run was killed; its tally is as :meth:`ReleaseTally.to_json` gives it."""
        self._gate.tally = ReleaseTally(
            tally["released"], tally["exhausted"], tally["without_budget"], tally["after_stop"]
        )
        self._gate.stopped = stopped

    @property
    def stopped(self) -> bool:
        """Whether a subject ran out and no further record will be released."""
        return self._gate.stopped

    def admit(
        self, columns: Sequence[Sequence[str | None]], subjects: Sequence[str | None], *, first_record: int = 0
    ) -> list[bool]:
        """Charge the records of a batch, given as their text columns; return which of them may be released."""
        rows = list(zip(*columns, strict=True))
        costs = [self.prices.of_texts(row) for row in rows]
        contents = [json.dumps(row) for row in rows]
        return self._gate.admit(subjects, costs, first_record=first_record, contents=contents)

    def batch(self, texts: Sequence[str], subjects: Sequence[str | None], *, first_record: int = 0) -> ReleasedTexts:
        """Charge the subjects of the texts and sanitize those that are paid for.

        Records are numbered from ``first_record``; with a run key, each number always gets the same noise, so that a
        batch that is repeated is neither drawn nor charged anew.
        """
        admitted = self.admit([texts], subjects, first_record=first_record)
        # An empty text holds the place of one that is held back, so that the others keep their numbers.
        kept = [text if admits else "" for text, admits in zip(texts, admitted, strict=True)]
        batch = self.sanitizer.batch(kept, key=self._key, first_record=first_record)
        released = [text if admits else None for text, admits in zip(batch.texts, admitted, strict=True)]
        return ReleasedTexts(released, batch.guarantee, batch.counts)


def _terms(guarantee: Guarantee) -> str:
    """Return all that a guarantee says but its wording: a run that differs in any of it draws something else."""
    said = guarantee.to_json()
    del said["statement"]
    return json.dumps(said, sort_keys=True)
