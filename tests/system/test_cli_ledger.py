"""``sfumato privatize --ledger``: every record is paid for before it is released."""

from __future__ import annotations

import csv
import json
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import Program

pytest.importorskip("sqlalchemy", reason="the extra 'ledger' is not installed")
pytest.importorskip("alembic", reason="the extra 'ledger' is not installed")

from postgres_server import PostgresServer
from sfumato.ledger import Ledger

OWNERS = ["ada", "bob", "ada", "carla", "ada", "bob"]
DIES_AFTER_CHARGING = """
import os, signal, sys
from sfumato.cli import app, running
from sfumato.release import TextRelease
running._CHECKPOINT_SECONDS = 0.0
lives, admit = int(sys.argv[1]), TextRelease.admit
def admit_and_die(self, *arguments, **options):
    global lives
    admitted = admit(self, *arguments, **options)
    lives -= 1
    if lives == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return admitted
TextRelease.admit = admit_and_die
sys.exit(app.main(sys.argv[2:]))
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.csv"
    path.write_text("id,user,text\n" + "".join(f"{n},{who},cold rain\n" for n, who in enumerate(OWNERS)), "utf-8")
    return path


@pytest.fixture
def budgets(program: Program, tmp_path: Path) -> Path:
    """Two records' worth for one subject, and enough for another."""
    path = tmp_path / "budgets.db"
    assert program("budget", "create", "ada", "-k", "metric", "--limit", "4.5", "-l", path).code == 0
    assert program("budget", "create", "bob", "-k", "metric", "--limit", "100", "-l", path).code == 0
    return path


@pytest.fixture
def arguments(source: Path, tiny_space: Path) -> list[str]:
    """A run in which a word costs 1."""
    return ["privatize", str(source), "-c", "text", "-s", str(tiny_space), "-e", "1"]


def test_subjects_that_have_run_out_are_skipped_and_counted_but_not_named(
    program: Program, arguments: list[str], budgets: Path, tmp_path: Path
) -> None:
    target = tmp_path / "out.csv"
    result = program(*arguments, "-o", target, "--ledger", budgets, "--subject-column", "user")
    assert result.code == 0
    assert "sfumato: 2 of 6 records held back: budget exhausted 1, no budget 1\n" in result.err
    assert not any(who in result.out + result.err for who in ("ada", "bob", "carla"))
    rows = list(csv.DictReader(target.open(encoding="utf-8", newline="")))
    assert [(row["id"], row["user"]) for row in rows] == [("0", "ada"), ("1", "bob"), ("2", "ada"), ("5", "bob")]
    with Ledger.open(budgets) as ledger:
        assert ledger.budget("ada", "metric").charges == 1
        assert 3.9 < float(ledger.budget("ada", "metric").spent) <= 4
        assert ledger.verify().passed
    data = json.loads((tmp_path / "out.csv.guarantee.json").read_text(encoding="utf-8"))
    assert data["records"] == 4
    assert data["settings"]["budget"] == {"kind": "metric", "subject_column": "user", "when_exhausted": "skip"}


def test_a_second_run_pays_again_for_its_own_noise(
    program: Program, arguments: list[str], budgets: Path, tmp_path: Path
) -> None:
    def released(name: str) -> list[str]:
        target = tmp_path / name
        assert program(*arguments, "-o", target, "--ledger", budgets, "--subject-column", "user").code == 0
        return [row["user"] for row in csv.DictReader(target.open(encoding="utf-8", newline=""))]

    assert released("first.csv") == ["ada", "bob", "ada", "bob"]
    assert released("second.csv") == ["bob", "bob"]


def test_stopping_at_the_first_that_has_run_out(
    program: Program, arguments: list[str], budgets: Path, tmp_path: Path
) -> None:
    target = tmp_path / "out.csv"
    result = program(
        *arguments, "-q", "-o", target, "--ledger", budgets, "--subject-column", "user", "--when-exhausted", "stop"
    )
    assert result.code == 0
    assert result.err == "sfumato: 3 of 6 records held back: no budget 1, after the run stopped 2\n"
    assert len(target.read_text(encoding="utf-8").splitlines()) == 1 + 3


def test_the_owner_may_ask_who(program: Program, arguments: list[str], budgets: Path, tmp_path: Path) -> None:
    result = program(
        *arguments, "-q", "-o", tmp_path / "o.csv", "--ledger", budgets, "--subject-column", "user", "--name-subjects"
    )
    assert result.err.splitlines()[1:] == ["held back: 'ada'", "held back: 'carla'"]


def test_a_whole_record_is_paid_for_in_pure_budget(
    program: Program, arguments: list[str], tmp_path: Path, tiny_space: Path
) -> None:
    budgets = tmp_path / "pure.db"
    assert program("budget", "create", "bob", "-k", "pure", "--limit", "1000", "-l", budgets).code == 0
    paying = ("--ledger", budgets, "--subject-column", "user", "--budget-kind", "pure")
    result = program(*arguments, "-q", "-o", tmp_path / "o.csv", *paying)
    assert result.err == "sfumato: 4 of 6 records held back: no budget 4\n"
    guarantee = json.loads((tmp_path / "o.csv.guarantee.json").read_text(encoding="utf-8"))
    shown = json.loads(program("budget", "show", "bob", "-l", budgets, "--json").out)
    assert float(shown[0]["spent"]) == pytest.approx(4 * guarantee["settings"]["local_epsilon"], rel=1e-9)


