"""Server-sent events out of the bytes of an answer.

Lines end with a line feed, a carriage return or both, and with nothing else: other characters that Unicode calls line
ends may stand inside the JSON of an event.  What was received is bounded as it comes, an event that never ends included.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, AsyncIterator

_LINE_END = re.compile(rb"\r\n|\n|\r(?=.)", re.DOTALL)


class TooLongError(Exception):
    """More came than is taken."""


async def event_data(parts: AsyncIterable[bytes], *, most: int) -> AsyncIterator[str]:
    """Yield the data of each event; what is not UTF-8 raises ``UnicodeDecodeError``.

    >>> import asyncio
    >>> async def parts():
    ...     for part in (b"data: {\\r", b"\\ndata: }\\r\\n", b": a comment\\r\\n\\r\\ndata:[DO", b"NE]\\n\\n"):
    ...         yield part
    >>> async def listed():
    ...     return [data async for data in event_data(parts(), most=100)]
    >>> asyncio.run(listed())
    ['{\\n}', '[DONE]']
    """
    rest, data, received = b"", [], 0
    async for part in parts:
        received += len(part)
        if received > most:
            raise TooLongError
        # A carriage return at the very end waits: a line feed that belongs to it may follow.
        *lines, rest = _LINE_END.split(rest + part)
        for line in lines:
            if line:
                data += _data_of(line)
            elif data:
                yield "\n".join(data)
                data = []
    data += _data_of(rest.rstrip(b"\r"))
    if data:
        yield "\n".join(data)


def _data_of(line: bytes) -> list[str]:
    name, _, value = line.partition(b":")
    return [value.removeprefix(b" ").decode()] if name == b"data" else []
