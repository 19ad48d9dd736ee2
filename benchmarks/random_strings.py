"""A million random strings through every mechanism, policy and setting: nothing but a SfumatoError may come out.

Writes ``results/random_strings.json``: how many strings each took and how long, or the type of what was raised, and the
commit.  With ``--missing``, those that are in the file already are left out; with names, such as
``"policy presidio"``, only these are run and put into the file.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import sfumato
from setting import RESULTS, save, setting
from sfumato.foundation.errors import SfumatoError

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "contracts"))
from test_random_strings import (
    POLICIES,
    SETTINGS,
    SPACE,
    WITH_LIBRARIES,
    mechanism_of,
    policy_with_library,
    random_strings,
)

STRINGS, BATCH = 1_000_000, 20_000


def put_through(name: str, sanitizer: sfumato.Sanitizer) -> dict[str, object]:
    """Return what became of the strings, which are the same for all."""
    raised, done, seconds = [], 0, 0.0
    strings = random_strings(STRINGS, seed=2)
    while batch := list(itertools.islice(strings, BATCH)):
        start = time.process_time()
        try:
            sanitizer.batch(batch)
        except SfumatoError as refused:
            raised.append(f"{type(refused).__name__} (meant to be)")
        except Exception as error:
            raised.append(type(error).__name__)
        done += len(batch)
        seconds += time.process_time() - start
        print(f"{name}: {done:,} of {STRINGS:,}", end="\r", flush=True)
    return {"strings": done, "cpu_seconds": seconds, "raised": raised, "commit": setting()["commit"]}


def sanitizers() -> dict[str, Callable[[], sfumato.Sanitizer]]:
    """Return how to make a sanitizer for each mechanism, policy and setting."""
    plain = sfumato.compile("tem", SPACE, epsilon=3.0)
    makers: dict[str, Callable[[], sfumato.Sanitizer]] = {
        f"mechanism {entry.name}": lambda entry=entry: sfumato.Sanitizer(mechanism_of(entry))  # type: ignore[misc]
        for entry in sfumato.mechanisms()
    }
    for name in (*POLICIES, *WITH_LIBRARIES):
        makers[f"policy {name}"] = lambda name=name: sfumato.Sanitizer(  # type: ignore[misc]
            plain, policy=POLICIES[name] if name in POLICIES else policy_with_library(name)
        )
    return makers | {f"setting {name}": make for name, make in SETTINGS.items()}


def main() -> None:
    """Run, print and save after each, so that a run that is cut short is not lost."""
    file = RESULTS / "random_strings.json"
    chosen = [argument for argument in sys.argv[1:] if argument != "--missing"]
    outcome = json.loads(file.read_text())["outcome"] if len(sys.argv) > 1 and file.exists() else {}
    for name, make in sanitizers().items():
        if name not in chosen if chosen else name in outcome:
            continue
        outcome[name] = put_through(name, make())
        print(f"{name:40} {outcome[name]['strings']:>9,} strings, raised: {outcome[name]['raised'] or 'nothing'}")
        save("random_strings", {"outcome": outcome})
    if any(figures["raised"] for figures in outcome.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
