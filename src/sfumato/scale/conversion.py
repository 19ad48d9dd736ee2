"""Plain values from one format to another."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from sfumato.foundation.errors import DataError

# Made once: json.dumps makes an encoder for every call that asks for anything but its defaults.
_AS_IT_IS = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def as_field(value: object) -> str:
    """Return a value as it is written in a CSV field.

    >>> [as_field(v) for v in (None, True, 2, 0.5, "x", [1, "a"])]
    ['', 'true', '2', '0.5', 'x', '[1, "a"]']
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (dict, list)):
        return as_json(value)
    return str(_simple(value))


def as_json(value: object) -> str:
    """Return a value as JSON; what JSON has no number for (NaN, infinity) becomes null.

    >>> as_json({"a": float("nan"), "b": "é"})
    '{"a": null, "b": "é"}'
    """
    simple = value if isinstance(value, str) else _simple(value)
    text = _AS_IT_IS.encode(simple)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # half of a surrogate pair can be written as an escape only
        text = json.dumps(simple, allow_nan=False)
    return text


def _simple(value: Any) -> Any:
    """Return the value in the types that JSON has."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _simple(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_simple(one) for one in value]
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    raise DataError(
        f"a column of type {type(value).__name__} cannot be written as text; write .parquet, or drop the column"
    )
