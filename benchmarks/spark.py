"""Tokens per second of the Spark adapter with one and with two executors, in turns, and of the local runner.

Every executor is a process of its own (``local-cluster``) with one core: it and its Python worker are held to one core of
this machine, as a container would hold them.  The same is measured without that: then the workers of a single executor
use a part of the second core as well, to read and write rows, and there is less to gain from a second executor.

The clusters take turns, so that a slow minute of the machine slows both; each has sanitized the frame once before it is
measured, as it would have in a job that lasts longer than its start.

    python benchmarks/spark.py [ROWS]

Figures go to ``results/spark.json``.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import sfumato
from reviews import reviews
from setting import save
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism import artifact
from sfumato.scale import spark

ROWS = 240_000
EXECUTORS = (1, 2)
ROUNDS, RUNS = 2, 2
PARTITIONS = 8
WORDS = 10_000
KEY = RunKey.from_seed(1)
APPLICATION = f"spark-{os.getpid()}"


@contextmanager
def cluster(executors: int, held: bool) -> Iterator[Any]:
    """Start a cluster of so many executors on this machine, held to a core each or not, and stop it again."""
    import pyspark
    from pyspark.sql import SparkSession

    os.environ |= {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SFUMATO_BENCHMARK": APPLICATION,
    }
    session = (
        SparkSession.builder.master(f"local-cluster[{executors},1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executor.memory", "1g")
        .config("spark.sql.files.minPartitionNum", str(PARTITIONS))
        .config("spark.sql.files.openCostInBytes", "0")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    left = Path(pyspark.__file__).parent / "work" / session.sparkContext.applicationId
    try:
        if held:
            hold_executors(executors)
        yield session
    finally:
        session.stop()
        shutil.rmtree(left, ignore_errors=True)  # every executor's copy of what was sent


def hold_executors(count: int) -> None:
    """Hold every executor to a core of its own; what it starts later inherits that."""
    cores = sorted(os.sched_getaffinity(0))
    found: list[int] = []
    for _ in range(300):
        found = executor_processes()
        if len(found) >= count:
            break
        time.sleep(0.1)
    if len(found) != count or len(cores) < count:
        raise SystemExit(f"{len(found)} executors and {len(cores)} cores were found where {count} are needed")
    for core, pid in zip(cores, found, strict=False):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(ProcessLookupError):  # a thread that has ended meanwhile
                os.sched_setaffinity(int(task.name), {core})


def executor_processes() -> list[int]:
    """Return the executors of this program's cluster."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (place / "cmdline").read_bytes()
            if b"CoarseGrainedExecutorBackend" in command and APPLICATION.encode() in (place / "environ").read_bytes():
                found.append(int(place.name))
    return sorted(found)


def seconds(frame: Any, compiled: Path, runs: int) -> list[float]:
    """Sanitize the frame so many times, and return how long each took."""
    spent = []
    for _ in range(runs):
        rows = spark.privatize(frame, "text", compiled, key=KEY, number="n")
        start = time.monotonic()
        rows.write.format("noop").mode("overwrite").save()
        spent.append(time.monotonic() - start)
    return spent


def write_frame(folder: Path, texts: list[str]) -> None:
    """Write the texts as a folder of Parquet files, one for each partition."""
    folder.mkdir()
    step = -(-len(texts) // PARTITIONS)
    for part in range(PARTITIONS):
        some = texts[part * step : (part + 1) * step]
        numbers = range(part * step, part * step + len(some))
        pq.write_table(pa.table({"n": list(numbers), "text": some}), folder / f"{part}.parquet")


def local_seconds(compiled: Path, texts: list[str]) -> float:
    """Return how long the sanitizer takes for the texts in this process, in the batches of the runner."""
    sanitizer = sfumato.Sanitizer(artifact.load(compiled))
    for _ in range(2):
        start = time.monotonic()
        for at in range(0, len(texts), 2000):
            sanitizer.batch(texts[at : at + 2000], key=KEY, first_record=at)
        spent = time.monotonic() - start
    return spent


def main() -> None:
    """Measure, print and save."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    texts = reviews(rows)
    tokens = sum(len(text.split()) for text in texts)
    clusters = [(executors, held) for held in (True, False) for executors in EXECUTORS]
    measured: dict[tuple[int, bool], list[float]] = {one: [] for one in clusters}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compiled = folder / "tem.sfm"
        space = sfumato.Space.load(limit=WORDS)
        artifact.save(sfumato.compile("tem", space, epsilon=6.0, tuning="published"), compiled)
        write_frame(folder / "rows", texts)
        local = local_seconds(compiled, texts)
        for _ in range(ROUNDS):
            for executors, held in clusters:
                with cluster(executors, held) as session:
                    frame = session.read.parquet(str(folder / "rows"))
                    seconds(frame, compiled, 1)
                    measured[executors, held] += seconds(frame, compiled, RUNS)
            # What was measured is kept, should the next round not end.
            summed = summary(measured, tokens)
            save("spark", {"rows": rows, "tokens": tokens, "local_runner_seconds": local, **summed})
    print(json.dumps(summed, indent=1))


def summary(measured: dict[tuple[int, bool], list[float]], tokens: int) -> dict[str, Any]:
    """Return rates and their ratio, for executors that are held to one core each and for those that are not."""
    figures: dict[str, Any] = {}
    for name, held in (("one_core_each", True), ("not_held", False)):
        one, two = (statistics.median(measured[executors, held]) for executors in EXECUTORS)
        figures[name] = {
            "seconds": {str(executors): measured[executors, held] for executors in EXECUTORS},
            "tokens_per_second": {"1": tokens / one, "2": tokens / two},
            "two_over_one": one / two,
        }
    return figures


if __name__ == "__main__":
    main()
