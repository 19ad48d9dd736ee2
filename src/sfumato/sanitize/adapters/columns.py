"""Columns of pandas and polars frames.

Neither library is imported here before a frame of it arrives.  What comes back never carries the texts that went in:
categories are left behind, because their list holds every value of the column.
"""

from __future__ import annotations

import importlib
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sfumato.foundation.errors import DataError, ParameterError
from sfumato.foundation.guarantee import Guarantee
from sfumato.foundation.randomness import RunKey
from sfumato.sanitize.adapters.texts import Texts, not_a_text, released_guarantee, require_texts, sanitize_columns
from sfumato.sanitize.sanitizer import Sanitizer

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

Table = TypeVar("Table")
ATTRIBUTE = "sfumato"
"""Under this name the ``attrs`` of a pandas frame hold the guarantee of every sanitized column, as plain data."""

_THE_SERIES = "the series"


def sanitize_table(
    sanitizer: Sanitizer, table: Table, columns: Hashable | Sequence[Hashable] = None, *, key: RunKey | None = None
) -> Table:
    """Return a copy of a frame or series with the texts replaced; see :meth:`sfumato.Sanitizer.column`."""
    kinds = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(table).__mro__}
    if kinds & {"pandas.Series", "polars.Series"}:
        if columns is not None:
            raise ParameterError("a series is one column: leave columns out")
        return _pandas_series(sanitizer, table, key) if "pandas.Series" in kinds else _polars_series(sanitizer, table, key)
    if "pandas.DataFrame" in kinds:
        return _pandas_frame(sanitizer, table, _names(columns), key)
    if "polars.DataFrame" in kinds:
        return _polars_frame(sanitizer, table, _names(columns), key)
    if "polars.LazyFrame" in kinds:
        raise ParameterError("a lazy frame would be sanitized anew each time it is collected; call collect() first")
    raise ParameterError(f"a pandas or polars DataFrame or Series is needed, got a {type(table).__name__}")


def _names(columns: Hashable | Sequence[Hashable]) -> list[Hashable]:
    if columns is None:
        raise ParameterError("columns must name the text column of the frame, or several in a list")
    names: list[Hashable] = list(columns) if isinstance(columns, (list, tuple)) else [columns]  # type: ignore[list-item]
    if not names:
        raise ParameterError("columns must name at least one column")
    if len(set(names)) < len(names):
        raise ParameterError("columns names a column twice; a text is sanitized once")
    return names
