"""Columns of pandas and polars frames.

Neither library is imported here before a frame of it arrives.  What comes back does not carry the texts that went in:
categories become plain strings, because the list of categories holds every value of the column.
"""

from __future__ import annotations

import importlib
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from sfumato.foundation.errors import DataError, ParameterError
from sfumato.foundation.randomness import RunKey
from sfumato.sanitize.adapters.texts import Texts, not_a_text, released_guarantee, require_texts, sanitize_columns
from sfumato.sanitize.sanitizer import Sanitizer

Table = TypeVar("Table")
ATTRIBUTE = "sfumato"
"""Under this name ``attrs`` of a pandas frame holds the guarantee of each sanitized column, as plain data."""


def sanitize_table(
    sanitizer: Sanitizer,
    table: Table,
    columns: Hashable | Sequence[Hashable] = None,
    *,
    key: RunKey | None = None,
    first_row: int = 0,
) -> Table:
    """Return a copy of a frame or series with its texts replaced; see :meth:`sfumato.Sanitizer.column`."""
    library, is_frame = _library_of(table)
    names: list[Hashable]
    before: list[Any]
    if is_frame:
        names = _names(columns, library.names(table))
        before, where = [library.series(table, name) for name in names], [f"the column {name}" for name in names]
    elif columns is None:
        before, where = [table], ["the series"]
        names = [library.name(table)]
    else:
        raise ParameterError("a series is one column; leave columns out")
    texts = [library.texts(series, place) for series, place in zip(before, where, strict=True)]
    drawn = sanitize_columns(sanitizer, texts, key=key, first_row=first_row)
    after = [library.replaced(series, new) for series, new in zip(before, drawn, strict=True)]
    result = library.put(table, names, after) if is_frame else after[0]
    finished: Table = library.with_guarantee(result, table, names, released_guarantee(sanitizer, key).to_json())
    return finished


def _library_of(table: object) -> tuple[_Pandas | _Polars, bool]:
    """Return what handles the table, and whether it is a frame; subclasses count."""
    kinds = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(table).__mro__}
    if kinds & {"pandas.DataFrame", "pandas.Series"}:
        return _Pandas(), "pandas.DataFrame" in kinds
    if kinds & {"polars.DataFrame", "polars.Series"}:
        return _Polars(), "polars.DataFrame" in kinds
    if "polars.LazyFrame" in kinds:
        raise ParameterError("a lazy frame would be sanitized anew each time it is collected; call collect() first")
    raise ParameterError(f"a pandas or polars DataFrame or Series is needed, got a {type(table).__name__}")


def _names(columns: Hashable | Sequence[Hashable], available: Iterable[Hashable]) -> list[Hashable]:
    """Return the wanted names, each of which must be the name of exactly one column."""
    if columns is None:
        raise ParameterError("columns must name the text column of the frame, or several in a list")
    names: list[Hashable] = [*columns] if isinstance(columns, (list, tuple)) else [columns]
    if not names or len(set(names)) < len(names):
        raise ParameterError("columns must name at least one column, and none of them twice")
    there = list(available)
    for name in names:
        if there.count(name) == 0:
            raise DataError(f"there is no column {name}; the columns are: {', '.join(map(str, there))[:1000]}")
        if there.count(name) > 1:
            raise DataError(f"the column name {name} occurs more than once; rename all but one")
    return names


class _Pandas:
    """What pandas calls things."""

    def __init__(self) -> None:
        self._pandas = importlib.import_module("pandas")

    def names(self, frame: Any) -> Iterable[Hashable]:
        return list(frame.columns)

    def name(self, series: Any) -> Hashable:
        name: Hashable = series.name
        return name

    def series(self, frame: Any, name: Hashable) -> Any:
        return frame.iloc[:, list(frame.columns).index(name)]

    def texts(self, series: Any, where: str) -> Texts:
        values = series.to_numpy(dtype=object, copy=True)
        values[series.isna().to_numpy()] = None
        return require_texts(values.tolist(), where)

    def replaced(self, series: Any, texts: Texts) -> Any:
        values = series.to_numpy(dtype=object, copy=True)  # a null keeps its own spelling: None, NaN or NA
        there = ~series.isna().to_numpy()
        values[there] = np.array(texts, dtype=object)[there]
        kind = self._kind(series.dtype, anything=bool(there.any()))
        return self._pandas.Series(values, index=series.index, name=series.name, dtype=kind)

    def _kind(self, kind: Any, anything: bool) -> Any:
        """Return the type of the column that comes out: the same, but without a list of the values that went in."""
        if isinstance(kind, self._pandas.CategoricalDtype):
            kind = kind.categories.dtype
            return kind if isinstance(kind, self._pandas.StringDtype) else np.dtype(object)
        if isinstance(kind, self._pandas.ArrowDtype) and str(kind.pyarrow_dtype).startswith("dictionary"):
            return self._pandas.ArrowDtype(importlib.import_module("pyarrow").string())
        return kind

    def put(self, frame: Any, names: Sequence[Hashable], columns: Sequence[Any]) -> Any:
        result = frame.copy(deep=False)
        for name, series in zip(names, columns, strict=True):
            result.isetitem(list(frame.columns).index(name), series)
        return result

    def with_guarantee(self, result: Any, before: Any, names: Sequence[Hashable], guarantee: dict[str, Any]) -> Any:
        told = {**before.attrs.get(ATTRIBUTE, {}), **{str(name): guarantee for name in names}}
        result.attrs = {**before.attrs, ATTRIBUTE: told}
        return result


class _Polars:
    """What polars calls things."""

    def __init__(self) -> None:
        self._polars = importlib.import_module("polars")

    def names(self, frame: Any) -> Iterable[Hashable]:
        return list(frame.columns)

    def name(self, series: Any) -> Hashable:
        name: Hashable = series.name
        return name

    def series(self, frame: Any, name: Hashable) -> Any:
        return frame.get_column(name)

    def texts(self, series: Any, where: str) -> Texts:
        if series.dtype == self._polars.Object:
            return require_texts(series.to_list(), where)
        textual = (self._polars.String, self._polars.Categorical, self._polars.Enum, self._polars.Null)
        if not isinstance(series.dtype, textual) and series.null_count() < len(series):
            raise not_a_text(where, str(series.dtype.base_type()), int(series.is_not_null().arg_max()))
        return list(series.cast(self._polars.String).to_list())

    def replaced(self, series: Any, texts: Texts) -> Any:
        return self._polars.Series(series.name, texts, dtype=self._polars.String)

    def put(self, frame: Any, names: Sequence[Hashable], columns: Sequence[Any]) -> Any:
        return frame.with_columns(columns)

    def with_guarantee(self, result: Any, before: Any, names: Sequence[Hashable], guarantee: dict[str, Any]) -> Any:
        return result
