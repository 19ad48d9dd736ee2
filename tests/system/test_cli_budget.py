"""``sfumato budget``: create, show, charge, history, verify and export, on both databases."""

from __future__ import annotations

import csv
import json
import sqlite3
from pathlib import Path

import pytest
from cli_support import Outcome, Program

pytest.importorskip("sqlalchemy", reason="the extra 'ledger' is not installed")
pytest.importorskip("alembic", reason="the extra 'ledger' is not installed")

from postgres_server import PostgresServer


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "budgets.db")
    return str(request.getfixturevalue("postgres_url"))


def shown(result: Outcome) -> list[dict[str, object]]:
    assert (result.code, result.err) == (0, "")
    data: list[dict[str, object]] = json.loads(result.out)
    return data


def test_a_budget_from_its_making_to_its_end(
    program: Program, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFUMATO_LEDGER", address)
    assert program("budget", "create", "lovelace", "--limit", "1").out == "budget 1: 1 of epsilon\n"
    charge = ("budget", "charge", "lovelace", "--amount", "0.3")
    assert program(*charge, "--key", "request 1").out == "charge 1: 0.3; 0.7 of epsilon left\n"
    assert program(*charge, "--key", "request 1").out == "charged before (charge 1); 0.7 of epsilon left\n"
    assert program(*charge, "--purpose", "tem").code == 0
    assert program(*charge).code == 0
    refused = program(*charge)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == "sfumato: the budget has 0.1 of epsilon left, the release costs 0.3\n"
    rest = shown(program("budget", "show", "lovelace", "--json"))[0]
    assert (rest["limit"], rest["spent"], rest["left"], rest["charges"]) == ("1", "0.9", "0.1", 3)
    lines = program("budget", "history", "lovelace").out.splitlines()
    assert [line.split("\t")[4] for line in lines] == ["amount", "0.3", "0.3", "0.3"]
    target = tmp_path / "history.csv"
    assert "wrote 3 charges" in program("budget", "export", "-o", target).err
    rows = list(csv.DictReader(target.open(newline="")))
    assert [(row["number"], row["amount"], row["purpose"]) for row in rows] == [
        ("1", "0.3", ""),
        ("2", "0.3", "tem"),
        ("3", "0.3", ""),
    ]
    assert "lovelace" not in target.read_text()
    piped = program("budget", "export", "-o", "-", "--subjects").out.splitlines()
    assert [json.loads(line)["subject"] for line in piped] == ["lovelace"] * 3
    verdict = program("budget", "verify")
    assert (verdict.code, verdict.out.startswith("PASS: 3 charges of 1 budgets; digest ")) == (0, True)


def test_kinds_never_mix_and_there_are_no_refunds(program: Program, address: str) -> None:
    where = ("--ledger", address)
    assert program("budget", "create", "ada", "--limit", "1", "--kind", "pure", *where).code == 0
    for arguments, said in (
        (("--amount", "0.1", "--kind", "metric"), "no budget of kind 'metric'"),
        (("--amount", "-0.1"), "there are no refunds"),
        (("--amount", "0.1", "--delta", "1e-6"), "has no delta"),
        (("--amount", "a lot"), "must be a finite number"),
    ):
        result = program("budget", "charge", "ada", *arguments, *where)
        assert result.code == 2
        assert said in result.err
    again = program("budget", "create", "ada", "--limit", "2", *where)
    assert again.code == 2
    assert "limits do not change" in again.err
    assert shown(program("budget", "show", "ada", "--json", *where))[0]["spent"] == "0"


def test_many_subjects_from_a_file_are_counted_but_not_listed(program: Program, address: str, tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("ada\nbob\n\ncarla\nada\n", encoding="utf-8")
    create = ("budget", "create", "--subjects", names, "--limit", "2", "-k", "metric", "-l", address)
    assert program(*create).out == "3 budgets made\n"
    assert program(*create).out == "0 budgets made; 3 existed and stay as they are\n"
    assert program("budget", "charge", "bob", "-a", "2", "-k", "metric", "-l", address).code == 0
    sums = program("budget", "show", "-l", address)
    assert not any(name in sums.out for name in ("ada", "bob", "carla"))
    assert shown(program("budget", "show", "--json", "-l", address)) == [
        {"kind": "metric", "budgets": 3, "charges": 1, "limit": "6", "spent": "2", "exhausted": 1}
    ]
    assert "bob" in program("budget", "show", "--subjects", "-l", address).out


def test_an_altered_history_is_found_out(program: Program, tmp_path: Path) -> None:
    path, anchors = tmp_path / "budgets.db", tmp_path / "anchors.json"
    assert program("budget", "create", "ada", "--limit", "5", "-l", path).code == 0
    for _ in range(3):
        assert program("budget", "charge", "ada", "-a", "1", "-l", path).code == 0
    assert program("budget", "verify", "-l", path, "--write-anchors", anchors).code == 0
    assert program("budget", "verify", "-l", path, "--anchors", anchors).code == 0
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER sfumato_charges_update")
        connection.execute("UPDATE sfumato_charges SET amount = 1 WHERE number = 2")
    connection.close()
    result = program("budget", "verify", "-l", path)
    assert result.code == 1
    assert "budget 1: charge 2 was altered" in result.out
    assert "FAIL: 3 charges of 1 budgets" in result.out
    found = json.loads(program("budget", "verify", "-l", path, "--json").out)
    assert found["passed"] is False


def test_the_ledger_cannot_be_reached(program: Program, postgres: PostgresServer) -> None:
    secret = "hunter2-the-password"
    for address, said in (
        (postgres.url(password=secret), "the user or the password is wrong"),
        (f"postgresql://ada:{secret}@127.0.0.1:1/privacy", "no connection"),
        (f"mysql://ada:{secret}@localhost/privacy", "SQLite or PostgreSQL"),
        (f"postgresql://ada:p@{secret}@localhost/privacy", "%40"),
    ):
        result = program("budget", "show", "-l", address)
        assert (result.code, result.out) == (2, "")
        assert said in result.err
        assert secret not in result.err


def test_the_password_may_come_from_the_environment(
    program: Program, postgres: PostgresServer, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = postgres_url.replace(f":{postgres.password}@", "@")
    assert postgres.password not in without
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    assert program("budget", "create", "ada", "--limit", "1", "-l", without).code == 0


def test_an_export_is_not_overwritten(program: Program, tmp_path: Path) -> None:
    path, target = tmp_path / "budgets.db", tmp_path / "out.jsonl"
    assert program("budget", "create", "ada", "--limit", "1", "-l", path).code == 0
    target.write_text("mine")
    result = program("budget", "export", "-o", target, "-l", path)
    assert result.code == 2
    assert "--force" in result.err
    assert target.read_text() == "mine"
    assert program("budget", "export", "-o", target, "-l", path, "--force", "--contents", "budgets").code == 0
    assert json.loads(target.read_text())["limit"] == "1"
    assert sorted(one.name for one in tmp_path.glob("out*")) == ["out.jsonl"]
