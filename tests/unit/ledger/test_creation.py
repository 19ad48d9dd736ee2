"""Budgets are made once, in any number, by anybody, under a name or a pseudonym."""

from __future__ import annotations

import stat
import threading
import traceback
from fractions import Fraction
from pathlib import Path

import pytest

from sfumato.foundation.errors import ParameterError
from sfumato.ledger import BudgetExistsError, Cost, Ledger, LedgerSchemaError, UnknownBudgetError
from sfumato.ledger.address import Address

KEY = b"a secret of sixteen bytes or more"


def test_many_budgets_are_made_in_one_go_and_only_once(ledger: Ledger) -> None:
    names = [f"user {number}" for number in range(1203)]
    assert ledger.create_each(names, kind="concentrated", limit="0.5", scope="unit: user") == 1203
    assert ledger.create_each([*names, "one more"], kind="concentrated", limit=9) == 1
    budgets = list(ledger.budgets())
    assert len(budgets) == 1204
    assert {budget.limit for budget in budgets[:-1]} == {Fraction(1, 2)}
    assert budgets[0].scope == "unit: user"
    assert ledger.verify().passed


def test_each_kind_has_a_budget_of_its_own(ledger: Ledger) -> None:
    ledger.create("ada", kind="pure", limit=1)
    ledger.create("ada", kind="approximate", limit=1, delta_limit="1e-6")
    assert [budget.kind for budget in ledger.budgets("ada")] == ["pure", "approximate"]
    with pytest.raises(BudgetExistsError):
        ledger.create("ada", kind="pure", limit=1)
    with pytest.raises(UnknownBudgetError):
        ledger.budget("ada", "metric")


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"kind": "renyi", "limit": 1}, "kind must be one of"),
        ({"kind": "pure", "limit": -1}, "limit must be"),
        ({"kind": "pure", "limit": "nan"}, "limit must be"),
        ({"kind": "pure", "limit": 1, "delta_limit": 1e-6}, "kind 'pure' has no delta_limit"),
        ({"kind": "approximate", "limit": 1}, "kind 'approximate' needs a delta_limit"),
        ({"kind": "approximate", "limit": 1, "delta_limit": 2}, "at most 1"),
        ({"kind": "pure", "limit": 1, "scope": "nul \0"}, "scope must be"),
        ({"kind": "pure", "limit": "1e12"}, "too large"),
    ],
)
def test_terms_that_make_no_sense_are_refused(ledger: Ledger, terms: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        ledger.create("ada", **terms)  # type: ignore[arg-type]
    assert list(ledger.budgets()) == []


@pytest.mark.parametrize("subject", ["", "x" * 501, "nul \0", "\ud800", 3])
def test_a_subject_is_a_text(ledger: Ledger, subject: str) -> None:
    with pytest.raises(ParameterError, match="a subject is a text"):
        ledger.create(subject, kind="pure", limit=1)


def test_subjects_are_told_apart_exactly(ledger: Ledger) -> None:
    names = ["ada", "Ada", "ada ", "a\u0301da", "\u00e1da", "'; DROP TABLE sfumato_budgets; --", "%", "a\nb", "😀"]
    assert ledger.create_each(names, kind="pure", limit=1) == len(names)
    for name in names:
        ledger.charge(name, Cost.pure("0.5"))
    assert [budget.spent for budget in ledger.budgets()] == [Fraction(1, 2)] * len(names)


def test_two_threads_make_a_budget_once(ledger: Ledger) -> None:
    made: list[int] = []
    errors: list[BaseException] = []
    together = threading.Barrier(8)

    def create() -> None:
        together.wait()
        try:
            made.append(ledger.create_each([f"user {n}" for n in range(40)], kind="pure", limit=1))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sum(made) == 40
    assert ledger.verify().budgets == 40


def test_pseudonyms_hide_names_and_need_their_key(address: str) -> None:
    with Ledger.open(address, subject_key=KEY) as ledger:
        ledger.create("ada", kind="pure", limit=1)
        ledger.charge("ada", Cost.pure("0.25"))
        stored = [budget.subject for budget in ledger.budgets()]
        assert stored != ["ada"]
        assert len(stored[0]) == 64
        assert ledger.budget("ada", "pure").spent == Fraction(1, 4)
        assert ledger.verify().passed
    with Ledger.open(address, subject_key=KEY) as again:
        assert len(list(again.history("ada"))) == 1
    for key, message in ((b"another secret, also long", "another key"), (None, "another key")):
        with pytest.raises(LedgerSchemaError, match=message):
            Ledger.open(address, subject_key=key)
    with pytest.raises(ParameterError, match="at least 16 bytes"):
        Ledger.open(address, subject_key=b"short")


def test_a_ledger_of_plain_names_is_not_opened_with_a_key(ledger: Ledger, address: str) -> None:
    with pytest.raises(LedgerSchemaError, match="plain names"):
        Ledger.open(address, subject_key=KEY)


def test_a_new_file_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "budgets.db"
    Ledger.open(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_ledger_shows_neither_password_nor_key(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "budgets.db", subject_key=KEY) as ledger:
        assert repr(ledger) == f"Ledger({str(tmp_path / 'budgets.db')!r})"
        assert "secret" not in repr(ledger._subjects)
        with pytest.raises(TypeError, match="open it again"):
            __import__("pickle").dumps(ledger)


@pytest.mark.parametrize(
    "address",
    ["", ":memory:", "sqlite://", "mysql://u:hunter2@h/d", "file:x.db?mode=memory", "postgresql://u:hunter2@h:port/d"],
)
def test_addresses_that_cannot_hold_a_ledger(address: str) -> None:
    with pytest.raises(ParameterError, match=r"a ledger|the address") as caught:
        Ledger.open(address)
    assert "hunter2" not in str(caught.value)
    assert "postgresql://user@host" in str(caught.value)


@pytest.mark.parametrize("password", ["hun@ter2", "hun@/ter2", "hun@te/r2", "hun@?ter2", "hun@t?er2", "h@un@ter2"])
def test_a_password_with_an_at_sign_is_not_taken_for_the_host(password: str) -> None:
    with pytest.raises(ParameterError, match="%40") as caught:
        Ledger.open(f"postgresql://ada:{password}@127.0.0.1:1/privacy")
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert "2@127" not in shown
    assert password.partition("@")[2] not in shown


@pytest.mark.parametrize("password", ["hunter2/", "hunter2#", "hunter2?", "hunter2]", "hunter2%40", "hunter2:5432"])
def test_no_password_is_in_what_is_shown_of_an_address(password: str) -> None:
    for url in (f"postgresql://ada:{password}@db.example/privacy", "postgresql://db.example/privacy?password=hunter2"):
        address = Address.parse(url)
        assert address.shown == "postgresql://db.example/privacy"
        assert "hunter2" not in repr(address)
