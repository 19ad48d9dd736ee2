"""What people try that a program of this kind has got wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import Program

NO_NETWORK = """
import socket, sys

class NoNetwork(socket.socket):
    def connect(self, *address):
        sys.exit("a connection was made")
    connect_ex = connect

def no_address(*arguments, **options):
    sys.exit("an address was looked up")

socket.socket, socket.getaddrinfo = NoNetwork, no_address
from sfumato.cli.app import main
sys.exit(main(sys.argv[1:]))
"""


def test_nothing_is_fetched_while_running(tmp_path: Path, tiny_space: Path) -> None:
    """With every connection refused, a file is privatized, and with the space of the package a word explained."""
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("text\ncold rain\n", encoding="utf-8")
    environment = dict(os.environ, SFUMATO_CACHE_DIR=str(tmp_path / "cache"))
    for arguments in (
        ("privatize", source, "-c", "text", "-o", target, "-s", tiny_space, "-q"),
        ("explain", "coffee", "--space-words", "300", "-e", "4"),
    ):
        command = [sys.executable, "-c", NO_NETWORK, *map(str, arguments)]
        run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert run.returncode == 0, run.stderr
    assert target.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("explain", ""), "explain takes one word"),
        (("explain", "cold rain"), "explain takes one word, and this text has 2"),
        (("compare", ""), "holds no word"),
        (("compare", "?!"), "holds no word"),
        (("explain", "cold", "--option", "colour=red"), "its options are beta, epsilon, gamma, inputs, outputs"),
        (("privatize",), "(see sfumato privatize --help)"),
        (("space", "get"), "(see sfumato space get --help)"),
    ],
)
def test_commands_say_what_they_take(program: Program, arguments: tuple[str, ...], message: str) -> None:
    outcome = program(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize("option", [("--protect", "words:{list}"), ("--keep", "{list}")])
def test_a_list_with_a_phrase_that_would_match_nothing_is_refused(
    program: Program, tmp_path: Path, tiny_space: Path, option: tuple[str, str]
) -> None:
    """Names of two words, one for each line, would otherwise protect nobody."""
    source, target, listed = tmp_path / "in.csv", tmp_path / "out.csv", tmp_path / "names.txt"
    source.write_text("text\nJohn Smith felt cold\n", encoding="utf-8")
    listed.write_text("Mary\nJohn Smith\n", encoding="utf-8")
    given = [part.format(list=listed) for part in option]
    outcome = program("privatize", source, "-c", "text", "-o", target, "-s", tiny_space, *given)
    assert (outcome.code, outcome.out) == (2, "")
    assert "word 1 of the list" in outcome.err
    assert "Smith" not in outcome.err
    assert not target.exists()


def test_what_is_to_be_copied_is_shown_whole(program: Program) -> None:
    """A table that is too narrow cuts its cells off; digests and options must not be cut."""
    assert "…" not in program("mechanisms").out
    assert "…" not in program("space", "info", "--space-words", "50").out


@pytest.mark.parametrize("value", ["False", "false", "no", "0"])
@pytest.mark.parametrize("flag", ["--force", "--show-samples", "--allow-unsound", "--quiet"])
def test_a_flag_takes_no_value(program: Program, tmp_path: Path, tiny_space: Path, flag: str, value: str) -> None:
    """``--force False`` means the opposite of what it says in programs that take any text for true."""
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("text\ncold rain\n", encoding="utf-8")
    target.write_text("what was there\n", encoding="utf-8")
    for written in ((flag, value), (f"{flag}={value}",)):
        outcome = program("privatize", source, "-c", "text", "-o", target, "-s", tiny_space, *written)
        assert outcome.code == 2
    assert target.read_text(encoding="utf-8") == "what was there\n"
