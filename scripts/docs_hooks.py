"""Hooks of the documentation's build: the order of the pages, and the list of decision records.

Pages appear by themselves: those of :data:`ORDER` first, the others of a folder after them, by name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

ORDER = (
    "index.md",
    "installation.md",
    "quickstart.md",
    "choosing.md",
    "concepts/guarantees.md",
    "concepts/spaces.md",
    "concepts/policies.md",
    "concepts/randomness.md",
    "concepts/attacks.md",
    "adapters.md",
    "large.md",
    "spark.md",
    "performance.md",
    "mechanisms/comparison.md",
    "mechanisms/tem.md",
    "mechanisms/santext.md",
    "experiments/index.md",
    "accounting.md",
    "ledger.md",
    "latent.md",
    "training.md",
    "service.md",
    "deployment.md",
    "threat-model.md",
    "cli.md",
    "reference/index.md",
    "contributing.md",
    "decisions/index.md",
)
SECTIONS = {
    "concepts": "Concepts",
    "mechanisms": "Mechanisms",
    "reference": "Python reference",
    "decisions": "Decisions",
}
DECISIONS = "decisions/index.md"
LIST_OF_DECISIONS = "<!-- list of decisions -->"


def _in_order(pages: list[str]) -> list[str]:
    """Return the pages of the site in the order of the navigation."""
    known = [page for page in ORDER if page in pages]
    return known + sorted(set(pages) - set(known))


def navigation(pages: list[str]) -> list[str | dict[str, list[str]]]:
    """Return the navigation: top-level pages, and one section for each folder where its first page stands.

    >>> navigation(["cli.md", "index.md", "concepts/spaces.md", "concepts/policies.md", "concepts/new.md"])
    ['index.md', {'Concepts': ['concepts/spaces.md', 'concepts/policies.md', 'concepts/new.md']}, 'cli.md']
    """
    entries: list[str | dict[str, list[str]]] = []
    sections: dict[str, list[str]] = {}
    for page in _in_order(pages):
        folder, slash, _ = page.partition("/")
        if not slash:
            entries.append(page)
        elif folder in sections:
            sections[folder].append(page)
        else:
            sections[folder] = [page]
            entries.append({SECTIONS.get(folder, folder.replace("-", " ").capitalize()): sections[folder]})
    return entries


def _pages(docs: Path) -> list[str]:
    return [page.relative_to(docs).as_posix() for page in docs.rglob("*.md")]


def _title(page: Path) -> str:
    lines = page.read_text(encoding="utf-8").splitlines()
    return next((line.removeprefix("# ") for line in lines if line.startswith("# ")), page.stem)


def on_config(config: Any) -> Any:
    """Set the navigation from the pages there are."""
    config["nav"] = navigation(_pages(Path(config["docs_dir"])))
    return config


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """List the decision records on their first page."""
    if page.file.src_uri != DECISIONS:
        return markdown
    records = sorted(Path(config["docs_dir"]).glob("decisions/[0-9]*.md"))
    return markdown.replace(LIST_OF_DECISIONS, "\n".join(f"- [{_title(record)}]({record.name})" for record in records))
