"""From stretches of text to tokens: which tokens does a span touch, which does it cover?

A stretch to be protected protects every token that it touches; a stretch to be kept keeps only the tokens that lie
wholly inside it.  Where the borders do not agree, more is protected.

>>> document = Document("call 555-0100 now")
>>> document.tokens
['call', '555', '0100', 'now']
>>> touched(document, [(3, 8)]).tolist()
[True, True, False, False]
>>> covered(document, [(3, 8)]).tolist()
[False, True, False, False]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from sfumato.foundation.errors import ParameterError
from sfumato.policy.base import Document, Mask

Spans = Iterable[Sequence[int]]
"""Pairs of offsets (start, end), end exclusive, as slices have them."""


def touched(document: Document, spans: Spans) -> Mask:
    """Return which tokens share at least one character with a span."""
    begins, ends = _checked(document, spans)
    first = np.searchsorted(document.ends, begins, side="right")
    stop = np.searchsorted(document.starts, ends, side="left")
    return _marked(len(document.starts), first, stop)


def covered(document: Document, spans: Spans) -> Mask:
    """Return which tokens lie wholly inside a single span."""
    begins, ends = _checked(document, spans)
    first = np.searchsorted(document.starts, begins, side="left")
    stop = np.searchsorted(document.ends, ends, side="right")
    return _marked(len(document.starts), first, stop)


def encodable(text: str) -> str:
    """Return the text with half surrogate pairs replaced, one for one, so that offsets stay and any library can encode it.

    >>> encodable("a\\ud800b") == "a\\ufffdb"
    True
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in text)
    return text


def _checked(document: Document, spans: Spans) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    wanted = "a span is a pair of whole numbers (start, end) with 0 <= start <= end <= the length of the text"
    try:
        rows = list(spans)
        table = np.array(rows) if rows else np.empty((0, 2), dtype=np.int64)
    except (TypeError, ValueError):
        raise ParameterError(wanted) from None  # what an object says when it is made an array may be text
    if table.ndim != 2 or table.shape[1] != 2 or table.dtype.kind not in "iu":
        raise ParameterError(wanted)
    table = table.astype(np.int64)
    begins, ends = table[:, 0], table[:, 1]
    wrong = np.flatnonzero((begins < 0) | (ends < begins) | (ends > len(document.text)))
    if len(wrong):
        raise ParameterError(f"span {wrong[0]} is not inside the text; {wanted}")
    kept = begins < ends  # an empty span touches nothing
    return begins[kept], ends[kept]


def _marked(tokens: int, first: npt.NDArray[np.intp], stop: npt.NDArray[np.intp]) -> Mask:
    """Return a mask that is true from each ``first`` up to its ``stop``, where that is a range at all."""
    some = first < stop
    depth = np.zeros(tokens + 1, dtype=np.int64)
    np.add.at(depth, first[some], 1)
    np.add.at(depth, stop[some], -1)
    return np.asarray(np.cumsum(depth[:-1]) > 0)
