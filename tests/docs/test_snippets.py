"""What README and documentation show must run.

The blocks of a page run in order, in one folder with a copy of examples/, Python blocks in one namespace.  Of a console
block the commands that begin with ``$ sfumato`` run, and must end with exit code 0; the output shown is not compared.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PYTHON, CONSOLE = "python", ("console", "bash")
NOT_RUN = {"docs/concepts/spaces.md": 2, "docs/latent.md": 1, "docs/service.md": 2, "docs/spark.md": 2}
"""Blocks of each page that are not run, counted here so that their number cannot grow unseen."""

_FENCE = re.compile(r"(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[\w-]*)")
_NOT_RUN = re.compile(r"<!--\s*not run:\s*(?P<reason>\S.*?)\s*-->")


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    language: str
    text: str
    line: int
    """Line of its first line of text, counted from 1."""
    not_run: str = ""
    """Why it is not run; empty where it is."""

    @property
    def commands(self) -> list[str]:
        """The ``$`` commands of a console block, with their continuation lines."""
        commands: list[str] = []
        continued = False
        for line in self.text.splitlines():
            if continued:
                commands[-1] += "\n" + line
            elif line.startswith("$ "):
                commands.append(line[2:])
            continued = (continued or line.startswith("$ ")) and line.endswith("\\")
        return commands


def blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page in order."""
    found: list[Block] = []
    fence, language, start, reason, last = "", "", 0, "", ""
    inside: list[str] = []
    for number, line in enumerate(page.splitlines(), start=1):
        if fence:
            if line.strip() == fence:
                text = textwrap.dedent("\n".join(inside)) + "\n"
                found.append(Block(language, text, start, reason))
                fence, last = "", ""
            else:
                inside.append(line)
        elif match := _FENCE.fullmatch(line.rstrip()):
            fence, language, start, inside = match["fence"], match["language"], number + 1, []
            told = _NOT_RUN.search(last)
            reason = told["reason"] if told else ""
        elif line.strip():
            last = line
    if fence:
        raise ValueError(f"the block that begins at line {start} has no end")
    return found


def _runs(block: Block) -> bool:
    return block.language == PYTHON or (
        block.language in CONSOLE and any(command.startswith("sfumato") for command in block.commands)
    )


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


PAGES_THAT_RUN = [page for page in PAGES if any(_runs(block) for block in blocks(page.read_text(encoding="utf-8")))]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder as a reader has it: the examples, and ``reviews.csv`` itself."""
    examples = ROOT / "examples"
    shutil.copytree(examples, tmp_path / "examples", ignore=shutil.ignore_patterns("out"))
    shutil.copy(examples / "reviews.csv", tmp_path / "reviews.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _run_command(command: str, folder: Path, where: str) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert result.returncode == 0, f"{where}: exit code {result.returncode}\n{result.stdout}\n{result.stderr}"


@pytest.mark.parametrize("page", PAGES_THAT_RUN, ids=_name)
def test_blocks_of_a_page_run(page: Path, folder: Path) -> None:
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page.read_text(encoding="utf-8")):
        where = f"{_name(page)}, line {block.line}"
        if block.not_run:
            continue
        if block.language == PYTHON:
            # Blank lines in front make the traceback name the line of the page.
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), namespace)
        elif block.language in CONSOLE:
            for command in block.commands:
                if command.startswith("sfumato"):
                    _run_command(command, folder, where)


def test_few_blocks_are_not_run() -> None:
    found = {
        _name(page): sum(1 for block in blocks(page.read_text(encoding="utf-8")) if block.not_run and _runs(block))
        for page in PAGES
    }
    assert {name: count for name, count in found.items() if count} == NOT_RUN


def test_documentation_has_blocks_that_run() -> None:
    assert {"README.md", "docs/quickstart.md"} <= {_name(page) for page in PAGES_THAT_RUN}


def test_blocks_are_found_with_their_commands() -> None:
    page = "text\n\n    ```console\n    $ sfumato a \\\n        --b\n    output\n    $ ls\n    ```\n~~~python\nx\n~~~\n"
    console, python = blocks(page)
    assert console.commands == ["sfumato a \\\n    --b", "ls"]
    assert (console.line, python.text, python.line) == (4, "x\n", 10)
    with pytest.raises(ValueError, match="no end"):
        blocks("```python\nx = 1\n")


def test_a_reason_belongs_to_the_next_block_only() -> None:
    page = "<!-- not run: needs a network -->\n\n```console\n$ sfumato x\n```\n```python\nx\n```\n"
    assert [block.not_run for block in blocks(page)] == ["needs a network", ""]
