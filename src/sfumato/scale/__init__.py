"""Files of any size: read in batches of records, sanitized, and written whole or not at all."""

from sfumato.scale.formats import FORMATS, format_of, open_reader, open_writer
from sfumato.scale.output import PendingFile, checked_target
from sfumato.scale.records import Reader, ReadOptions, Records, Writer
from sfumato.scale.runner import RunSummary, sanitize_records

__all__ = [
    "FORMATS",
    "PendingFile",
    "ReadOptions",
    "Reader",
    "Records",
    "RunSummary",
    "Writer",
    "checked_target",
    "format_of",
    "open_reader",
    "open_writer",
    "sanitize_records",
]
