"""Named entities, through any spaCy pipeline (extra ``spacy``).

The pipeline is the user's: nothing is downloaded.  Its own memory of the words it has seen (spaCy interns strings for
as long as a pipeline lives) is emptied after every batch, and texts of any length are read in overlapping parts.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from sfumato.foundation.errors import ParameterError
from sfumato.policy.base import CHOSEN_IN_CONTEXT, Document, Mask, Policy
from sfumato.policy.categories import EntityCategory, labels_of
from sfumato.policy.optional import optional
from sfumato.policy.spans import encodable, touched

PART = 100_000
"""Characters that a pipeline reads at once; spaCy itself refuses more than a million."""
OVERLAP = 1_000
"""Characters that two parts of a text share, so that an entity at the seam is seen whole."""
_BATCH = 64

# One batch at a time for each pipeline: its memory zone holds whatever runs inside it.
_LOCKS: WeakKeyDictionary[Any, threading.Lock] = WeakKeyDictionary()
_LOCKS_LOCK = threading.Lock()


class _NamedEntities(Policy):
    def __init__(self, pipeline: Any, source: str | Path | None, labels: frozenset[str], described: str) -> None:
        self._pipeline = pipeline
        self._source = source
        self._labels = labels
        self._described = described

    def __getstate__(self) -> dict[str, Any]:
        """Leave out a pipeline that was loaded by name: it is loaded again where it is needed."""
        state = self.__dict__.copy()
        if self._source is not None:
            state["_pipeline"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._source is not None:
            self._pipeline = _load(self._source)

    @property
    def keeps(self) -> str:
        return f"every token outside what {self._described}, names that it overlooks among them; {CHOSEN_IN_CONTEXT}"

    def protects(self, document: Document) -> Mask:
        return self.protects_many([document])[0]

    def protects_many(self, documents: Sequence[Document]) -> list[Mask]:
        spans: list[list[tuple[int, int]]] = [[] for _ in documents]
        with _lock_of(self._pipeline), self._pipeline.memory_zone():
            for read, (place, offset) in self._pipeline.pipe(_parts(documents), as_tuples=True, batch_size=_BATCH):
                spans[place] += [
                    (offset + entity.start_char, offset + entity.end_char)
                    for entity in read.ents
                    if entity.label_ in self._labels
                ]
        return [touched(document, found) for document, found in zip(documents, spans, strict=True)]


def named_entities(
    pipeline: Any,
    categories: Iterable[EntityCategory | str] | None = None,
    *,
    unlisted: bool = False,
) -> Policy:
    """Protect the named entities that a spaCy pipeline marks, and release the rest as it is.

    ``pipeline`` is a loaded pipeline, or the name or folder of an installed one.  ``categories`` are categories
    (:class:`EntityCategory`, by name too) or labels of the pipeline itself; without them every entity is protected.
    A category that the pipeline cannot mark is an error, for nothing would protect it; ``unlisted`` accepts labels that
    no component of the pipeline says it has, such as those of a component of one's own.

    What the pipeline overlooks is released: combine it with others, as in ``named_entities(nlp) | numbers()``.
    """
    source = pipeline if isinstance(pipeline, (str, Path)) else None
    loaded = _load(source) if source is not None else pipeline
    if not (hasattr(loaded, "pipe") and hasattr(loaded, "pipe_labels")):
        raise ParameterError("pipeline must be a spaCy pipeline, or the name or folder of one that is installed")
    if not hasattr(loaded, "memory_zone"):
        raise ParameterError("named entities need spaCy 3.8 or newer: pip install --upgrade 'sfumato[spacy]'")
    known = _entity_labels(loaded)
    wanted = None if categories is None else _wanted(categories)
    if wanted is None:
        if not known:
            raise ParameterError("no component of the pipeline says which labels it gives; name the categories")
        chosen, names = known, sorted(known)
    else:
        chosen, names = _chosen(wanted, known, unlisted), sorted(wanted)
    described = f"the spaCy pipeline {_name(loaded)!r} marks as {', '.join(names)}"
    return _NamedEntities(loaded, source, chosen, described)


def _wanted(categories: Iterable[EntityCategory | str]) -> list[str]:
    if isinstance(categories, str):
        raise ParameterError("categories must be a list of categories, not a single string")
    wanted = [str(category) for category in categories]
    if not wanted:
        raise ParameterError("categories must not be empty; leave them out to protect every entity")
    return wanted


def _chosen(wanted: Sequence[str], known: Collection[str], unlisted: bool) -> frozenset[str]:
    chosen: set[str] = set()
    missing = []
    for name in wanted:
        labels = labels_of(EntityCategory(name), known) if name in set(EntityCategory) else frozenset()
        labels |= {name} & set(known)
        if not labels and unlisted:
            labels = frozenset({name})
        if not labels:
            missing.append(name)
        chosen |= labels
    if missing:
        raise ParameterError(
            f"the pipeline cannot mark {', '.join(missing)}: its labels are {', '.join(sorted(known)) or 'none'}; "
            "leave these categories out, use another pipeline, or say unlisted=True if a component of yours marks them"
        )
    return frozenset(chosen)


def _load(source: str | Path) -> Any:
    spacy = optional("spacy", "spacy", "spacy")
    try:
        return spacy.load(source)
    except OSError as error:
        raise ParameterError(
            "there is no installed spaCy pipeline of that name, nor a folder with one; install it first "
            "(python -m spacy download NAME): nothing is downloaded while texts are privatized"
        ) from error


def _entity_labels(pipeline: Any) -> frozenset[str]:
    """Return the labels of the components that mark entities; taggers and parsers have labels too."""
    known: set[str] = set()
    for name, labels in pipeline.pipe_labels.items():
        assigns = pipeline.get_pipe_meta(name).assigns
        if "doc.ents" in assigns or getattr(pipeline.get_pipe(name), "annotate_ents", False):
            known.update(labels)
    return frozenset(known)


def _name(pipeline: Any) -> str:
    meta = pipeline.meta
    return f"{meta.get('lang', '')}_{meta.get('name', '')} {meta.get('version', '')}".strip()


def _lock_of(pipeline: Any) -> threading.Lock:
    with _LOCKS_LOCK:
        return _LOCKS.setdefault(pipeline, threading.Lock())


def _parts(documents: Sequence[Document]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Give each text in overlapping parts, with the number of its document and the part's offset."""
    for place, document in enumerate(documents):
        text = encodable(document.text)
        for start in range(0, max(len(text) - OVERLAP, 1), PART - OVERLAP):
            yield text[start : start + PART], (place, start)
