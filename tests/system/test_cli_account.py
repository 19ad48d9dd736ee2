"""``sfumato account``: all accountants side by side, noise for a guarantee, releases for a budget."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_support import Program

from sfumato.accounting.curves import Figure
from sfumato.report.figures import draw_figures

NAMES = ("basic", "advanced", "optimal", "zcdp", "rdp", "gdp", "clt", "pld")
RUN = ("account", "gaussian", "--sigma", "1", "--rate", "0.01", "--steps", "1000", "--delta", "1e-5")


def test_all_accountants_side_by_side_and_the_sound_one_to_use_is_marked(program: Program) -> None:
    pytest.importorskip("dp_accounting", reason="the extra 'accounting' is not installed")
    result = program(*RUN)
    assert (result.code, result.err) == (0, "")
    assert [name for line in result.out.splitlines() for name in NAMES if f" {name} " in f" {line[:13]}"] == list(NAMES)
    marked = [line.split() for line in result.out.splitlines() if line.startswith("* ") and " pld " in line]
    assert marked[0][:4] == ["*", "pld", "1.828244", "yes"]
    assert any(line.split()[:3] == ["clt", "1.617712", "NO"] for line in result.out.splitlines())
    assert "not a bound" in " ".join(result.out.split())
    assert "* the one to use: (1.828244, 1e-05) differential privacy for 1,000 releases" in result.out


def test_the_same_as_json(program: Program) -> None:
    pytest.importorskip("dp_accounting", reason="the extra 'accounting' is not installed")
    data = json.loads(program(*RUN, "--json").out)
    assert (data["sigma"], data["rate"], data["steps"], data["delta"], data["releases"]) == (1, 0.01, 1000, 1e-5, 1000)
    rows = {row["accountant"]: row for row in data["accountants"]}
    assert tuple(rows) == NAMES
    assert rows["pld"]["epsilon"] == pytest.approx(1.82824, abs=1e-4)
    assert rows["rdp"]["epsilon"] == pytest.approx(2.10137, abs=1e-4)
    assert rows["clt"]["epsilon"] == pytest.approx(1.61771, abs=1e-4)
    assert [name for name, row in rows.items() if row["tightest"]] == ["pld"]
    assert [name for name, row in rows.items() if not row["sound"]] == ["clt"]


def test_a_plot_can_be_drawn_again_from_its_numbers(program: Program, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra 'plot' is not installed")
    target = tmp_path / "accountants.svg"
    arguments = ("account", "gaussian", "--sigma", "8", "--steps", "20", "--delta", "1e-5", "--plot", target)
    result = program(*arguments)
    assert result.code == 0
    assert f"wrote {target}" in result.err
    assert target.read_text().count("approximation, not a bound") == 2
    data = json.loads((tmp_path / "accountants.json").read_text())
    figures = [Figure.from_json(figure) for figure in data["figures"]]
    assert [(figure.x_label, figure.y_label) for figure in figures] == [
        ("steps", "epsilon"),
        ("epsilon", "noise multiplier"),
    ]
    by_name = {line.name: line for line in figures[0].lines}
    assert by_name["gdp"].x[0] == 1
    assert by_name["gdp"].x[-1] == 200
    assert list(by_name["gdp"].y) == sorted(by_name["gdp"].y)
    draw_figures(figures, tmp_path / "again.png")
    assert (tmp_path / "again.png").read_bytes().startswith(b"\x89PNG")
    refused = program(*arguments)
    assert refused.code == 2
    assert "--force" in refused.err


def test_noise_for_a_guarantee(program: Program) -> None:
    assert "noise multiplier 3.730632 " in program("account", "noise", "-e", "1", "--delta", "1e-5").out
    data = json.loads(program("account", "noise", "-e", "4", "--delta", "1e-5", "--json").out)
    assert data["sigma"] == pytest.approx(1.08116184952024, abs=1e-9)
    sampled = ("account", "noise", "-e", "2", "--delta", "1e-5", "--rate", "0.01", "--steps", "1000", "-a", "rdp")
    sigma = json.loads(program(*sampled, "--json").out)["sigma"]
    check = ("account", "gaussian", "--sigma", str(sigma), "--rate", "0.01", "--steps", "1000", "--delta", "1e-5")
    rows = {row["accountant"]: row for row in json.loads(program(*check, "--json").out)["accountants"]}
    assert 1.99 < rows["rdp"]["epsilon"] <= 2


def test_releases_for_a_budget(program: Program) -> None:
    arguments = ("account", "releases", "--sigma", "10", "-e", "1", "--delta", "1e-5", "-a", "gdp")
    assert program(*arguments).out == "7 releases, by gdp\n"
    assert json.loads(program(*arguments, "--json").out)["releases"] == 7
    assert program("account", "releases", "--sigma", "0.5", "-e", "0.1", "--delta", "1e-5").out.startswith("0 releases")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--sigma", "0"), "sigma"),
        (("--sigma", "nan"), "sigma"),
        (("--sigma", "1", "--rate", "1.5"), "rate"),
        (("--sigma", "1", "--steps", "0"), "steps"),
        (("--sigma", "1", "--plot", "figure.txt"), ".png, .svg or .pdf"),
    ],
)
def test_what_is_wrong_is_said(program: Program, more: tuple[str, ...], said: str) -> None:
    result = program("account", "gaussian", "--delta", "1e-5", *more)
    assert (result.code, result.out) == (2, "")
    assert said in result.err


def test_all_problems_are_listed_at_once(program: Program) -> None:
    result = program("account", "gaussian", "--sigma", "-1", "--rate", "2", "--steps", "0", "--delta", "7")
    assert result.code == 2
    assert all(name in result.err for name in ("sigma", "rate", "steps", "delta"))


def test_an_unknown_accountant_is_refused(program: Program) -> None:
    result = program("account", "noise", "-e", "1", "--delta", "1e-5", "-a", "moments")
    assert result.code == 2
    assert "best" in result.err
    assert "rdp" in result.err
