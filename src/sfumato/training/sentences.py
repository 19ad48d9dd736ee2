"""Sentences with the user who wrote them and the entities they mention.

The words are kept out of every printed form: a sentence shows its numbers only.

>>> Sentence(user="u1", tokens=("hello", "world"), entities=frozenset({"world"}))
Sentence(2 tokens, 1 entities)
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.foundation.errors import DataError, ParameterError
from sfumato.policy import Document, Policy


@dataclass(frozen=True, repr=False)
class Sentence:
    """One sentence."""

    user: str
    tokens: tuple[str, ...]
    entities: frozenset[str] = frozenset()
    """Names of the entities it mentions, whatever their form; the same name is the same entity."""
    label: int | None = None
    marked: tuple[int, ...] = ()
    """Places of the tokens that belong to an entity: what de-identification masks."""

    def __repr__(self) -> str:
        return f"Sentence({len(self.tokens)} tokens, {len(self.entities)} entities)"


MASK = "<entity>"


def masked(sentence: Sentence) -> Sentence:
    """Return the sentence with every token of an entity replaced by a mask: de-identification, no guarantee.

    >>> masked(Sentence("u", ("call", "Bob"), frozenset({"bob"}), marked=(1,))).tokens
    ('call', '<entity>')
    """
    hidden = set(sentence.marked)
    tokens = tuple(MASK if place in hidden else token for place, token in enumerate(sentence.tokens))
    return Sentence(sentence.user, tokens, frozenset(), sentence.label)


def tag_entities(
    texts: Sequence[str],
    users: Sequence[str],
    policy: Policy | Mapping[str, Policy],
    labels: Sequence[int | None] | None = None,
) -> list[Sentence]:
    """Return the texts as sentences whose entities are what a policy protects.

    Neighbouring protected tokens are one entity, named by its words in lower case.  With several policies by category,
    an entity counts for each category that marks it.  What no policy marks makes a sentence an entity of its own, so
    that a name which is overlooked is still covered in that one sentence.

    >>> from sfumato.policy import protect_words
    >>> one, = tag_entities(["Ask Bob Ray now"], ["u1"], protect_words(["bob", "ray"]))
    >>> len(one.entities), one.marked
    (1, (1, 2))
    """
    if len(texts) != len(users) or (labels is not None and len(labels) != len(texts)):
        raise ParameterError("texts, users and labels must have the same length")
    policies = dict(policy) if isinstance(policy, Mapping) else {"": policy}
    documents = [Document(text) for text in texts]
    masks = {name: one.protects_many(documents) for name, one in policies.items()}
    result = []
    for place, document in enumerate(documents):
        tokens = tuple(document.tokens)
        entities: set[str] = set()
        marked: set[int] = set()
        for name in policies:
            for run in _runs(masks[name][place]):
                entities.add(f"{name}:{' '.join(tokens[i].lower() for i in run)}")
                marked.update(run)
        label = labels[place] if labels is not None else None
        result.append(Sentence(users[place], tokens, frozenset(entities), label, tuple(sorted(marked))))
    return result


def _runs(mask: Iterable[bool]) -> Iterator[list[int]]:
    run: list[int] = []
    for place, marked in enumerate(mask):
        if marked:
            run.append(place)
        elif run:
            yield run
            run = []
    if run:
        yield run


def read_conll(path: str | Path, categories: Iterable[str] = ("PER", "ORG", "LOC", "MISC")) -> list[Sentence]:
    """Read a file of the CoNLL-2003 form: one token to a line, its entity tag last; each document is a user."""
    wanted = frozenset(categories)
    result: list[Sentence] = []
    document = 0
    tokens: list[str] = []
    tags: list[str] = []

    def end() -> None:
        if tokens:
            entities, marked = _tagged(tokens, tags, wanted)
            result.append(Sentence(f"document {document}", tuple(tokens), entities, None, marked))
        tokens.clear()
        tags.clear()

    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            fields = line.split()
            if not fields:
                end()
            elif fields[0] == "-DOCSTART-":
                end()
                document += 1
            elif len(fields) < 2:
                raise DataError(f"line {number} has no tag; a line is a token, other columns, and its entity tag")
            else:
                tokens.append(fields[0])
                tags.append(fields[-1])
    end()
    if not result:
        raise DataError("the file has no sentences")
    return result


def _tagged(tokens: list[str], tags: list[str], wanted: frozenset[str]) -> tuple[frozenset[str], tuple[int, ...]]:
    entities: set[str] = set()
    marked: list[int] = []
    current: list[int] = []
    previous = ""

    def close() -> None:
        if current:
            entities.add(f"{previous}:{' '.join(tokens[i].lower() for i in current)}")
            current.clear()

    for place, tag in enumerate(tags):
        prefix, _, category = tag.partition("-")
        if category not in wanted:
            close()
            previous = ""
            continue
        if prefix == "B" or category != previous:
            close()
        previous = category
        current.append(place)
        marked.append(place)
    close()
    return frozenset(entities), tuple(marked)


def read_records(
    path: str | Path,
    *,
    policy: Policy | Mapping[str, Policy],
    text: str = "text",
    user: str = "user",
    label: str | None = None,
) -> list[Sentence]:
    """Read a CSV or JSON-lines file with a column of texts and one of users; entities are what a policy protects."""
    texts: list[str] = []
    users: list[str] = []
    labels: list[int | None] = []
    for number, row in enumerate(_rows(Path(path)), start=1):
        missing = [name for name in (text, user, *([label] if label else [])) if row.get(name) is None]
        if missing:
            raise DataError(f"record {number} has no column {', '.join(missing)}")
        texts.append(str(row[text]))
        users.append(str(row[user]))
        try:
            labels.append(int(row[label]) if label else None)
        except ValueError as error:
            raise DataError(f"the label of record {number} is not a whole number") from error
    if not texts:
        raise DataError("the file has no records")
    return tag_entities(texts, users, policy, labels)


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    with path.open(encoding="utf-8", newline="") as lines:
        if path.suffix.lower() == ".csv":
            yield from csv.DictReader(lines)
            return
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise DataError(f"line {number} is not JSON; the file must be .csv or JSON lines") from error
            if not isinstance(row, dict):
                raise DataError(f"line {number} is not a JSON object")
            yield row
