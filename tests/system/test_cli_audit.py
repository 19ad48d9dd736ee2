"""``sfumato audit`` and ``privatize --attacker-success``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from cli_support import WORDS, Program

from sfumato.foundation import registry
from sfumato.foundation.guarantee import MetricGuarantee
from sfumato.mechanism.table import DenseTable
from sfumato.space import Space


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path / "reviews.csv"
    lines = [" ".join(rng.choice(WORDS, 12)) for _ in range(120)]
    path.write_text("text\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_mechanism_is_audited(program: Program, tiny_space: Path, tmp_path: Path) -> None:
    page, figures = tmp_path / "audit.html", tmp_path / "audit.json"
    result = program("audit", "-s", tiny_space, "-e", "1", "--draws", "2000", "--html", page, "--json-file", figures)
    assert (result.code, result.err) == (0, "")
    assert "THE CLAIM HOLDS" in result.out
    data = json.loads(figures.read_text(encoding="utf-8"))
    assert data["outcome"] == "holds"
    assert data["verification"]["passed"] is True
    assert len(data["lower_bounds"]) == len(WORDS)
    assert 0.1 < data["attack"]["success"] < 1
    html = page.read_text(encoding="utf-8")
    assert html.startswith("<!doctype html>")
    assert "THE CLAIM HOLDS" in html
    assert "http" not in html
    assert program("audit", "-s", tiny_space, "-e", "1", "--html", page).code == 2


def test_a_refuted_claim_exits_1(program: Program, tiny_space: Path) -> None:
    name = "false-claim"

    @registry.mechanism(name, kind="metric")
    def compile_false(space: Space, *, epsilon: float) -> DenseTable:
        """Release the word as it is nine times of ten."""
        table = np.full((len(space), len(space)), 0.1 / (len(space) - 1))
        np.fill_diagonal(table, 0.9)
        claim = MetricGuarantee(mechanism=name, epsilon=epsilon, certified=epsilon, metric=space.metric)
        return DenseTable.from_probabilities(space, table, claim)

    try:
        result = program("audit", "-m", name, "-s", tiny_space, "-e", "0.5", "--draws", "2000", "--json")
    finally:
        del registry._ENTRIES[name]
    assert result.code == 1
    data = json.loads(result.out)
    assert data["outcome"] == "refuted"
    assert any(bound["refuted"] for bound in data["lower_bounds"])


def test_files_are_audited(program: Program, tiny_space: Path, reviews: Path, tmp_path: Path) -> None:
    safe = tmp_path / "safe.csv"
    assert program("privatize", reviews, "-o", safe, "-c", "text", "-s", tiny_space, "-e", "0.3").code == 0
    beside = Path(f"{safe}.guarantee.json")
    result = program("audit", reviews, safe, "-s", tiny_space)
    assert (result.code, result.err) == (0, "")
    assert "THE CLAIM HOLDS" in result.out
    copy = tmp_path / "copy.csv"
    shutil.copy(reviews, copy)
    refuted = program("audit", reviews, copy, "--guarantee", beside, "-s", tiny_space)
    assert refuted.code == 1
    assert "REFUTED" in refuted.out
    assert "(100.0%) came out as they were" in refuted.out
    assert not set(WORDS) & set(refuted.out.split())
    other = program("audit", reviews, safe, "-s", "default")
    assert other.code == 2


def test_files_that_cannot_be_audited(program: Program, reviews: Path, tmp_path: Path) -> None:
    assert "give both files" in program("audit", reviews).err
    assert "there is no claim to audit" in program("audit", reviews, reviews).err
    claim = tmp_path / "claim.json"
    for content, message in (
        ("{", "is not JSON"),
        ("{}", "holds no guarantee"),
        ('{"guarantee": {}}', "must be one of"),
    ):
        claim.write_text(content, encoding="utf-8")
        result = program("audit", reviews, reviews, "--guarantee", claim)
        assert (result.code, result.err.count("\n")) == (2, 1)
        assert message in result.err


def test_attacker_success(program: Program, reviews: Path, tmp_path: Path) -> None:
    pytest.importorskip("wordfreq", reason="the extra 'experiments' is not installed")
    safe = tmp_path / "safe.csv"
    options = ("-c", "text", "--space-words", "300")
    result = program("privatize", reviews, "-o", safe, *options, "--attacker-success", "0.3")
    assert (result.code, result.err) == (0, "")
    claim = json.loads(Path(f"{safe}.guarantee.json").read_text(encoding="utf-8"))
    attacker = claim["settings"]["attacker"]
    assert 0.29 <= attacker["success"] <= attacker["target"] == 0.3
    assert attacker["blind"] < attacker["success"]
    assert "wordfreq" in attacker["prior"]
    assert "recovers" in result.out
    assert claim["guarantee"]["certified"] <= claim["settings"]["epsilon"]
    for wrong, message in (
        (("--attacker-success", "1.5"), "attacker_success must be strictly between 0 and 1"),
        (("--attacker-success", "0.3", "-e", "1"), "give one of --attacker-success"),
        (("--attacker-success", "0.3", "-m", "random"), "random has no epsilon to choose"),
        (("--attacker-success", "0.01"), "ask for more than"),
    ):
        refused = program("privatize", reviews, "-o", tmp_path / "x.csv", *options, *wrong)
        assert refused.code == 2
        assert message in refused.err
