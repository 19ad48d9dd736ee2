"""Whoever alters the past is found out; whoever alters it by accident is stopped."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy

from sfumato.ledger import Cost, Ledger
from sfumato.ledger.chain import first_link, next_link

TRIGGERS = ("sfumato_charges_update", "sfumato_charges_delete", "sfumato_budgets_update", "sfumato_budgets_delete")


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[tuple[Ledger, Path]]:
    """Four budgets; the first has the number 1 and four charges, the second one charge, the others none."""
    path = tmp_path / "budgets.db"
    with Ledger.open(path) as ledger:
        ledger.create("ada", kind="pure", limit=1, scope="unit: word")
        ledger.create("bob", kind="approximate", limit=1, delta_limit="1e-6")
        for number in range(4):
            ledger.charge("ada", Cost.pure("0.1"), key=f"k{number}", purpose="tem", fingerprint="f")
        ledger.charge("bob", Cost.approximate("0.5", "1e-7"))
        ledger.create("ada", kind="metric", limit=1, scope="unit: word")
        ledger.create("bob", kind="metric", limit=1)
        assert ledger.verify().passed
        yield ledger, path


def tamper(path: Path, *statements: str) -> None:
    """Change the tables as somebody with the file in hands can, guards and checks out of the way."""
    with sqlite3.connect(path) as connection:
        for trigger in TRIGGERS:
            connection.execute(f"DROP TRIGGER {trigger}")
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for statement in statements:
            assert connection.execute(statement).rowcount > 0
    connection.close()


CHARGES, BUDGETS = "UPDATE sfumato_charges SET", "UPDATE sfumato_budgets SET"
ALTERATIONS = {
    "amount": (f"{CHARGES} amount = amount - 1 WHERE budget_id = 1 AND number = 2",),
    "amount, and the balance with it": (
        f"{CHARGES} amount = amount - 1 WHERE budget_id = 1 AND number = 2",
        f"{BUDGETS} spent_units = spent_units - 1 WHERE id = 1",
    ),
    "delta": (f"{CHARGES} delta = 0 WHERE budget_id = 2", f"{BUDGETS} spent_delta = 0 WHERE id = 2"),
    "releases": (f"{CHARGES} releases = 9 WHERE budget_id = 1 AND number = 4",),
    "key": (f"{CHARGES} key = 'x' WHERE budget_id = 1 AND number = 1",),
    "fingerprint": (f"{CHARGES} fingerprint = '' WHERE budget_id = 1 AND number = 1",),
    "purpose": (f"{CHARGES} purpose = '' WHERE budget_id = 1 AND number = 1",),
    "time": (f"{CHARGES} charged_at = charged_at + 1 WHERE budget_id = 1 AND number = 1",),
    "hash": (f"{CHARGES} hash = zeroblob(32) WHERE budget_id = 1 AND number = 3",),
    "last hash": (f"{CHARGES} hash = zeroblob(32) WHERE budget_id = 1 AND number = 4",),
    "a charge is removed": ("DELETE FROM sfumato_charges WHERE budget_id = 1 AND number = 2",),
    "the first charge is removed": ("DELETE FROM sfumato_charges WHERE budget_id = 1 AND number = 1",),
    "the last charge is removed": (
        "DELETE FROM sfumato_charges WHERE budget_id = 1 AND number = 4",
        f"{BUDGETS} spent_units = 300000000, charges = 3 WHERE id = 1",
    ),
    "charges change places": (
        f"{CHARGES} number = 9 WHERE budget_id = 1 AND number = 2",
        f"{CHARGES} number = 2 WHERE budget_id = 1 AND number = 3",
        f"{CHARGES} number = 3 WHERE budget_id = 1 AND number = 9",
    ),
    "a charge is given to another": (f"{CHARGES} budget_id = 1, number = 5 WHERE budget_id = 2",),
    "limit": (f"{BUDGETS} limit_units = 2 * limit_units WHERE id = 1",),
    "delta limit": (f"{BUDGETS} limit_delta = 2 * limit_delta WHERE id = 2",),
    "spent": (f"{BUDGETS} spent_units = 0 WHERE id = 1",),
    "spent delta": (f"{BUDGETS} spent_delta = 0 WHERE id = 2",),
    "head": (f"{BUDGETS} head = zeroblob(32) WHERE id = 1",),
    "count": (f"{BUDGETS} charges = 3 WHERE id = 1",),
    "kind": (f"{BUDGETS} kind = 'gaussian' WHERE id = 1",),
    "scope": (f"{BUDGETS} scope = 'unit: user' WHERE id = 1",),
    "scope of a budget without charges": (f"{BUDGETS} scope = 'unit: user' WHERE id = 3",),
    "scope taken from a budget without charges": (f"{BUDGETS} scope = '' WHERE id = 3",),
    "scope given to a budget without charges": (f"{BUDGETS} scope = 'unit: user' WHERE id = 4",),
    "subject": (f"{BUDGETS} subject = 'eve' WHERE id = 1",),
    "creation": (f"{BUDGETS} created_at = 0 WHERE id = 1",),
    "a budget is removed": ("DELETE FROM sfumato_budgets WHERE id = 1",),
    "the last budget with charges is removed": ("DELETE FROM sfumato_budgets WHERE id = 2",),
}


@pytest.mark.parametrize("statements", ALTERATIONS.values(), ids=ALTERATIONS.keys())
def test_every_alteration_is_found(filled: tuple[Ledger, Path], statements: tuple[str, ...]) -> None:
    ledger, path = filled
    tamper(path, *statements)
    result = ledger.verify()
    assert not result.passed
    assert not any(name in problem for problem in result.problems for name in ("ada", "bob", "eve"))


def _budget_without_its_last_charge(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        (link,) = connection.execute("SELECT hash FROM sfumato_charges WHERE budget_id = 1 AND number = 3").fetchone()
    connection.close()
    tamper(
        path,
        "DELETE FROM sfumato_charges WHERE budget_id = 1 AND number = 4",
        f"{BUDGETS} spent_units = 300000000, charges = 3, head = x'{link.hex()}' WHERE id = 1",
    )


def _one_budget_less(path: Path) -> None:
    tamper(path, "DELETE FROM sfumato_charges WHERE budget_id = 2", "DELETE FROM sfumato_budgets WHERE id = 2")


@pytest.mark.parametrize("rewrite", [_budget_without_its_last_charge, _one_budget_less])
def test_a_consistent_rewriting_is_found_by_anchors_kept_elsewhere(
    filled: tuple[Ledger, Path], rewrite: Callable[[Path], None]
) -> None:
    ledger, path = filled
    anchors, digest = ledger.anchors(), ledger.verify().digest
    ledger.charge("ada", Cost.pure("0.1"))
    assert ledger.verify(anchors).passed, "anchors stay good while the ledger grows"
    with Ledger.open(path) as other:
        grown = other.anchors()
    tamper(path, f"{BUDGETS} charges = charges WHERE id = 1")  # the guards are gone, nothing has changed
    assert ledger.verify(grown).passed
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE copies AS SELECT 1")
        for trigger in TRIGGERS:  # tamper() removes them once more
            table, what = trigger.rsplit("_", 1)
            connection.execute(
                f"CREATE TRIGGER {trigger} BEFORE {what} ON {table} BEGIN SELECT RAISE(ABORT, 'no'); END"
            )
    connection.close()
    rewrite(path)
    assert not ledger.verify(grown).passed
    assert ledger.verify().digest != digest


def test_guards_refuse_to_change_the_past(address: str) -> None:
    """Not against an enemy: against a mistaken statement in a console."""
    with Ledger.open(address) as ledger:
        ledger.create("ada", kind="pure", limit=1)
        ledger.charge("ada", Cost.pure("0.1"))
        before = ledger.verify()
        engine = sqlalchemy.create_engine(address.replace("postgresql://", "postgresql+psycopg://")
                                          if "://" in address else f"sqlite:///{address}")  # fmt: skip
        statements = [
            f"{CHARGES} amount = 0",
            "DELETE FROM sfumato_charges",
            f"{BUDGETS} spent_units = 0",
            f"{BUDGETS} limit_units = 2 * limit_units",
            f"{BUDGETS} charges = charges",
            "DELETE FROM sfumato_budgets",
            f"{BUDGETS} spent_units = limit_units + 1, charges = charges + 1",
            f"{CHARGES} number = 2",
        ]
        if "://" in address:
            statements += ["TRUNCATE sfumato_charges", "TRUNCATE sfumato_budgets"]
        for statement in statements:
            with pytest.raises(sqlalchemy.exc.DBAPIError), engine.begin() as connection:
                connection.execute(sqlalchemy.text(statement))
        engine.dispose()
        assert ledger.verify() == before


def test_a_scope_that_comes_with_the_first_charge_passes_as_well(ledger: Ledger) -> None:
    ledger.create("ada", kind="metric", limit=1)
    before = ledger.anchors()
    ledger.charge("ada", Cost.metric("0.1", scope="unit: word"))
    assert ledger.verify(before).passed


def test_long_lists_of_problems_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "budgets.db"
    with Ledger.open(path) as ledger:
        ledger.create_each([str(number) for number in range(150)], kind="pure", limit=1)
        tamper(path, f"{BUDGETS} spent_units = 1")
        problems = ledger.verify().problems
    assert len(problems) == 101
    assert problems[-1] == "and 50 more"


def test_charges_without_a_budget_are_found_wherever_they_are(tmp_path: Path) -> None:
    path = tmp_path / "budgets.db"
    with Ledger.open(path) as ledger:
        ledger.create_each("abc", kind="pure", limit=1)
        for name in "abc":
            ledger.charge(name, Cost.pure("0.1"))
        tamper(path, "DELETE FROM sfumato_budgets WHERE id IN (1, 3)")
        result = ledger.verify()
    assert result.charges == 3
    assert [problem.split(" belong")[0] for problem in result.problems] == ["1 charges"] * 2


def test_an_empty_ledger_passes(ledger: Ledger) -> None:
    result = ledger.verify()
    assert (result.passed, result.budgets, result.charges) == (True, 0, 0)


LINK = (b"p" * 32, 1, 2, 0, 1, "k", "f", "t", 5, "s")


@pytest.mark.parametrize("place", range(len(LINK)))
def test_a_link_depends_on_everything(place: int) -> None:
    changed = list(LINK)
    value = changed[place]
    changed[place] = value + 1 if isinstance(value, int) else value + value[:1]  # type: ignore[operator,index]
    assert next_link(*changed) != next_link(*LINK)  # type: ignore[arg-type]


def test_links_keep_fields_apart() -> None:
    assert first_link("a", "bc", "pure", 1, 0, 0) != first_link("ab", "c", "pure", 1, 0, 0)
    assert first_link("l", 'a","b', "pure", 1, 0, 0) != first_link("l", "a", "b", 1, 0, 0)
