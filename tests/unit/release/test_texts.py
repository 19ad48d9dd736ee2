"""Texts of many subjects: what is held back is not drawn, and numbers of records keep their noise."""

from __future__ import annotations

import pytest

import sfumato
from sfumato.foundation.randomness import RunKey
from sfumato.ledger import Ledger, ReusedKeyError
from sfumato.ledger.amounts import exact
from sfumato.policy import Policy, everything, keep_pattern, numbers, protect_pattern
from sfumato.release import PriceList, TextRelease
from sfumato.sanitize import Sanitizer
from sfumato.sanitize.identifiers import FORMS, IdentifierReplacer

SPACE = sfumato.Space.from_arrays(["cold", "cool", "warm", "hot"], [[0.0], [1.0], [3.0], [4.0]])
SANITIZER = Sanitizer(sfumato.compile("tem", SPACE, epsilon=2.0))
KEY = RunKey.generate()
TEXTS = ["cold", "hot warm", "cool", "warm warm warm", "hot"]
OWNERS = ["ada", "bob", "ada", "ada", "bob"]


@pytest.fixture
def paid(ledger: Ledger) -> Ledger:
    price = SANITIZER.guarantee.certified  # type: ignore[attr-defined]
    ledger.create("ada", kind="metric", limit=2.5 * price)
    ledger.create("bob", kind="metric", limit=100)
    return ledger


def test_paid_texts_come_out_as_without_a_ledger(paid: Ledger) -> None:
    releases = TextRelease(paid, SANITIZER, key=KEY)
    batch = releases.batch(TEXTS, OWNERS)
    free = SANITIZER.batch(TEXTS, key=KEY)
    assert batch.texts == [free.texts[0], free.texts[1], free.texts[2], None, free.texts[4]]
    assert (releases.tally.released, releases.tally.exhausted) == (4, 1)
    assert not releases.stopped
    assert batch.guarantee == free.guarantee


def test_a_repeated_batch_is_the_same_and_free(paid: Ledger) -> None:
    first = TextRelease(paid, SANITIZER, key=KEY).batch(TEXTS, OWNERS)
    before = paid.verify().digest
    assert TextRelease(paid, SANITIZER, key=KEY).batch(TEXTS, OWNERS) == first
    rest = TextRelease(paid, SANITIZER, key=KEY).batch(TEXTS[1:], OWNERS[1:], first_record=1)
    assert rest.texts == first.texts[1:]
    assert paid.verify().digest == before
    with pytest.raises(ReusedKeyError):
        TextRelease(paid, SANITIZER, key=KEY).batch(["hot", *TEXTS[1:]], OWNERS)


def test_one_run_key_does_not_pay_for_two_mechanisms(ledger: Ledger) -> None:
    """The noise would be the same, the outputs not: a second release of the same words that nobody paid for."""
    ledger.create("ada", kind="pure", limit=100)
    mirrored = sfumato.Space.from_arrays(["cool", "cold", "hot", "warm"], [[0.0], [1.0], [3.0], [4.0]])
    one, other = (Sanitizer(sfumato.compile("tem", space, epsilon=2.0)) for space in (SPACE, mirrored))
    prices = [PriceList.of(sanitizer, "pure").of_texts(["cold"]) for sanitizer in (one, other)]
    assert prices[0] == prices[1]
    TextRelease(ledger, one, key=KEY, kind="pure").batch(["cold"], ["ada"])
    assert TextRelease(ledger, one, key=KEY, kind="pure").batch(["cold"], ["ada"]).texts != [None]
    with pytest.raises(ReusedKeyError):
        TextRelease(ledger, other, key=KEY, kind="pure").batch(["cold"], ["ada"])


def test_stopping(paid: Ledger) -> None:
    releases = TextRelease(paid, SANITIZER, when_exhausted="stop")
    batch = releases.batch(TEXTS, OWNERS)
    assert [text is None for text in batch.texts] == [False, False, False, True, True]
    assert releases.stopped


def test_columns_of_a_record_are_paid_for_together(paid: Ledger) -> None:
    releases = TextRelease(paid, SANITIZER, key=KEY)
    assert releases.admit([["cold", "hot"], ["warm warm", None]], ["ada", "ada"]) == [False, True]


def test_null_texts_and_empty_ones_are_told_apart_in_a_repeated_run(paid: Ledger) -> None:
    assert TextRelease(paid, SANITIZER, key=KEY).admit([["cold"], [None]], ["bob"]) == [True]
    with pytest.raises(ReusedKeyError):
        TextRelease(paid, SANITIZER, key=KEY).admit([["cold"], [""]], ["bob"])


PRICE = exact("epsilon", SANITIZER.guarantee.certified)  # type: ignore[attr-defined]
STEERED = [
    (protect_pattern(r"https?://\S+(?:\s+\w+){1,3}"), "www.ada.org cold warm hot"),
    (protect_pattern(r"https?://\S+(?:\s+\w+){1,3}"), "https://ada.org cold warm hot"),
    (protect_pattern(r"\d{6} \w+"), "0171 2345678 cold"),
    (protect_pattern(r"\d{6} \w+"), "+44 171 123456 cold"),
    (keep_pattern(r"[a-z.]+ cold"), "www.ada.org cold"),
    (numbers(), "www.ada.org/77 cold \N{UMBRELLA}0171 2345678\N{UMBRELLA} 1990"),
    (everything(), "bob@work.example,cold \N{UMBRELLA}GB82WEST12345698765432 hot"),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("policy", "text"), STEERED)
def test_what_is_drawn_is_what_was_paid_for_whatever_random_identifiers_look_like(
    ledger: Ledger, policy: Policy, text: str, form: str
) -> None:
    ledger.create("ada", kind="metric", limit=10_000)
    mechanism = sfumato.compile("tem", SPACE, epsilon=2.0)
    sanitizer = Sanitizer(mechanism, policy=policy, identifiers=IdentifierReplacer(form=form))
    batch = TextRelease(ledger, sanitizer).batch([text] * 3, ["ada"] * 3)
    drawn = batch.counts.protected * PRICE
    assert ledger.budget("ada", "metric").spent >= drawn
    assert 3 * PriceList.of(sanitizer).of_texts([text]).amount == drawn
