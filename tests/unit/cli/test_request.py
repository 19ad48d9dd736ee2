from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sfumato.accounting.neighbour_loss import DEFAULT_NEIGHBOUR_LOSS
from sfumato.cli.progress import CompileProgress
from sfumato.cli.request import MechanismRequest, load_space
from sfumato.foundation import registry
from sfumato.foundation.errors import ParameterError, SfumatoError, UnsoundError
from sfumato.mechanism.base import TableMechanism
from sfumato.mechanism.exponential import tem


@pytest.fixture
def space_file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.npz"
    np.savez(path, words=np.array(["cold", "cool", "mild", "warm", "hot"]), vectors=[[0.0], [2.0], [4.0], [6.0], [8.0]])
    return path


@pytest.fixture
def false_promise() -> Iterator[str]:
    """A registered mechanism whose guarantee is declared false, for as long as the test runs."""
    name = "false-promise"
    registry.mechanism(name, kind="metric", sound=False)(tem)
    yield name
    del registry._ENTRIES[name]


def test_options_get_the_type_of_their_default_or_annotation() -> None:
    request = MechanismRequest(options=("gamma=1.5", "beta=0.01", "row-memory=1024", " tuning =published"))
    assert request.extra_options() == {"gamma": 1.5, "beta": 0.01, "row_memory": 1024, "tuning": "published"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("gamma",), "KEY=VALUE"),
        (("gamma=far",), "option gamma must be a number"),
        (("row_memory=1.5",), "option row_memory must be a whole number"),
        (("radius=1",), "tem has no option radius; its options are beta, epsilon, gamma"),
        (("say=a",), "cannot be given on the command line"),
        (("beta=0.1", "beta=0.2"), "given twice"),
    ],
)
def test_options_that_do_not_fit_are_refused_at_once(options: tuple[str, ...], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        MechanismRequest(options=options)


def test_lists_of_words_are_read_from_files(tmp_path: Path, space_file: Path) -> None:
    listed = tmp_path / "protected.txt"
    listed.write_text("warm\n\nhot\n", encoding="utf-8")
    options = (f"protected={listed}", "p=0.5")
    request = MechanismRequest(mechanism="santext-plus", epsilon=1.0, space=str(space_file), options=options)
    assert request.extra_options() == {"protected": ["warm", "hot"], "p": 0.5}
    compiled = request.compile(CompileProgress())
    assert isinstance(compiled.mechanism, TableMechanism)
    assert compiled.mechanism.outputs.tolist() == [3, 4]
    request = MechanismRequest(epsilon=1.0, space=str(space_file), options=(f"outputs={listed}",))
    assert isinstance(mechanism := request.compile(CompileProgress()).mechanism, TableMechanism)
    assert mechanism.outputs.tolist() == [3, 4]
    with pytest.raises(FileNotFoundError):
        MechanismRequest(options=("inputs=nowhere.txt",))


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, 1e9])
def test_an_epsilon_outside_its_domain_is_refused_at_once(epsilon: float) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        MechanismRequest(epsilon=epsilon)
    if epsilon != 1e9:
        with pytest.raises(ParameterError, match="neighbour_loss"):
            MechanismRequest(neighbour_loss=epsilon)


def test_epsilon_and_neighbour_loss_exclude_each_other() -> None:
    with pytest.raises(ParameterError, match="not both"):
        MechanismRequest(epsilon=1.0, neighbour_loss=1.0)


def test_unknown_mechanisms_and_spaces_name_what_there_is() -> None:
    with pytest.raises(ParameterError, match=r"choose one of .*tem"):
        MechanismRequest(mechanism="magic")
    with pytest.raises(ParameterError, match=r"no space and no file nowhere.*glove-6b-50d"):
        load_space("nowhere")


def test_unsound_mechanisms_need_a_word_of_consent(false_promise: str, space_file: Path) -> None:
    with pytest.raises(UnsoundError, match="--allow-unsound"):
        MechanismRequest(mechanism=false_promise)
    request = MechanismRequest(mechanism=false_promise, space=str(space_file), allow_unsound=True)
    assert request.compile(CompileProgress()).epsilon == DEFAULT_NEIGHBOUR_LOSS / 2


def test_the_default_neighbour_loss_and_its_epsilon(space_file: Path) -> None:
    compiled = MechanismRequest(space=str(space_file)).compile(CompileProgress())
    assert (compiled.epsilon, compiled.neighbour_loss) == (DEFAULT_NEIGHBOUR_LOSS / 2, DEFAULT_NEIGHBOUR_LOSS)
    assert MechanismRequest(space=str(space_file), neighbour_loss=1.0).compile(CompileProgress()).epsilon == 0.5
    assert MechanismRequest(space=str(space_file), epsilon=3.0).compile(CompileProgress()).neighbour_loss == 6.0


def test_kept_words_go_into_the_policy_and_leave_the_mechanism_as_it_is(space_file: Path, tmp_path: Path) -> None:
    keep = tmp_path / "keep.txt"
    keep.write_text("Cold\n\n hot \nelsewhere\n", encoding="utf-8")
    compiled = MechanismRequest(space=str(space_file), keep=keep).compile(CompileProgress())
    assert [word for word in compiled.space.words if not compiled.policy.protects_word(word)] == ["cold", "hot"]
    assert "3 words" in compiled.policy.keeps
    assert isinstance(compiled.mechanism, TableMechanism)
    assert len(compiled.mechanism.inputs) == 5


def test_the_first_words_of_a_space(space_file: Path) -> None:
    compiled = MechanismRequest(space=str(space_file), space_words=3, epsilon=1.0).compile(CompileProgress())
    assert compiled.space.words == ("cold", "cool", "mild")


def test_a_list_of_kept_words_that_is_no_text(tmp_path: Path, space_file: Path) -> None:
    keep = tmp_path / "keep.txt"
    keep.write_bytes(b"secret\xff")
    with pytest.raises(SfumatoError, match="byte 6") as caught:
        MechanismRequest(space=str(space_file), keep=keep).compile(CompileProgress())
    assert "secret" not in str(caught.value)


def test_stages_are_named_without_a_terminal_only_after_a_while(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from sfumato.cli import progress

    CompileProgress().say("reading")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "_PATIENCE_SECONDS", -1.0)
    CompileProgress(quiet=True).say("reading")
    assert capsys.readouterr().err == ""
    CompileProgress().say("reading")
    assert capsys.readouterr().err == "sfumato: reading\n"
