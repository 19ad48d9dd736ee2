"""Spark in a cluster of two executors on this machine: the bytes of the local runner, also where tasks are killed."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_support import WORDS, Program

import sfumato
from sfumato.foundation.errors import DataError, ParameterError
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism import artifact
from sfumato.sanitize import Sanitizer
from sfumato.scale.keyfile import KeyFile

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java", allow_module_level=True)

from sfumato.scale import spark as adapter

TEXTS = [None if place % 11 == 4 else " ".join(WORDS[(place * step) % 10] for step in (1, 3)) for place in range(3000)]
KEY = RunKey.from_seed(12)


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    import pyspark
    from pyspark.sql import SparkSession

    home = Path(pyspark.__file__).parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_HOME", str(home))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        made = (
            SparkSession.builder.master("local-cluster[2,1,600]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.executor.memory", "500m")
            .config("spark.task.maxFailures", "4")
            .config("spark.sql.execution.arrow.maxRecordsPerBatch", "400")
            .getOrCreate()
        )
        made.sparkContext.setLogLevel("OFF")
        left = home / "work" / made.sparkContext.applicationId
        yield made
        made.stop()
        shutil.rmtree(left, ignore_errors=True)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    vectors = [[2.0 * (place % 5), 3.0 * (place // 5)] for place in range(len(WORDS))]
    mechanism = sfumato.compile("tem", sfumato.Space.from_arrays(WORDS, vectors), epsilon=0.3)
    path = tmp_path_factory.mktemp("spark") / "tem.sfm"
    artifact.save(mechanism, path)
    return path


def expected(compiled: Path, **settings: Any) -> list[str | None]:
    batch = Sanitizer(artifact.load(compiled), **settings).batch([text or "" for text in TEXTS], key=KEY)
    return [None if text is None else new for text, new in zip(TEXTS, batch.texts, strict=True)]


def frame(session: Any, partitions: int) -> Any:
    return session.createDataFrame(
        session.sparkContext.parallelize(list(enumerate(TEXTS)), partitions), "n int, text string"
    )


def test_the_outcome_is_that_of_the_local_runner_however_the_rows_are_cut(session: Any, compiled: Path) -> None:
    for partitions in (1, 3):
        rows = adapter.privatize(frame(session, partitions), "text", compiled, key=KEY, oov="mask").collect()
        assert [row.text for row in rows] == expected(compiled, oov="mask")
        assert [row.n for row in rows] == list(range(len(TEXTS)))


def test_a_task_that_is_killed_draws_nothing_anew(session: Any, compiled: Path, tmp_path: Path) -> None:
    killed = tmp_path / "killed"

    def first_attempt_dies(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        for number, batch in enumerate(batches):
            if number == 1 and context.partitionId() == 1 and context.attemptNumber() == 0:
                with killed.open("a") as file:
                    file.write("x")
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    rows = frame(session, 3).mapInArrow(first_attempt_dies, "n int, text string")
    done = adapter.privatize(rows, "text", compiled, key=KEY).collect()
    assert len(killed.read_text()) >= 2, "no task was killed while it sanitized"
    assert [row.text for row in done] == expected(compiled)


def test_the_command_line_writes_the_same_texts_for_the_same_key(
    session: Any, compiled: Path, program: Program, tmp_path: Path
) -> None:
    source, target, owner = tmp_path / "rows.parquet", tmp_path / "safe.parquet", tmp_path / "owner"
    owner.mkdir()
    pq.write_table(pa.table({"n": list(range(len(TEXTS))), "text": TEXTS}), source, row_group_size=700)
    given = ["-c", "text", "--artifact", compiled, "--key", owner / "run.key", "--oov", "mask"]
    result = program("privatize", source, "-o", target, *given, "-q")
    assert (result.code, result.err) == (0, "")
    key = KeyFile.open(owner / "run.key").key
    rows = adapter.privatize(session.read.parquet(str(source)), "text", compiled, key=key, number="n", oov="mask")
    found = {row.n: row.text for row in rows.collect()}
    table = pq.read_table(target)
    assert found == dict(zip(table["n"].to_pylist(), table["text"].to_pylist(), strict=True))


def test_a_file_that_was_compiled_again_replaces_the_one_before(session: Any, compiled: Path, tmp_path: Path) -> None:
    again = tmp_path / compiled.name
    shutil.copy(compiled, again)
    before = adapter.privatize(frame(session, 1), "text", again, key=KEY).collect()
    artifact.save(sfumato.compile("tem", artifact.load(compiled).space, epsilon=40.0), again)
    after = adapter.privatize(frame(session, 1), "text", again, key=KEY).collect()
    assert [row.text for row in before] == expected(compiled)
    assert [row.text for row in after] == expected(again) != expected(compiled)


def test_rows_with_numbers_of_their_own_can_come_in_any_order(session: Any, compiled: Path) -> None:
    from pyspark.sql import functions

    shuffled = frame(session, 2).orderBy(functions.xxhash64("n")).select("text", "n")
    rows = adapter.privatize(shuffled, ["text"], compiled, key=KEY, number="n").collect()
    assert {row.n: row.text for row in rows} == dict(enumerate(expected(compiled)))


def test_what_cannot_be_sanitized_is_refused_before_anything_runs(session: Any, compiled: Path) -> None:
    rows = frame(session, 1)
    with pytest.raises(DataError, match="there is no column txt"):
        adapter.privatize(rows, "txt", compiled, key=KEY)
    with pytest.raises(DataError, match="column n holds int"):
        adapter.privatize(rows, "n", compiled, key=KEY)
    with pytest.raises(DataError, match="whole"):
        adapter.privatize(rows, "text", compiled, key=KEY, number="text")
    with pytest.raises(ParameterError, match="oov"):
        adapter.privatize(rows, "text", compiled, key=KEY, oov="no")
