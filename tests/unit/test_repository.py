"""What every file of the repository keeps to."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES = 420

# Written in two parts, so that this file does not hold what it looks for.
REGISTRIES = ("pypi" + ".org", "files.python" + "hosted.org", "registry.npm" + "js.org", "deb.deb" + "ian.org")
# A path of a machine stands at the start of a word; the same folders inside a relative path or a web address are none.
MACHINE_PATH = re.compile(r"(?<![\w.~/})>-])/(?:work|root|home)" + r"/")


def _repository_files() -> list[Path]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("git cannot list the files here")
    files = (ROOT / name for name in listed.stdout.split("\0") if name)
    return [file for file in files if file.is_file()]


def _places(pattern: re.Pattern[str]) -> list[str]:
    found = []
    for file in _repository_files():
        content = file.read_bytes()
        if b"\0" in content:
            continue
        for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), start=1):
            if pattern.search(line):
                found.append(f"{file.relative_to(ROOT)}:{number}")
    return found


def test_no_file_names_a_package_registry() -> None:
    assert _places(re.compile("|".join(map(re.escape, REGISTRIES)))) == []


def test_no_file_names_a_path_of_the_machine_it_was_made_on() -> None:
    assert _places(MACHINE_PATH) == []


def test_paths_of_machines_are_recognised() -> None:
    machine = ["/ho" + "me/someone/x", "see /wo" + "rk/x", "'/ro" + "ot/.cache'", "dir=/ho" + "me/x"]
    assert [line for line in machine if not MACHINE_PATH.search(line)] == []
    others = ["docs/wo" + "rk/x", "https://example.org/ho" + "me/", "${HOME}/wo" + "rk/x", "~/wo" + "rk/x"]
    assert [line for line in others if MACHINE_PATH.search(line)] == []


def _sources() -> list[Path]:
    return sorted((ROOT / "src").rglob("*.py"))


def test_source_files_are_short() -> None:
    long = {
        file.relative_to(ROOT).as_posix(): count
        for file in _sources()
        if (count := len(file.read_text(encoding="utf-8").splitlines())) >= MOST_LINES
    }
    assert long == {}


def test_public_modules_say_what_they_are() -> None:
    public = [file for file in _sources() if not file.stem.startswith("_") or file.stem == "__init__"]
    assert public
    silent = [file for file in public if not ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))]
    assert silent == []
