"""This library, as its documentation calls it: ``drive_sfumato.py MECHANISM EPSILON VECTORS TEXTS SECONDS``."""

from __future__ import annotations

import sys
from pathlib import Path

from stopwatch import Replace, measure, processor_seconds

import sfumato
from sfumato.mechanism import artifact

NAME, EPSILON = sys.argv[1], float(sys.argv[2])
FROM_FILE = "-from-file"


def prepare(vectors: Path) -> Replace:
    """Compile the mechanism, or map one that was compiled before."""
    compiled = vectors.with_suffix(".sfm")
    if NAME.endswith(FROM_FILE):
        sanitizer = sfumato.Sanitizer(artifact.load(compiled))
    else:
        options = {"tuning": "published"} if NAME == "tem" else {}
        space = sfumato.Space.from_file(vectors)
        sanitizer = sfumato.Sanitizer(sfumato.compile(NAME, space, epsilon=EPSILON, **options))
        if NAME == "tem":
            to_write.append((sanitizer.mechanism, compiled))
    return lambda texts: sanitizer.batch(texts).texts


def write() -> None:
    """Write what was compiled, with all rows, for the run from a file; note what making the file takes in all."""
    for mechanism, path in to_write:
        start = processor_seconds()
        artifact.save(mechanism, path)
        path.with_suffix(".seconds").write_text(str(processor_seconds() - start))


to_write = []
measure(prepare)
write()
