"""How every package is measured: the same texts over and over, in growing batches, until the time is used up.

Seconds are those of a processor, of all processes together, so that what else the machine does matters little.
Only the standard library is imported here, since each package runs in a virtual environment of its own.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

Replace = Callable[[list[str]], list[str]]
MEMORY_BYTES = 8 << 30
LARGEST_BATCH = 2000
PATIENCE = 120.0


def processor_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def measure(prepare: Callable[[Path], Replace], close: Callable[[], None] = lambda: None) -> None:
    """Prepare a mechanism for vectors, let it replace the words of texts, and print what that took.

    The command line names the file of vectors, the file of texts and the seconds of this process to spend on them.
    """
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    vectors, source, budget = Path(sys.argv[-3]), Path(sys.argv[-2]), float(sys.argv[-1])
    texts = source.read_text(encoding="utf-8").splitlines()
    start, before = time.monotonic(), processor_seconds()
    replace = prepare(vectors)
    prepared, between = time.monotonic(), processor_seconds()
    done = tokens = 0
    batch = 1
    while processor_seconds() - between < budget and time.monotonic() - prepared < PATIENCE:
        some = [texts[place % len(texts)] for place in range(done, done + batch)]
        replaced = replace(some)
        if len(replaced) != len(some) or not all(replaced):
            raise SystemExit("a text was lost")
        done, tokens = done + len(some), tokens + sum(len(text.split()) for text in some)
        spent = processor_seconds() - between
        batch = min(2 * batch, LARGEST_BATCH, 1 + int(done * budget / 4 / (spent + 1e-9)))
    ended = time.monotonic()
    close()
    spent = processor_seconds() - between
    figures = {
        "set_up_seconds": between - before,
        "set_up_wall_seconds": prepared - start,
        "texts": done,
        "tokens": tokens,
        "seconds": spent,
        "wall_seconds": ended - prepared,
        "tokens_per_second": tokens / spent,
    }
    print("\n" + json.dumps(figures))
