"""Ten million rows through the local runner: once in one go, once killed three times at random and taken up.

Rows are the first words of SST-2 sentences.  A run is killed where its output has grown to a random size, in each third
of the whole.  Both outputs must have the same SHA-256; the resident size is read from the system ten times a second and
reported as it was in each tenth of the run.

    python benchmarks/large/killed_run.py [ROWS] [FOLDER]
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from reviews import sst2
from setting import save, setting
from sfumato.scale.part import part_path

WORDS = 5
PROGRAM = (sys.executable, "-m", "sfumato.cli.app")


def write_rows(path: Path, rows: int) -> None:
    """Write so many short rows."""
    texts = [" ".join(text.split()[:WORDS]).replace('"', "") for text in sst2()]
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, rows, len(texts)):
            file.writelines(f"{text}\n" for text in texts[: rows - start])


def resident(pid: int) -> int:
    """Return the resident bytes of a process (0 where it has ended)."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def run(arguments: list[str], *, killed_at: tuple[Path, int] | None = None) -> tuple[int, float, float, list[int]]:
    """Run the program, killing it where a file has so many bytes.

    Returns the exit code, wall and processor time, and resident sizes.
    """
    start, before = time.monotonic(), os.times()
    sizes = []
    with subprocess.Popen([*PROGRAM, *arguments]) as process:
        while process.poll() is None:
            sizes.append(resident(process.pid))
            if killed_at is not None and _length(killed_at[0]) >= killed_at[1]:
                process.send_signal(signal.SIGKILL)
            time.sleep(0.1)
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return process.returncode, time.monotonic() - start, spent, sizes


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tenths(sizes: list[int]) -> list[float]:
    """Return the greatest resident size in each tenth of a run, in MiB."""
    edges = [len(sizes) * tenth // 10 for tenth in range(11)]
    return [round(max(sizes[start:stop], default=0) / 2**20, 1) for start, stop in pairwise(edges)]


def main() -> None:
    """Measure and save."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    folder = Path(sys.argv[2] if len(sys.argv) > 2 else tempfile.gettempdir() + "/sfumato-killed-run").resolve()
    begun = setting()
    owner, out = folder / "owner", folder / "out"
    for place in (owner, out):
        place.mkdir(parents=True, exist_ok=True)
    os.environ["SFUMATO_STATE_DIR"] = str((owner / "state").resolve())
    source = folder / "rows.txt"
    write_rows(source, rows)
    keys = [owner / "one.key", owner / "other.key"]
    options = ["privatize", str(source), "-q", "-e", "6", "--force"]
    code, wall, spent, sizes = run([*options, "-o", str(out / "whole.txt"), "--key", str(keys[0])])
    if code != 0:
        raise SystemExit(f"the uninterrupted run ended with {code}")
    secret = json.loads(keys[0].read_text())["key"]
    keys[1].write_text(json.dumps({"key": secret}))
    keys[1].chmod(0o600)
    given = [*options, "-o", str(out / "killed.txt"), "--key", str(keys[1]), "--resume"]
    part, length = part_path(out / "killed.txt"), (out / "whole.txt").stat().st_size
    kills = []
    for third in range(3):
        share = (third + random.uniform(0.1, 0.9)) / 3
        code, lasted, _, _ = run(given, killed_at=(part, int(share * length)))
        kills.append({"share_written": _length(part) / length, "after_seconds": round(lasted, 1), "code": code})
    code, last, _, resumed_sizes = run(given)
    same = digest(out / "whole.txt") == digest(out / "killed.txt")
    figures = {
        **begun,
        "rows": rows,
        "bytes": source.stat().st_size,
        "words_per_row": WORDS,
        "seconds": wall,
        "processor_seconds": spent,
        "rows_per_processor_second": rows / spent,
        "resident_mib_by_tenth": tenths(sizes),
        "resumed_resident_mib_by_tenth": tenths(resumed_sizes),
        "kills": kills,
        "last_run_seconds": last,
        "outputs_identical": same,
        "sha256": digest(out / "whole.txt"),
    }
    print(json.dumps(figures, indent=1))
    save("killed_run", figures)
    shutil.rmtree(folder)
    if not same or code != 0 or any(kill["code"] != -signal.SIGKILL for kill in kills):
        raise SystemExit("the outputs differ, or a run was not killed")


if __name__ == "__main__":
    main()
