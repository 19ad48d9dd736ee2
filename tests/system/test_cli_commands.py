"""The commands that look at mechanisms and spaces."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cli_support import Program

import sfumato
from sfumato.foundation import registry
from sfumato.foundation.guarantee import MetricGuarantee
from sfumato.mechanism.table import DenseTable
from sfumato.space import Space


@pytest.fixture
def broken_promise() -> Iterator[str]:
    """A registered mechanism that claims more than it keeps, for as long as the test runs."""
    name = "broken-promise"

    @registry.mechanism(name, kind="metric")
    def compile_broken(space: Space, *, epsilon: float) -> DenseTable:
        """Release the word as it is nine times of ten."""
        size = len(space)
        table = np.full((size, size), 0.1 / (size - 1))
        np.fill_diagonal(table, 0.9)
        claim = MetricGuarantee(mechanism=name, epsilon=epsilon, certified=epsilon, metric=space.metric)
        return DenseTable.from_probabilities(space, table, claim)

    yield name
    del registry._ENTRIES[name]


def test_version_and_help(program: Program) -> None:
    assert program("--version").out == f"sfumato {sfumato.__version__}\n"
    for arguments in ((), ("--help",)):
        result = program(*arguments)
        assert result.code == 0
        assert "privatize" in result.out
    assert program("privatize", "--help").code == 0


def test_mechanisms(program: Program) -> None:
    result = program("mechanisms")
    assert result.code == 0
    assert re.search(r"^tem +metric +yes ", result.out, re.MULTILINE)
    listed = {entry["name"]: entry for entry in json.loads(program("mechanisms", "--json").out)}
    assert set(listed) == {entry.name for entry in registry.entries()}
    assert listed["tem"]["options"]["tuning"] == "best"
    assert not {"tick", "say", "inputs", "outputs"} & set(listed["tem"]["options"])
    assert listed["tem"]["sound"] is True


def test_verify_passes_a_sound_mechanism(program: Program, tiny_space: Path) -> None:
    result = program("verify", "-s", tiny_space, "-e", "1")
    assert result.code == 0
    assert "PASS" in result.out
    data = json.loads(program("verify", "-s", tiny_space, "-e", "1", "--json").out)
    assert data["passed"] is True
    assert data["realised"] <= data["bound"] <= data["claimed"] == 1.0
    assert {data["first_word"], data["second_word"]} <= set(Space.from_file(tiny_space).words)


def test_verify_fails_a_broken_promise(program: Program, tiny_space: Path, broken_promise: str) -> None:
    result = program("verify", "-m", broken_promise, "-s", tiny_space, "-e", "0.5")
    assert (result.code, result.err) == (1, "")
    assert "FAIL" in result.out
    # ln(0.9 / (0.1 / 9)) over the least distance, 2.
    data = json.loads(program("verify", "-m", broken_promise, "-s", tiny_space, "-e", "0.5", "--json").out)
    assert data["realised"] == pytest.approx(np.log(81) / 2, rel=1e-9)


def test_explain_shows_the_exact_probabilities(program: Program, tiny_space: Path) -> None:
    result = program("explain", "Cold", "-s", tiny_space, "-e", "1", "--top", "3")
    assert (result.code, result.err) == (0, "")
    row = sfumato.compile("tem", Space.from_file(tiny_space), epsilon=1.0).row("cold")
    assert re.search(rf"^cold +{float(row.probability(0)):.4%} +0\.0000 +█", result.out, re.MULTILINE)
    assert re.search(rf"^unchanged +{float(row.probability(0)):.4%}", result.out, re.MULTILINE)
    assert result.out.count("█ ") + result.out.count("█\n") >= 3
    assert "(7 words)" in result.out
    assert "nearest neighbours  cool 2.0000, rain 3.0000" in result.out


def test_explain_a_word_that_is_not_there_or_is_kept(program: Program, tiny_space: Path, tmp_path: Path) -> None:
    result = program("explain", "xylophonist", "-s", tiny_space)
    assert result.code == 0
    assert "not in the space tiny (10 words). With --oov draw it is replaced by a word drawn uniformly" in result.out
    assert "[MASK]" in program("explain", "xylophonist", "-s", tiny_space, "--oov", "mask").out
    taken = program("explain", "stromm", "-s", tiny_space, "--oov", "spell").out
    assert "uniformly" in taken  # two letters away
    taken = program("explain", "strom", "-s", tiny_space, "--oov", "spell").out
    assert "it is taken for storm" in taken
    assert "storm" in taken.splitlines()[-1] or "rain" in taken
    keep = tmp_path / "keep.txt"
    keep.write_text("hot\n", encoding="utf-8")
    assert "released as it is" in program("explain", "HOT", "-s", tiny_space, "--keep", keep).out


def test_space_info(program: Program, tiny_space: Path, tmp_path: Path) -> None:
    facts = json.loads(program("space", "info", str(tiny_space), "--json").out)
    assert facts["words"] == 10
    assert facts["dimension"] == 2
    assert facts["least_distance"] == facts["median_neighbour_distance"] == 2.0
    assert facts["epsilon_of_neighbour_loss_1"] == 0.5
    assert facts["diameter"] == pytest.approx(np.hypot(8, 3))
    assert facts["sha256"] == Space.from_file(tiny_space).digest
    shown = program("space", "info", str(tiny_space)).out
    assert "an epsilon of 0.5 is a neighbour loss of 1" in shown
    text = tmp_path / "glove.txt"
    text.write_text("a 0 0\nb 0 1\n", encoding="utf-8")
    assert json.loads(program("space", "info", str(text), "--json").out)["words"] == 2


def test_space_list_and_get(program: Program) -> None:
    assert "glove-6b-50d" in program("space", "list").out
    assert json.loads(program("space", "list", "--json").out)[0]["name"] == "glove-6b-50d"
    assert "nothing to fetch" in program("space", "get", "default").out
    result = program("space", "get", "nowhere")
    assert result.code == 2
    assert "name must be one of" in result.err


def test_space_get_from_a_mirror_that_does_not_answer(program: Program) -> None:
    result = program("space", "get", "glove-6b-50d", "--base-url", "ftp://localhost")
    assert (result.code, result.err.count("\n")) == (2, 1)


def test_a_fetched_space_that_is_not_there_says_how_to_get_it(program: Program) -> None:
    result = program("explain", "cold", "-s", "glove-6b-50d")
    assert result.code == 2
    assert "sfumato space get glove-6b-50d" in result.err
