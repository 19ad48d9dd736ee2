"""Short ways through the file formats."""

from __future__ import annotations

import io
from typing import Any

from sfumato.scale import ReadOptions, open_reader, open_writer


def through(
    content: bytes,
    source: str,
    target: str,
    columns: tuple[str, ...] = ("text",),
    change: Any = str.upper,
    **options: Any,
) -> bytes:
    """Read, change every text, and write."""
    reader = open_reader(io.BytesIO(content), source, ReadOptions(columns, **options))
    output = io.BytesIO()
    writer = open_writer(output, target, reader)
    for records in reader.batches():
        records.replace([[None if text is None else change(text) for text in column] for column in records.texts()])
        writer.write(records)
    writer.finish()
    reader.close()
    return output.getvalue()


def texts(content: bytes, source: str, columns: tuple[str, ...] = ("text",), **options: Any) -> list[list[str | None]]:
    """Return the text columns of a whole file."""
    reader = open_reader(io.BytesIO(content), source, ReadOptions(columns, **options))
    found: list[list[str | None]] = [[] for _ in reader.text_columns]
    for records in reader.batches():
        for column, more in zip(found, records.texts(), strict=True):
            column += more
    return found
