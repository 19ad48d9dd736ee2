"""Columns of texts that may hold nulls, and the numbers of their records."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.foundation.errors import DataError
from sfumato.foundation.guarantee import Guarantee
from sfumato.foundation.randomness import RunKey
from sfumato.sanitize.sanitizer import Sanitizer

Texts = list[str | None]
_ROWS_AT_A_TIME = 2000


def sanitize_columns(
    sanitizer: Sanitizer, columns: Sequence[Sequence[str | None]], *, key: RunKey | None, first_row: int = 0
) -> list[Texts]:
    """Sanitize columns of equal length; nulls stay null.

    Column ``c`` of row ``i`` is record ``i * len(columns) + c`` of the run, as it is for files, so that no two texts
    share their noise and the noise of a row does not depend on how many rows come at a time.
    """
    width = len(columns)
    done: list[Texts] = [[] for _ in columns]
    for start in range(0, len(columns[0]), _ROWS_AT_A_TIME):
        rows = zip(*(column[start : start + _ROWS_AT_A_TIME] for column in columns), strict=True)
        before = [text for row in rows for text in row]
        # Where there is no text, an empty one holds its place, so that the records after it keep their numbers.
        batch = sanitizer.batch([text or "" for text in before], key=key, first_record=(first_row + start) * width)
        after = [None if old is None else new for old, new in zip(before, batch.texts, strict=True)]
        for place, column in enumerate(done):
            column += after[place::width]
    return done


def require_texts(values: Sequence[object], where: str, first_row: int = 0) -> Texts:
    """Return the values, each a string or None; ``where`` names the column in the message.

    >>> require_texts(["a", None], "the column")
    ['a', None]
    >>> require_texts(["a", 3.0], "the column")
    Traceback (most recent call last):
        ...
    sfumato.foundation.errors.DataError: the column has a value of type float at row 1 (counted from 0); make it a \
string, or null where there is no text
    """
    texts: Texts = []
    for row, value in enumerate(values, start=first_row):
        if value is not None and not isinstance(value, str):
            raise not_a_text(where, type(value).__name__, row)
        texts.append(value)
    return texts


def not_a_text(where: str, kind: str, row: int) -> DataError:
    """Return the error for a value that is no text."""
    return DataError(
        f"{where} has a value of type {kind} at row {row} (counted from 0); make it a string, or null where there is "
        "no text"
    )


def released_guarantee(sanitizer: Sanitizer, key: RunKey | None) -> Guarantee:
    """Return what is promised about texts that were sanitized with this key."""
    return sanitizer.guarantee if key is None else sanitizer.guarantee.with_randomness(key.secure)
