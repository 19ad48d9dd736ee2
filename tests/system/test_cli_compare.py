"""``sfumato compare``: one text through several mechanisms."""

from __future__ import annotations

import json
from pathlib import Path

from cli_support import WORDS, Program

import sfumato

TEXT = "Cold [rain] or SNOW?"
NAMES = "tem:published,tem:calibrated,custext:lp,random,laplace"


def test_the_text_and_the_figures_stand_side_by_side(program: Program, tiny_space: Path) -> None:
    result = program("compare", TEXT, "-s", tiny_space, "--mechanisms", NAMES, "-e", "2", "--seed", "1")
    assert result.code == 0
    lines = result.out.splitlines()
    for name in NAMES.split(","):
        figures, text = (next(line for line in part if line.startswith(name)) for part in (lines, lines[::-1]))
        assert figures.split()[1] in ("metric", "group", "pure")
        shown = text.removeprefix(f"{name}  ")
        # Brackets and punctuation stay; "or" is in no vocabulary here, so it is drawn too.
        first, second, third, fourth = shown.split()
        assert second.startswith("[")
        assert second.endswith("]")
        assert fourth.endswith("?")
        assert {first.lower(), second[1:-1], third, fourth[:-1].lower()} <= set(WORDS)


def test_figures_as_data_agree_with_the_promise(program: Program, tiny_space: Path) -> None:
    result = program("compare", TEXT, "-s", tiny_space, "--mechanisms", NAMES, "-e", "2", "--json")
    compared = {one["name"]: one for one in json.loads(result.out)["compared"]}
    assert set(compared) == set(NAMES.split(","))
    assert compared["tem:published"]["certified"] < compared["tem:calibrated"]["certified"] <= 2
    assert compared["custext:lp"]["certified"] <= 2


def test_figures_from_draws_are_marked_as_bounds(program: Program, tiny_space: Path) -> None:
    arguments = ("compare", TEXT, "-s", tiny_space, "--mechanisms", "tem:published,laplace", "-e", "2")
    shown = program(*arguments).out
    rows = {line.split()[0]: line for line in shown.splitlines()[1:3]}
    assert "≥" in rows["laplace"].rsplit(maxsplit=2)[1]
    assert "≥" not in rows["tem:published"]
    assert "≥: estimated from 1,000 draws of each word" in " ".join(shown.split())
    assert "≥" not in program(*arguments[:5], "tem:published", "-e", "2").out
    compared = {one["name"]: one for one in json.loads(program(*arguments, "--json").out)["compared"]}
    assert [compared[name]["spread_is_lower_bound"] for name in ("tem:published", "laplace")] == [False, True]
    assert compared["laplace"]["draws"] == 1000


def test_what_does_not_exist_is_said_beside_the_others(program: Program, tiny_space: Path) -> None:
    result = program("compare", TEXT, "-s", tiny_space, "--mechanisms", "tem:tight,random", "-e", "0.05")
    assert result.code == 0
    assert "tem:tight: at epsilon 0.05 no positive solution" in " ".join(result.out.split())


def test_unsound_mechanisms_and_unknown_names_are_refused(program: Program, tiny_space: Path) -> None:
    assert program("compare", TEXT, "-s", tiny_space, "--mechanisms", "truncated-gumbel", "-e", "200").code == 2
    refused = program("compare", TEXT, "-s", tiny_space, "--mechanisms", "magic", "-e", "2")
    assert refused.code == 2
    assert "there is no mechanism 'magic'" in refused.err
    assert program("compare", TEXT, "-s", tiny_space, "--mechanisms", ",", "-e", "2").code == 2


def test_without_a_list_every_sound_mechanism_is_there(program: Program, tiny_space: Path) -> None:
    found = json.loads(program("compare", TEXT, "-s", tiny_space, "-e", "8", "--json").out)
    named = [one["name"] for one in found["compared"]] + list(found["refused"])
    assert {name.partition(":")[0] for name in named} == {one.name for one in sfumato.mechanisms() if one.sound}
    assert len(named) == len(set(named))


def test_all_mechanisms_at_once(program: Program, tiny_space: Path) -> None:
    arguments = ("compare", TEXT, "-s", tiny_space, "--mechanisms", "all", "-e", "8", "--json")
    found = json.loads(program(*arguments).out)
    named = {one["name"] for one in found["compared"]} | set(found["refused"])
    assert named == {one.name for one in sfumato.mechanisms() if one.sound}
