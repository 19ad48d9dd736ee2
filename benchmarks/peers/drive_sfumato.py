"""This library, as its documentation calls it: ``drive_sfumato.py MECHANISM EPSILON VECTORS TEXTS SECONDS``.

A row is compiled when its word first occurs.  Behind ``MECHANISM-warm`` the rows of all words of the texts are compiled
during set-up, as in a job that lasts longer than its beginning.
"""

from __future__ import annotations

import sys
from pathlib import Path

from stopwatch import Replace, measure

import sfumato

NAME, EPSILON, TEXTS = sys.argv[1], float(sys.argv[2]), Path(sys.argv[-2])
WARM = "-warm"


def prepare(vectors: Path) -> Replace:
    """Read the vectors and compile the mechanism."""
    name = NAME.removesuffix(WARM)
    options = {"tuning": "published"} if name == "tem" else {}
    mechanism = sfumato.compile(name, sfumato.Space.from_file(vectors), epsilon=EPSILON, **options)
    sanitizer = sfumato.Sanitizer(mechanism)
    if name != NAME:
        sanitizer.batch(TEXTS.read_text(encoding="utf-8").splitlines())
    return lambda texts: sanitizer.batch(texts).texts


measure(prepare)
