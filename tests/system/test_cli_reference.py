"""The reference of the command line is what the program says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "build_cli_reference.py"


def test_the_reference_is_up_to_date() -> None:
    run = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, f"run: python scripts/build_cli_reference.py\n{run.stderr}"


def test_every_command_and_option_is_in_it() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for expected in ("## sfumato privatize", "## sfumato space get", "`--neighbour-loss`", "`--allow-unsound`"):
        assert expected in page


def test_everything_that_can_be_given_is_described() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) > 150
    cells = [[cell.strip() for cell in row.strip("|").split(" | ", 2)] for row in rows]
    assert [name for name, _, text in cells if not text or text.startswith(("Required.", "Default:"))] == []
    assert [name for name, kind, _ in cells if kind == "`None`"] == []