def test_pseudonyms_stand_for_subjects(program: Program, arguments: list[str], tmp_path: Path) -> None:
    budgets, secret = tmp_path / "pseudonyms.db", tmp_path / "secret"
    secret.write_bytes(b"a secret of enough bytes")
    create = ("budget", "create", "bob", "-k", "metric", "--limit", "100", "-l", budgets, "--subject-key", secret)
    assert program(*create).code == 0
    paying = ("--ledger", budgets, "--subject-column", "user")
    result = program(*arguments, "-o", tmp_path / "o.csv", *paying)
    assert result.code == 2
    assert "key" in result.err
    assert program(*arguments, "-o", tmp_path / "o.csv", *paying, "--subject-key", secret).code == 0
    with sqlite3.connect(budgets) as connection:
        stored = [subject for (subject,) in connection.execute("SELECT subject FROM sfumato_budgets")]
    connection.close()
    assert [len(subject) for subject in stored] == [64]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--ledger", "budgets.db"), "--ledger and --subject-column go together"),
        (("--subject-column", "user"), "--ledger and --subject-column go together"),
        (("--when-exhausted", "beg"), "when_exhausted"),
        (("--budget-kind", "chocolate"), "budget_kind"),
        (("--ledger", "budgets.db", "--subject-column", "user", "--seed", "1"), "leave out --seed"),
        (("--ledger", "missing.db", "--subject-column", "user"), "missing.db"),
        (("--ledger", "BUDGETS", "--subject-column", "owner"), "no column owner"),
        (("--ledger", "BUDGETS", "--subject-column", "text"), "cannot be a column of texts"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(
    program: Program,
    arguments: list[str],
    budgets: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    more: tuple[str, ...],
    said: str,
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    given = [str(budgets) if one == "BUDGETS" else one for one in more]
    result = program(*arguments, "-o", tmp_path / "out.csv", *given)
    assert result.code == 2
    assert said in result.err
    assert "Traceback" not in result.err
    assert not (tmp_path / "out.csv").exists()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    with Ledger.open(budgets) as ledger:
        assert ledger.budget("ada", "metric").spent == 0


def test_a_mechanism_without_a_price_is_refused(
    program: Program, source: Path, tiny_space: Path, budgets: Path, tmp_path: Path
) -> None:
    result = program(
        "privatize", source, "-c", "text", "-s", tiny_space, "-m", "identity", "-o", tmp_path / "o.csv",
        "--ledger", budgets, "--subject-column", "user",
    )  # fmt: skip
    assert result.code == 2
    assert "no price" in result.err
    assert not (tmp_path / "o.csv").exists()


def test_a_ledger_in_postgresql(
    program: Program, arguments: list[str], postgres: PostgresServer, postgres_url: str, tmp_path: Path
) -> None:
    paying = ("--subject-column", "user", "--ledger")
    assert program("budget", "create", "bob", "-k", "metric", "--limit", "2.5", "-l", postgres_url).code == 0
    result = program(*arguments, "-q", "-o", tmp_path / "o.csv", *paying, postgres_url)
    assert (result.code, result.err) == (0, "sfumato: 5 of 6 records held back: budget exhausted 1, no budget 4\n")
    wrong = postgres_url.replace(postgres.password, "not-the-password")
    result = program(*arguments, "-q", "-o", tmp_path / "p.csv", *paying, wrong)
    assert result.code == 2
    assert "the user or the password is wrong" in result.err
    assert "not-the-password" not in result.out + result.err
    assert not (tmp_path / "p.csv").exists()


def test_a_killed_run_that_is_taken_up_pays_once(tmp_path: Path, tiny_space: Path) -> None:
    """It dies with a batch charged and not yet written; taken up, it pays for the rest and writes the same bytes."""
    source, out, budgets = tmp_path / "in.csv", tmp_path / "out", tmp_path / "budgets.db"
    out.mkdir()
    source.write_text("user,text\n" + "".join(f"{OWNERS[n % 6]},cold rain\n" for n in range(6000)), "utf-8")

    def run(lives: int, name: str, workers: int) -> subprocess.CompletedProcess[str]:
        given = [
            "privatize", source, "-c", "text", "-s", tiny_space, "-e", "1", "-q", "-o", out / name, "--resume",
            "--key", tmp_path / "run.key", "--workers", workers, "--ledger", budgets, "--subject-column", "user",
        ]  # fmt: skip
        command = [sys.executable, "-c", DIES_AFTER_CHARGING, str(lives), *map(str, given)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    outcomes = []
    for name, kills, workers in (("whole.csv", (), 1), ("killed.csv", (2, 1), 2)):
        with Ledger.open(budgets) as ledger:
            ledger.create("ada", kind="metric", limit=4000)
            ledger.create("bob", kind="metric", limit=100_000)
        for lives in kills:
            assert run(lives, name, workers).returncode == -signal.SIGKILL
        last = run(-1, name, workers)
        assert last.returncode == 0, last.stderr
        assert "2,000 of 6,000 records held back: budget exhausted 1,000, no budget 1,000" in last.stderr
        with Ledger.open(budgets) as ledger:
            assert ledger.verify().passed
            spent = {budget.subject: (budget.spent, budget.charges) for budget in ledger.budgets()}
        records = json.loads((out / f"{name}.guarantee.json").read_text(encoding="utf-8"))["records"]
        outcomes.append(((out / name).read_bytes(), spent, records))
        for file in tmp_path.glob("budgets.db*"):
            file.unlink()
    assert outcomes[0] == outcomes[1]
    assert (spent["ada"][1], spent["bob"][1], records) == (2000, 2000, 4000)
