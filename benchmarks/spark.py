"""Rows per second of the Spark adapter with one and with two executors of one core each, in turns, and the local runner.

Every executor is a process of its own (``local-cluster``), so two of them do twice the work where nothing is in the way.
The clusters take turns, so that a slow minute of the machine slows both; each has sanitized the frame once before it is
measured, as it would have in a job that lasts longer than its start.

    python benchmarks/spark.py [ROWS]

Figures go to ``results/spark.json``.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
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

ROWS = 1_000_000
EXECUTORS = (1, 2)
ROUNDS, RUNS = 2, 2
PARTITIONS = 8
KEY = RunKey.from_seed(1)


@contextmanager
def cluster(executors: int) -> Iterator[Any]:
    """Start a cluster of so many executors on this machine, and stop it again."""
    import pyspark
    from pyspark.sql import SparkSession

    os.environ |= {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
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
    try:
        yield session
    finally:
        session.stop()


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
    measured: dict[int, list[float]] = {executors: [] for executors in EXECUTORS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compiled = folder / "tem.sfm"
        artifact.save(sfumato.compile("tem", sfumato.Space.load(), epsilon=6.0), compiled)
        write_frame(folder / "rows", texts)
        local = local_seconds(compiled, texts)
        for _ in range(ROUNDS):
            for executors in EXECUTORS:
                with cluster(executors) as session:
                    frame = session.read.parquet(str(folder / "rows"))
                    seconds(frame, compiled, 1)
                    measured[executors] += seconds(frame, compiled, RUNS)
    one, two = (statistics.median(measured[executors]) for executors in EXECUTORS)
    figures = {
        "rows": rows,
        "tokens": tokens,
        "local_runner_seconds": local,
        "seconds": {str(executors): spent for executors, spent in measured.items()},
        "tokens_per_second": {
            str(executors): tokens / statistics.median(measured[executors]) for executors in EXECUTORS
        },
        "two_over_one": one / two,
    }
    print(json.dumps(figures, indent=1))
    print("saved", save("spark", figures).name)


if __name__ == "__main__":
    main()
