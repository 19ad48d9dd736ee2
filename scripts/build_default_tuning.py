"""Compute the figures and the tuned kernel that ship for the default space and the command line's default loss.

They save a first run some minutes and decide nothing: ``sfumato verify`` recomputes the certificate from the kernel.
Run this again whenever the default space or the default loss changes; a test compares what ships with them.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import sfumato
from sfumato.accounting.neighbour_loss import DEFAULT_NEIGHBOUR_LOSS

SOURCE = Path(__file__).parent.parent / "src" / "sfumato"


def main() -> None:
    """Write the two files, removing older ones."""
    for old in [*SOURCE.glob("space/data/statistics-*.json"), *SOURCE.glob("mechanism/data/tuned-*.npz")]:
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SFUMATO_CACHE_DIR"] = folder
        space = sfumato.Space.load()
        statistics = space.statistics.to_json()
        target = SOURCE / "space" / "data" / f"statistics-{space.digest}.json"
        target.write_text(json.dumps(statistics, indent=1) + "\n")
        mechanism = sfumato.compile(
            "tem", space, epsilon=DEFAULT_NEIGHBOUR_LOSS / space.statistics.median_neighbour_distance, say=print
        )
        (tuned,) = Path(folder).glob("tuned-*.npz")
        (SOURCE / "mechanism" / "data").mkdir(exist_ok=True)
        (SOURCE / "mechanism" / "data" / tuned.name).write_bytes(tuned.read_bytes())
    print(f"epsilon {mechanism.guarantee.epsilon:g}, certified {mechanism.guarantee.certified:.6g}, {tuned.name}")


if __name__ == "__main__":
    main()
