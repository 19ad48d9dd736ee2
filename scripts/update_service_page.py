"""Write the tables of docs/service.md: the settings, from their definitions, and the figures, from the benchmark's results."""

from __future__ import annotations

import json
import re
import sys
import types
import typing
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from sfumato.server import settings

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "service.md"
RESULTS = ROOT / "benchmarks" / "results" / "service.json"
SECTIONS = {
    "server": settings.ServerSettings,
    "limits": settings.Limits,
    "ledger": settings.LedgerSettings,
    "noise": settings.NoiseSettings,
    "spaces.NAME": settings.SpaceSettings,
    "mechanisms.NAME": settings.MechanismSettings,
    "policies.NAME": settings.PolicySettings,
    "[keys]": settings.KeySettings,
    "anonymous": settings.AnonymousSettings,
    "chat": settings.ChatSettings,
    "page": settings.PageSettings,
    "metrics": settings.MetricsSettings,
}
TOP = {
    "default_mechanism": "The first one, where none is given.",
    "default_policy": "The first one, where none is given.",
}


def settings_table() -> str:
    """Return every setting with its default and its meaning."""
    lines = ["| setting | default | |", "|---|---|---|"]
    lines += [f"| `{name}` | | {meaning} |" for name, meaning in TOP.items()]
    for section, model in SECTIONS.items():
        lines.append(f"| **`[{section}]`** | | {_sentence(model.__doc__)} |")
        lines += [
            f"| `{name}` | {_default(found)} | {_sentence(found.description)}{_choices(found.annotation)} |"
            for name, found in model.model_fields.items()
        ]
    return "\n".join(lines)


def _default(found: FieldInfo) -> str:
    value = found.default
    if value is PydanticUndefined:
        return "needed"
    if value in (None, "") or value == [] or value == {}:
        return ""
    return f"`{json.dumps(value)}`"


def _choices(annotation: Any) -> str:
    """Return the values of a setting that has few."""
    if typing.get_origin(annotation) is typing.Literal:
        return " One of " + ", ".join(f"`{value}`" for value in typing.get_args(annotation)) + "."
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        return "".join(_choices(one) for one in typing.get_args(annotation))
    return ""


def _sentence(text: str | None) -> str:
    if not text:
        raise SystemExit("a setting has no description")
    first = " ".join(text.split("\n\n")[0].replace("``", "`").split())
    return first.replace("|", "\\|")


def figures_table() -> str:
    """Return the figures of the benchmark."""
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    names = {"none": "none", "sqlite": "SQLite", "postgresql": "PostgreSQL"}
    counts = list(found["ledgers"]["none"])
    lines = [
        f"Measured on {found['machine']} by `python benchmarks/service.py` at commit `{found['commit']}`: texts of "
        f"{found['words_per_text']} words, {found['workers']} workers, `wrk` on the same machine. Each figure is the best of "
        f"{len(found['ledgers']['none'][counts[0]]['per_second_runs'])} rounds in which the three ledgers take turns, as other "
        "work ran on the machine; all rounds are in `benchmarks/results/service.json`. Both ledgers write to disk before an "
        "answer is drawn.",
        "",
        "| ledger | connections | requests per second | median, ms | 99th percentile, ms |",
        "|---|---|---|---|---|",
    ]
    for ledger, name in names.items():
        for count in counts:
            one = found["ledgers"][ledger][count]
            lines.append(f"| {name} | {count} | {one['per_second']:,.0f} | {one['p50_ms']:.1f} | {one['p99_ms']:.1f} |")
    health = found["health_check"]["per_second"]
    over = [found[f"overdraft_{ledger}"] for ledger in ("sqlite", "postgresql")]
    lines += [
        "",
        f"The health check, which computes nothing, is answered {health:,.0f} times a second with 8 connections. A budget for "
        f"{over[0]['limit_in_texts']} texts, asked for by 64 connections at once, was charged {over[0]['charges']} times in "
        f"SQLite ({over[0]['refused']:,} requests were refused) and {over[1]['charges']} times in PostgreSQL "
        f"({over[1]['refused']:,} refused).",
    ]
    return "\n".join(lines)


def updated(page: str) -> str:
    """Return the page with its tables as they should be."""
    for name, table in (("figures of the service", figures_table()), ("settings", settings_table())):
        pattern = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end of {name} -->)", re.DOTALL)
        page, count = pattern.subn(lambda _, table=table: f"{table}\n", page)
        if count != 1:
            raise SystemExit(f"docs/service.md has no place for: {name}")
    return page


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.exit(0)
