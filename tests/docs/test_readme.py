"""README's generated part is current."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import sfumato

ROOT = Path(__file__).resolve().parents[2]


def test_the_table_of_mechanisms_is_current() -> None:
    result = subprocess.run(
        [sys.executable, ROOT / "scripts" / "update_readme_table.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_table_lists_every_mechanism_with_kind_and_soundness() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    table = page.partition("<!-- mechanisms -->")[2].partition("<!-- end of mechanisms -->")[0]
    rows = {
        name: (kind, sound)
        for name, kind, sound in re.findall(r"^\| `([^`]+)` \| ([^|]+) \| (yes|no) \|", table, re.MULTILINE)
    }
    assert rows == {one.name: (one.guarantee_kind, "yes" if one.sound else "no") for one in sfumato.mechanisms()}


def test_files_the_readme_names_exist() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", page) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_what_it_says_of_the_tunings_is_what_was_measured() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(
        r"with epsilon (\d+) .*?keeps ([\d.]+) %.*?default ([\d.]+) %.*?more than ([\d.]+) %", page, re.DOTALL
    )
    assert found
    epsilon, *shares = (float(number) for number in found.groups())
    data = json.loads((ROOT / "benchmarks" / "results" / "tunings.json").read_text(encoding="utf-8"))
    keeps = {
        row["tuning"]: row["unchanged"] for row in data["rows"] if row["epsilon"] == epsilon and "unchanged" in row
    }
    best = max(share for tuning, share in keeps.items() if tuning != "published")
    measured = (keeps["published"], best, data["ceilings"][str(epsilon)])
    assert [f"{share:.1f}" for share in shares] == [f"{100 * share:.1f}" for share in measured]
