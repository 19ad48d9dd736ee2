"""Who is let through, what is counted, and that a repeated run pays once wherever it is taken up again."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.foundation.errors import ParameterError
from sfumato.foundation.randomness import RunKey
from sfumato.ledger import Cost, Ledger, OverdraftError, ReusedKeyError, UnlikeCostError
from sfumato.release import Gate, ReleaseTally

TENTH = Cost.pure("0.1")
KEY = RunKey.from_seed(5)


def spent(ledger: Ledger, *names: str) -> list[Fraction]:
    return [ledger.budget(name, "pure").spent for name in names]


@pytest.mark.parametrize("key", [None, KEY], ids=["without a run key", "with a run key"])
def test_records_of_those_who_cannot_pay_are_held_back_and_counted(ledger: Ledger, key: RunKey | None) -> None:
    ledger.create("ada", kind="pure", limit="0.25")
    ledger.create("bob", kind="pure", limit=1)
    gate = Gate(ledger, key=key)
    subjects = ["ada", "bob", "ada", None, "ada", "eve", "bob", ""]
    assert gate.admit(subjects, [TENTH] * 8) == [True, True, True, False, False, False, True, False]
    assert gate.tally == ReleaseTally(released=4, exhausted=1, without_budget=3)
    assert gate.tally.held_back == 4
    assert spent(ledger, "ada", "bob") == [Fraction(1, 5), Fraction(1, 5)]
    assert not gate.stopped
    assert gate.admit(["ada", "bob"], [TENTH] * 2, first_record=8) == [False, True]
    assert gate.tally.exhausted == 2


@pytest.mark.parametrize("key", [None, KEY], ids=["without a run key", "with a run key"])
def test_stopping_releases_nothing_from_the_first_refusal_on(ledger: Ledger, key: RunKey | None) -> None:
    ledger.create_each(["ada", "bob"], kind="pure", limit="0.25")
    gate = Gate(ledger, key=key, when_exhausted="stop", name_subjects=True)
    assert gate.admit(["ada", "bob"], [TENTH] * 2) == [True, True]
    assert gate.admit(["ada", "bob", "ada", "bob", "bob"], [TENTH] * 5, first_record=2) == [True, True] + [False] * 3
    assert gate.stopped
    assert gate.admit(["bob"], [TENTH], first_record=7) == [False]
    assert gate.tally == ReleaseTally(released=4, exhausted=1, after_stop=3, who=frozenset(["ada"]))
    assert spent(ledger, "ada", "bob") == [Fraction(1, 5), Fraction(1, 5)]


def test_stopping_at_a_record_of_nobody(ledger: Ledger) -> None:
    ledger.create("ada", kind="pure", limit=1)
    gate = Gate(ledger, when_exhausted="stop")
    assert gate.admit(["ada", None, "ada"], [TENTH] * 3) == [True, False, False]
    assert gate.tally == ReleaseTally(released=1, without_budget=1, after_stop=1)


def test_names_are_kept_only_where_they_are_asked_for(ledger: Ledger) -> None:
    ledger.create("ada", kind="pure", limit="0.1")
    for asked, expected in ((False, frozenset()), (True, frozenset({"ada", "eve"}))):
        gate = Gate(ledger, name_subjects=asked)
        gate.admit(["ada", "ada", "eve"], [TENTH] * 3)
        assert gate.tally.who == expected
        assert "ada" not in repr(gate.tally)


@given(
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=8),
    others=st.lists(st.integers(1, 7), min_size=1, max_size=8),
    restart=st.integers(0, 20),
    owners=st.lists(st.sampled_from(["ada", "bob", "cyd", "eve", None]), min_size=20, max_size=20),
)
@settings(max_examples=15)
@pytest.mark.parametrize("when", ["skip", "stop"])
def test_a_run_that_is_taken_up_again_anywhere_pays_once(
    tmp_path_factory: pytest.TempPathFactory, when: str, lengths: list[int], others: list[int], restart: int, owners
) -> None:
    """Batches of other lengths, from another record on, admit the same records and charge nothing anew."""
    with Ledger.open(tmp_path_factory.mktemp("ledger") / "budgets.db") as ledger:
        ledger.create_each(["ada", "bob", "cyd"], kind="pure", limit="0.45")
        contents = [f"text {number}" for number in range(20)]

        def run(sizes: list[int], start: int) -> list[bool]:
            gate = Gate(ledger, key=KEY, when_exhausted=when)
            admitted = []
            turn = 0
            while start < 20:
                stop = min(20, start + sizes[turn % len(sizes)])
                admitted += gate.admit(
                    owners[start:stop], [TENTH] * (stop - start), first_record=start, contents=contents[start:stop]
                )
                start, turn = stop, turn + 1
            return admitted

        first = run(lengths, 0)
        before = ledger.verify().digest
        if when == "stop":
            restart = min(restart, first.count(True))  # a run that stopped is not taken up behind its end
        assert run(others, restart) == first[restart:]
        assert ledger.verify().digest == before


def test_other_texts_under_the_same_run_key_are_refused(ledger: Ledger) -> None:
    ledger.create("ada", kind="pure", limit=1)
    for when in ("skip", "stop"):
        key = RunKey.generate()
        assert Gate(ledger, key=key, when_exhausted=when).admit(["ada"], [TENTH], contents=["one"]) == [True]
        assert Gate(ledger, key=key, when_exhausted=when).admit(["ada"], [TENTH], contents=["one"]) == [True]
        with pytest.raises(ReusedKeyError):
            Gate(ledger, key=key, when_exhausted=when).admit(["ada"], [TENTH], contents=["other"])
        with pytest.raises(ReusedKeyError):
            Gate(ledger, key=key, when_exhausted=when, purpose="p").admit(["ada"], [TENTH], contents=["one"])
    assert spent(ledger, "ada") == [Fraction(1, 5)]


def test_unlike_costs_are_an_error_and_no_refusal(ledger: Ledger) -> None:
    ledger.create("ada", kind="pure", limit=1, scope="unit: word")
    with pytest.raises(UnlikeCostError):
        Gate(ledger).admit(["ada"], [Cost.pure("0.1", scope="unit: user")])


def test_what_is_wrong_with_the_call_is_said(ledger: Ledger) -> None:
    with pytest.raises(ParameterError, match="when_exhausted"):
        Gate(ledger, when_exhausted="beg")
    with pytest.raises(ParameterError, match="as many subjects"):
        Gate(ledger).admit(["ada"], [])
    with pytest.raises(ParameterError, match="as many subjects"):
        Gate(ledger).admit(["ada"], [TENTH], contents=["a", "b"])


def test_a_batch_is_one_transaction(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.create_each([f"user {number}" for number in range(50)], kind="pure", limit=1)
    written = []
    write = ledger._database.write
    monkeypatch.setattr(ledger._database, "write", lambda work: written.append(1) or write(work))
    Gate(ledger, key=KEY).admit([f"user {number % 50}" for number in range(300)], [TENTH] * 300)
    assert len(written) == 1


def test_nothing_is_let_through_when_the_ledger_fails(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.create("ada", kind="pure", limit=1)

    def fails(work: object) -> None:
        raise OverdraftError("as if") from None

    monkeypatch.setattr(ledger._database, "write", fails)
    gate = Gate(ledger)
    with pytest.raises(OverdraftError):
        gate.admit(["ada"], [TENTH])
    assert gate.tally.released == 0
