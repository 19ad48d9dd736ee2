"""Structured logs: one line of JSON for each event, made of names and numbers only.

No line holds a body, a path as it was asked for, a query, a header, the message of a foreign exception or a subject.
What is logged of a request: its id, the route's template, the method, the status, how long it took, how many bytes came
in, and the id of the key.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import traceback
from datetime import UTC, datetime
from typing import Any

LOGGER = logging.getLogger("sfumato.server")
_FIELDS = "sfumato_fields"


class _Lines(logging.Formatter):
    """Formats our own events with their fields, and those of libraries without anything variable in them."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "process": os.getpid(),
        }
        fields = getattr(record, _FIELDS, None)
        if record.name == LOGGER.name and fields is not None:
            line |= {"event": record.msg, **fields}
        else:
            line |= {"event": "library", "logger": record.name, "place": f"{record.module}:{record.lineno}"}
            if record.exc_info and record.exc_info[0] is not None:
                line["error"] = record.exc_info[0].__name__
        return json.dumps(line, ensure_ascii=True)


def set_up(level: str) -> None:
    """Send everything to standard error as lines of JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    LOGGER.setLevel(level.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        logger = logging.getLogger(name)
        logger.handlers[:] = []
        logger.propagate = True
        logger.setLevel(logging.WARNING)


def event(name: str, level: int = logging.INFO, **fields: Any) -> None:
    """Log an event with its fields."""
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, name, extra={_FIELDS: {key: value for key, value in fields.items() if value is not None}})


def unexpected(error: BaseException, request_id: str | None) -> None:
    """Log a defect: where it happened and of which type, without its message, which might hold text."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames[-6:]]
    event("defect", logging.ERROR, request_id=request_id, error=type(error).__name__, places=places)


def milliseconds_since(start: float) -> float:
    """Return the time since a reading of the performance counter."""
    return round((time.perf_counter() - start) * 1000, 2)
