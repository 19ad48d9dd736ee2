"""Write the table of mechanisms into README.md, from what is registered.

::

    python scripts/update_readme_table.py            # write it
    python scripts/update_readme_table.py --check    # exit code 1 where it is out of date
"""

from __future__ import annotations

import sys
from pathlib import Path

import sfumato

README = Path(__file__).resolve().parents[1] / "README.md"
BEGIN, END = "<!-- mechanisms -->", "<!-- end of mechanisms -->"


def table() -> str:
    """Return the table as Markdown."""
    rows = ["| name | guarantee | sound | what it does |", "|---|---|---|---|"]
    for entry in sfumato.mechanisms():
        sound = "yes" if entry.sound else "no"
        summary = entry.summary.replace("|", r"\|")
        rows.append(f"| `{entry.name}` | {entry.guarantee_kind} | {sound} | {summary} |")
    return "\n".join(rows)


def with_table(page: str) -> str:
    """Return the page with the current table between its markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"README.md has no markers {BEGIN} and {END}; put them where the table belongs")
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def main(arguments: list[str]) -> int:
    """Write or check the table."""
    page = README.read_text(encoding="utf-8")
    current = with_table(page)
    if arguments == ["--check"]:
        if page != current:
            print("README.md is out of date: run python scripts/update_readme_table.py")
        return int(page != current)
    README.write_text(current, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
