"""A million random strings through every mechanism and every policy: nothing but a SfumatoError may come out.

Writes ``results/random_strings.json``: how many strings each took and how long, or the type of what was raised.
"""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path

import sfumato
from setting import save

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "contracts"))
from test_random_strings import POLICIES, SPACE, WITH_LIBRARIES, mechanism_of, policy_with_library, random_strings

STRINGS, BATCH = 1_000_000, 20_000


def put_through(sanitizers: dict[str, sfumato.Sanitizer]) -> dict[str, dict[str, object]]:
    """Return what became of the strings for each sanitizer; all of them see the same strings."""
    outcome: dict[str, dict[str, object]] = {name: {"strings": 0, "seconds": 0.0, "raised": []} for name in sanitizers}
    strings = random_strings(STRINGS, seed=2)
    for number in range(STRINGS // BATCH):
        batch = list(itertools.islice(strings, BATCH))
        for name, sanitizer in sanitizers.items():
            start = time.perf_counter()
            try:
                sanitizer.batch(batch)
            except Exception as error:
                outcome[name]["raised"].append(type(error).__name__)
            outcome[name]["strings"] += len(batch)
            outcome[name]["seconds"] += time.perf_counter() - start
        print(f"{(number + 1) * BATCH:,} of {STRINGS:,}", end="\r", flush=True)
    return outcome


def main() -> None:
    """Run, print and save."""
    sanitizers = {f"mechanism {e.name}": sfumato.Sanitizer(mechanism_of(e)) for e in sfumato.mechanisms()}
    plain = sfumato.compile("tem", SPACE, epsilon=3.0)
    policies = POLICIES | {name: policy_with_library(name) for name in WITH_LIBRARIES}
    sanitizers |= {f"policy {name}": sfumato.Sanitizer(plain, policy=policy) for name, policy in policies.items()}
    outcome = put_through(sanitizers)
    for name, figures in outcome.items():
        print(
            f"{name:40} {figures['strings']:>9,} strings  {figures['seconds']:7.1f} s  raised: {figures['raised'] or 'nothing'}"
        )
    save("random_strings", {"outcome": outcome})
    if any(figures["raised"] for figures in outcome.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
