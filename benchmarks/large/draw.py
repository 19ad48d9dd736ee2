"""The tables and plots of ``docs/performance.md``, made from the saved figures; nothing is measured here.

    python benchmarks/large/draw.py            # write them
    python benchmarks/large/draw.py --check    # exit code 1 where one is out of date

A plot carries the digest of what it shows, so that it can be told whether it is current without drawing it again.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from check import FLOORS, RESULTS, judge

from sfumato.report.drawing import figure_svg

DOCS = Path(__file__).parents[2] / "docs"
PAGE, IMAGES = DOCS / "performance.md", DOCS / "images"
_BLOCK = re.compile(r"(<!-- (?P<name>[\w-]+) -->\n).*?(<!-- end of (?P=name) -->)", re.DOTALL)
Figures = dict[str, Any]


def saved(name: str) -> Figures:
    """Return saved figures."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def table(columns: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table whose first column is text and whose others are numbers."""
    ruler = "|---|" + "---:|" * (len(columns) - 1)
    return (
        "\n".join(["| " + " | ".join(columns) + " |", ruler, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"
    )


def _measured(*names: str) -> str:
    settings = {(one["machine"], one["commit"]) for one in map(saved, names)}
    said = "; ".join(f"{machine}, commit {commit}" for machine, commit in sorted(settings))
    return f"\n*{said}.*\n"


def floors() -> str:
    """Every floor and what was measured."""
    rows = []
    for floor in FLOORS:
        verdict = judge(floor)
        value = verdict.problem if verdict.value is None else f"{verdict.value:,.2f}"
        rows.append([floor.what, value if verdict.passed else f"**{value}**", floor.demanded])
    return table(["figure", "measured", "floor"], rows) + _measured(*sorted({floor.file for floor in FLOORS}))


def peers() -> str:
    """Published packages beside this one."""
    figures = saved("peers")
    rows = []
    for row in figures["rows"]:
        name = f"{row['package']} `{row['mechanism']}`"
        if "failed" in row:
            rows.append([name, row["failed"], "", ""])
        else:
            rates = [
                f"{row['tokens_per_second']:,.0f}",
                f"{row['set_up_seconds']:,.1f} s",
                f"{row['peak_mib']:,.0f} MiB",
            ]
            rows.append([name, *rates])
    return table(["package and mechanism", "tokens/s", "set-up", "peak memory"], rows) + _measured("peers")


def killed_run() -> str:
    """The run that was killed three times."""
    figures = saved("killed_run")
    kills = ", ".join(f"{100 * kill['share_written']:.0f} %" for kill in figures["kills"])
    rows = [
        ["rows", f"{figures['rows']:,}"],
        ["bytes read", f"{figures['bytes']:,}"],
        ["rows per second of a processor", f"{figures['rows_per_processor_second']:,.0f}"],
        ["resident size, first tenth of the run", f"{figures['resident_mib_by_tenth'][0]:,.0f} MiB"],
        ["resident size, last tenth", f"{figures['resident_mib_by_tenth'][9]:,.0f} MiB"],
        ["killed when so much was written", kills],
        ["same bytes as the run that was not killed", "yes" if figures["outputs_identical"] else "**no**"],
    ]
    return table(["", "measured"], rows) + _measured("killed_run")


def spark() -> str:
    """Spark with one and two executors."""
    figures = saved("spark")
    rows = []
    for name, key in (("held to one core each", "one_core_each"), ("not held", "not_held")):
        one, two = (figures[key]["tokens_per_second"][executors] for executors in ("1", "2"))
        rows.append([f"executors {name}", f"{one:,.0f}", f"{two:,.0f}", f"{figures[key]['two_over_one']:.2f}"])
    alone = figures["tokens"] / figures["local_runner_seconds"]
    rows.append(["the sanitizer in one process, without Spark", f"{alone:,.0f}", "", ""])
    return table(["tokens/s", "one", "two", "two over one"], rows) + _measured("spark")


def decoding() -> str:
    """Exact and approximate decoding, by the length of the noise."""
    figures = saved("speed")["sections"]["decoding"]
    rows = []
    for one in figures["noises"]:
        exact, approximate = (figures["vectors"] / one[f"{kind}_seconds"] for kind in ("exact", "approximate"))
        ratios = [f"{one['approximate_over_exact']:.1f}", f"{one['recall']:.3f}"]
        rows.append([f"{one['noise_over_neighbour_distance']:g}", f"{exact:,.0f}", f"{approximate:,.0f}", *ratios])
    head = ["noise, in distances to the nearest neighbour", "exact, vectors/s", "approximate", "ratio", "recall"]
    return table(head, rows) + f"\n*{figures['words']:,} words, {figures['dimension']} dimensions.*\n"


def large() -> str:
    """The whole GloVe and a synthetic space of millions of words."""
    cases = saved("speed")["sections"]["large"]
    names = [name for name in ("glove", "synthetic") if name in cases]
    shown = [
        ("words", lambda case: f"{case['words']:,}"),
        ("dimensions", lambda case: f"{case['dimension']}"),
        ("loading", lambda case: f"{case['load_seconds']:,.1f} s"),
        ("figures of the space, once", lambda case: f"{case['statistics_seconds']:,.0f} s"),
        ("compiling published TEM", lambda case: f"{case['published_seconds']:,.1f} s"),
        ("compiling a row when its word first occurs", lambda case: f"{1e3 * case['rows_seconds_per_row']:,.1f} ms"),
        ("tokens/s once rows are there", lambda case: f"{case['warm_run_tokens_per_second']:,.0f}"),
        ("peak memory", lambda case: f"{max(v for k, v in case.items() if k.endswith('peak_mib')):,.0f} MiB"),
    ]
    rows = [[what, *(value(cases[name]) for name in names)] for what, value in shown]
    return table(["", *({"glove": "GloVe", "synthetic": "synthetic"}[name] for name in names)], rows)


TABLES: dict[str, Callable[[], str]] = {
    "decoding": decoding, "large": large,
    "floors": floors, "peers": peers, "killed-run": killed_run, "spark": spark,
}  # fmt: skip


def _line(name: str, x: list[float], y: list[float], dashed: bool = False) -> Figures:
    return {"name": name, "x": x, "y": y, "low": [], "high": [], "dashed": dashed}


def _figure(title: str, x_label: str, y_label: str, lines: list[Figures], log_x: bool = False) -> Figures:
    return {"title": title, "x_label": x_label, "y_label": y_label, "lines": lines, "log_x": log_x, "levels": {}}


def growth_with_words() -> Figures:
    """What a row costs for every word of the space."""
    rows = saved("speed")["sections"]["growth"]["rows"]
    per_word = [1e9 * row["seconds_per_row"] / row["words"] for row in rows]
    return _figure(
        "Compiling a row, for every word of the space", "words", "nanoseconds",
        [_line("a row of TEM, 100 dimensions", [row["words"] for row in rows], per_word)], log_x=True,
    )  # fmt: skip


def growth_with_corpus() -> Figures:
    """What a token costs as the corpus grows."""
    rows = saved("speed")["sections"]["growth"]["corpus"]
    per_token = [1e6 * row["seconds"] / row["tokens"] for row in rows]
    return _figure(
        "Text in to text out, for every token of the corpus", "tokens", "microseconds",
        [_line("TEM, one core", [row["tokens"] for row in rows], per_token)], log_x=True,
    )  # fmt: skip


def resident() -> Figures:
    """The resident size in the course of a run."""
    figures = saved("killed_run")
    lines = []
    for name, key in (
        ("not killed", "resident_mib_by_tenth"),
        ("the last part of the one that was", "resumed_resident_mib_by_tenth"),
    ):
        sizes = figures[key][:10]
        lines.append(_line(name, list(range(1, len(sizes) + 1)), sizes, dashed=key.startswith("resumed")))
    return _figure(f"Resident size of a run over {figures['rows']:,} rows", "tenth of the run", "MiB", lines)


PLOTS: dict[str, Callable[[], Figures]] = {
    "growth-words": growth_with_words, "growth-corpus": growth_with_corpus,
    "resident": resident,
}  # fmt: skip


def digest(figure: Figures) -> str:
    """Return what tells whether a plot shows these figures."""
    return f"<!-- {hashlib.sha256(json.dumps(figure, sort_keys=True).encode()).hexdigest()} -->\n"


def page(text: str) -> str:
    """Return the page with its tables made anew."""
    return _BLOCK.sub(lambda found: f"{found[1]}{_table_named(found['name'])}{found[3]}", text)


def _table_named(name: str) -> str:
    try:
        return TABLES[name]()
    except (FileNotFoundError, KeyError):
        return "*Not measured: run* `make bench`.\n"


def plots() -> dict[str, Figures | None]:
    """Return what every plot shows; None where it was not measured."""
    found: dict[str, Figures | None] = {}
    for name, figure in PLOTS.items():
        try:
            found[name] = figure()
        except (FileNotFoundError, KeyError):
            found[name] = None
    return found


def stale() -> list[str]:
    """Return what is not current."""
    found = [] if page(PAGE.read_text(encoding="utf-8")) == PAGE.read_text(encoding="utf-8") else [PAGE.name]
    for name, figure in plots().items():
        path = IMAGES / f"{name}.svg"
        if figure is None or not path.exists() or not path.read_text(encoding="utf-8").endswith(digest(figure)):
            found.append(path.name)
    return found


def main() -> int:
    """Write the page and the plots, or say what is out of date."""
    if "--check" in sys.argv:
        old = stale()
        print(*(f"{name} is out of date; run: python benchmarks/large/draw.py" for name in old), sep="\n")
        return int(bool(old))
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    for name, figure in plots().items():
        if figure is not None:
            (IMAGES / f"{name}.svg").write_text(figure_svg(figure) + digest(figure), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
