"""A function for ``datasets.Dataset.map``.

>>> from sfumato.foundation.randomness import RunKey
>>> from sfumato.sanitize.adapters.building import build_sanitizer
>>> from sfumato.space import Space
>>> space = Space.from_arrays(["cold", "cool", "warm", "hot"], [[0.0], [1.0], [3.0], [4.0]])
>>> function = for_datasets(build_sanitizer("tem", 1.0, space=space), column="text", key=RunKey.generate())
>>> whole = function({"text": ["cold", None, "hot"]}, [0, 1, 2])["text"]
>>> whole[1:] == function({"text": [None, "hot"]}, [1, 2])["text"]
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from sfumato.foundation.errors import DataError, ParameterError
from sfumato.foundation.guarantee import Guarantee
from sfumato.foundation.randomness import RunKey
from sfumato.sanitize.adapters.settled import settled
from sfumato.sanitize.adapters.texts import Texts, released_guarantee, require_texts, sanitize_columns
from sfumato.sanitize.sanitizer import Sanitizer


@dataclass(frozen=True)
class DatasetFunction:
    """What :func:`for_datasets` returns; it can be pickled, so it also runs in several processes."""

    sanitizer: Sanitizer
    columns: tuple[str, ...]
    key: RunKey | None = field(default=None, repr=False)
    first_record: int = 0

    def __getstate__(self) -> dict[str, Any]:
        """Return what a pickle holds: always the same, since the library knows its stored results by a digest of it."""
        return {**vars(self), "sanitizer": settled(self.sanitizer)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @property
    def guarantee(self) -> Guarantee:
        """What is promised about each text that comes out."""
        return released_guarantee(self.sanitizer, self.key)

    def __call__(self, rows: dict[str, Any], indices: Sequence[int] | None = None) -> dict[str, Texts]:
        """Sanitize the rows of one batch; ``indices`` are their places in the data set."""
        if indices is None:
            raise ParameterError("the places of the records are needed: map(function, batched=True, with_indices=True)")
        if isinstance(indices, int):
            raise ParameterError("records come in batches: map(function, batched=True, with_indices=True)")
        missing = [name for name in self.columns if name not in rows]
        if missing:
            raise DataError(f"there is no column {', '.join(missing)}; the columns are: {', '.join(rows)[:1000]}")
        done: dict[str, Texts] = {name: [] for name in self.columns}
        for start, stop in _runs(indices):
            first = indices[start]
            texts = [require_texts(rows[name][start:stop], f"the column {name}", first) for name in self.columns]
            new = sanitize_columns(self.sanitizer, texts, key=self.key, first_row=self.first_record + first)
            for name, column in zip(self.columns, new, strict=True):
                done[name] += column
        return done


def for_datasets(
    sanitizer: Sanitizer, column: str | Sequence[str], *, key: RunKey | None = None, first_record: int = 0
) -> DatasetFunction:
    """Return a function for ``dataset.map(function, batched=True, with_indices=True)``.

    With a key, the record at place ``i`` always gets the same noise, however the data are cut into batches and
    processes; it is the noise of row ``first_record + i`` of a file or frame with the same text columns.  Without one,
    the operating system's random numbers are used.  Nulls stay null.

    Data sets mapped under one key, such as the splits of one data set, need places of their own: give the second one the
    length of the first as ``first_record``.
    """
    columns = (column,) if isinstance(column, str) else tuple(column)
    if not columns or len(set(columns)) < len(columns):
        raise ParameterError("column must name at least one column, and none of them twice")
    return DatasetFunction(sanitizer, columns, key, first_record)


def _runs(indices: Sequence[int]) -> list[tuple[int, int]]:
    """Return where the runs of consecutive numbers begin and end.

    >>> _runs([4, 5, 6, 9, 2, 3])
    [(0, 3), (3, 4), (4, 6)]
    """
    breaks = [place for place in range(1, len(indices)) if indices[place] != indices[place - 1] + 1]
    edges = [0, *breaks, len(indices)]
    return [(start, stop) for start, stop in pairwise(edges) if start < stop]
