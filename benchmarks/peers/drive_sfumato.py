"""This library, as its documentation calls it: ``drive_sfumato.py MECHANISM EPSILON VECTORS TEXTS SECONDS``."""

from __future__ import annotations

import sys
from pathlib import Path

from stopwatch import Replace, measure

import sfumato
from sfumato.mechanism import artifact

NAME, EPSILON = sys.argv[1], float(sys.argv[2])
FROM_FILE = "-from-file"


def prepare(vectors: Path) -> Replace:
    """Compile the mechanism, or map one that was compiled before."""
    if NAME.endswith(FROM_FILE):
        return sfumato.Sanitizer(artifact.load(vectors.with_suffix(".sfm"))).texts
    options = {"tuning": "published"} if NAME == "tem" else {}
    space = sfumato.Space.from_file(vectors)
    mechanism = sfumato.compile(NAME, space, epsilon=EPSILON, **options)
    if NAME == "tem":
        artifact.save(mechanism, vectors.with_suffix(".sfm"))
    return sfumato.Sanitizer(mechanism).texts


measure(prepare)
