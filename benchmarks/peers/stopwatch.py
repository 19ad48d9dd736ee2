"""How every package is measured: the same texts, in growing batches, until they or the time are used up.

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


def processor_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def measure(prepare: Callable[[Path], Replace], close: Callable[[], None] = lambda: None) -> None:
    """Prepare a mechanism for vectors, let it replace the words of texts, and print what that took.

    The command line names the file of vectors, the file of texts and the seconds to spend on them.
    """
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    vectors, source, budget = Path(sys.argv[-3]), Path(sys.argv[-2]), float(sys.argv[-1])
    texts = source.read_text(encoding="utf-8").splitlines()
    start, before = time.monotonic(), processor_seconds()
    replace = prepare(vectors)
    prepared, between = time.monotonic(), processor_seconds()
    done, batch = 0, 1
    tokens = 0
    while done < len(texts) and time.monotonic() - prepared < budget:
        some = texts[done : done + batch]
        replaced = replace(some)
        if len(replaced) != len(some) or not all(replaced):
            raise SystemExit("a text was lost")
        done, tokens = done + len(some), tokens + sum(len(text.split()) for text in some)
        batch = min(2 * batch, LARGEST_BATCH, 1 + int(done * budget / 4 / (time.monotonic() - prepared + 1e-9)))
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
