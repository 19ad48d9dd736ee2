"""One file, checked as a whole: every problem is named, in one go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic", reason="the extra 'server' is not installed")

from sfumato.server.configuration import ConfigurationError, checked, read
from sfumato.server.keys import new_key


def _problems(written: dict[str, Any], folder: Path) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        checked(written, folder)
    return caught.value.problems


def test_right_settings_are_read(written: dict[str, Any], tmp_path: Path) -> None:
    settings = checked(written, tmp_path)
    assert settings.mechanism == "everyday"
    assert settings.policy == "everything"
    assert settings.noise.key_file == tmp_path / "noise.key"


def test_every_problem_is_listed_at_once(written: dict[str, Any], tmp_path: Path) -> None:
    written["server"] = {"port": 70000, "wrkers": 2}
    written["limits"] = {"body_bytes": "many"}
    written["mechanisms"]["everyday"] |= {"space": "elsewhere", "tuning": "quick", "options": {"gama": 1.0}}
    written["mechanisms"]["gumbel"] = {"algorithm": "truncated-gumbel", "space": "tiny", "epsilon": 1}
    written["mechanisms"]["none"] = {"algorithm": "random", "space": "tiny", "epsilon": 1}
    written["policies"] = {"names": {"keep_words_file": "absent.txt"}, "broken": {"protect_patterns": ["("]}}
    written["default_mechanism"] = "nightly"
    written["keys"] = [
        {"id": "one", "hash": "plain", "scopes": ["privatize"]},
        {"id": "one", "hash": new_key("one").hash, "scopes": [], "subjects": ["*", "ada"], "mechanisms": ["gone"]},
    ]
    written["ledger"] = {"url": "budgets.db"}
    written["noise"] = {}
    written["chat"] = {"upstream": "ftp://x", "mechanism": "gone", "models": []}
    found = _problems(written, tmp_path)
    begins = (
        "server.port: ", "server.wrkers: there is no such setting", "limits.body_bytes: ", "mechanisms.everyday.space: ",
        "mechanisms.everyday.tuning: ", "mechanisms.everyday.options.gama: tem has the options",
        "mechanisms.gumbel.algorithm: its published guarantee is false", "mechanisms.gumbel.algorithm: an unsound",
        "mechanisms.none.epsilon: this mechanism has none", "policies.names.keep_words_file: No such file",
        "policies.broken: expression 0", "default_mechanism: ", "keys.0.hash: ", "keys.1.id: ", "keys.1.subjects: ",
        "keys.1.mechanisms: ", "noise.key_file: needed with a ledger", "chat.upstream: ", "chat.mechanism: ",
        "chat.models: ",
    )  # fmt: skip
    assert [begin for begin in begins if not any(one.startswith(begin) for one in found)] == []
    assert len(found) == len(begins), found


def test_what_is_missing_or_of_another_kind_does_not_hide_the_rest(written: dict[str, Any], tmp_path: Path) -> None:
    written["mechanisms"] = {"everyday": {"algorithm": "temm"}, "NO NAME": {"algorithm": "tem"}}
    written["policies"] = {"one": {"protect": ["nothing", "numbers", "all"]}, "two": {"entities": {}}}
    written["keys"] = [
        {"id": "A B", "hash": "plain", "scopes": ["fly"], "subjects": ["*", "ada"]},
        {"id": 7, "scopes": "privatize"},
        {"id": "one", "hash": "plain", "scopes": []},
    ]
    written["ledger"] = {"url": "budgets.db"}
    written["noise"] = {}
    written["chat"] = {"models": "small", "mechanism": "gone"}
    found = _problems(written, tmp_path)
    places = sorted(problem.partition(": ")[0] for problem in found)
    assert places == sorted([
        "mechanisms.NO NAME", "mechanisms.everyday.algorithm", "policies.one.protect.0", "policies.one.protect.2",
        "policies.two.entities.pipeline", "keys.0.id", "keys.0.scopes.0", "keys.0.hash", "keys.0.subjects", "keys.1.id",
        "keys.1.hash", "keys.1.scopes", "keys.2.hash", "noise.key_file", "chat.upstream", "chat.models", "chat.mechanism",
    ])  # fmt: skip
    assert _problems({}, tmp_path)[0].startswith("mechanisms: ")


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), 1e9, "6x", None])
def test_an_epsilon_outside_its_domain_is_refused(written: dict[str, Any], tmp_path: Path, epsilon: object) -> None:
    written["mechanisms"]["everyday"]["epsilon"] = epsilon
    assert any("everyday.epsilon" in one for one in _problems(written, tmp_path))


def test_nobody_may_do_anything_is_a_problem(written: dict[str, Any], tmp_path: Path) -> None:
    del written["anonymous"]
    assert [one[:20] for one in _problems(written, tmp_path)] == ["keys: nobody may do "]


def test_a_short_secret_is_refused(written: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "noise.key").write_bytes(b"short")
    assert "5 bytes" in _problems(written, tmp_path)[0]


def test_what_is_not_toml_is_said_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text("[server\n")
    with pytest.raises(ConfigurationError, match="line 1"):
        read(file)
    file.write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match="UTF-8 at byte 0"):
        read(file)


def test_a_default_that_cannot_be_paid_for_ends_the_start(written: dict[str, Any], served: Callable[..., Any]) -> None:
    pytest.importorskip("sqlalchemy", reason="the extra 'ledger' is not installed")
    written["ledger"] = {"url": "budgets.db", "kind": "group"}
    with pytest.raises(ValueError, match="cannot be paid for"):
        served(written)
