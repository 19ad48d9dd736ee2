"""Whatever is wrong: exit code 2, one line that names no word of the input, and no file left behind."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_support import Outcome, Program

from sfumato.cli import app

SENTINEL = "xylophonist"
PROGRAM = (sys.executable, "-m", "sfumato.cli.app")


def _is_one_line_without_the_input(result: Outcome) -> None:
    assert result.code == 2, result
    assert result.out == ""
    assert result.err.count("\n") == 1
    assert result.err.startswith("sfumato: ")
    assert "Traceback" not in result.err
    assert SENTINEL not in result.err


def _refused(program: Program, folder: Path, *arguments: str | Path) -> str:
    before = sorted(folder.rglob("*"))
    result = program(*arguments)
    _is_one_line_without_the_input(result)
    assert sorted(folder.rglob("*")) == before
    return result.err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", f"id,words\n1,{SENTINEL}\n".encode(), "no column text; the first line names 2"),
        ("a.csv", f"1,{SENTINEL}\n".encode(), "where the line of names is missing; look at that line"),
        ("a.csv", b"", "the file is empty"),
        ("a.csv", f"text,n\n{SENTINEL},1\n{SENTINEL},2,3\n".encode(), "row 2 (ends in line 3) has 3 fields"),
        ("a.csv", f'text,n\n{SENTINEL},1\n"{SENTINEL},2\n'.encode(), "row 2 (line 3) opens a quote"),
        ("a.csv", f"text\n{SENTINEL}\xe9\n".encode("latin-1"), "(line 2) is not utf-8; name the encoding"),
        ("a.csv", f"text\n{SENTINEL}\0\n".encode(), "line 2 holds a NUL"),
        ("a.csv", f"text\n{SENTINEL}\n".encode("utf-16"), "byte 0 (line 1) is not utf-8"),
        ("a.tsv", f"text\tn\n{SENTINEL}\n".encode(), "row 1 (ends in line 2) has 1 fields"),
        ("a.jsonl", f'{{"text": "{SENTINEL}"}}\n{{"text": "{SENTINEL}"\n'.encode(), "line 2 is not a JSON object"),
        ("a.jsonl", f'{{"text": 5, "a": "{SENTINEL}"}}\n'.encode(), "line 1 holds something other than a text"),
        ("a.jsonl", f'{{"words": "{SENTINEL}"}}\n'.encode(), "no column text; the columns are: words"),
        ("a.parquet", f"text,n\n{SENTINEL},1\n".encode(), "the file is not Parquet"),
        ("a.txt", f"{SENTINEL}\xff\n".encode("latin-1"), "byte 11 (line 1)"),
        ("a.data", f"text\n{SENTINEL}\n".encode(), "cannot be told from a name; give --format"),
    ],
)
def test_content(program: Program, tmp_path: Path, tiny_space: Path, name: str, content: bytes, message: str) -> None:
    source = tmp_path / name
    source.write_bytes(content)
    columns = () if name == "a.txt" else ("-c", "text")
    error = _refused(program, tmp_path, "privatize", source, *columns, "-o", tmp_path / "out.csv", "-s", tiny_space)
    assert message in error


def test_a_problem_far_behind_leaves_nothing(program: Program, tmp_path: Path, tiny_space: Path) -> None:
    source = tmp_path / "a.csv"
    source.write_text("text,n\n" + f"{SENTINEL},1\n" * 9000 + f"{SENTINEL}\n", encoding="utf-8")
    error = _refused(program, tmp_path, "privatize", source, "-c", "text", "-o", tmp_path / "o.csv", "-s", tiny_space)
    assert "row 9001" in error


def test_parquet_with_numbers_for_texts(program: Program, tmp_path: Path, tiny_space: Path) -> None:
    source = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [1, 2], "name": [SENTINEL, "x"]}), source)
    error = _refused(program, tmp_path, "privatize", source, "-c", "text", "-o", tmp_path / "o.csv", "-s", tiny_space)
    assert "column text holds int64, not text" in error


def test_missing_files(program: Program, tmp_path: Path, tiny_space: Path) -> None:
    arguments = ("-c", "text", "-o", tmp_path / "out.csv", "-s", tiny_space)
    assert "No such file" in _refused(program, tmp_path, "privatize", tmp_path / "none.csv", *arguments)
    (tmp_path / "folder.csv").mkdir()
    assert "there is no file in" in _refused(program, tmp_path, "privatize", tmp_path / "folder.csv", *arguments)
    (tmp_path / "a.csv").write_text(f"text\n{SENTINEL}\n", encoding="utf-8")
    missing = ("--keep", tmp_path / "none.txt")
    assert "No such file" in _refused(program, tmp_path, "privatize", tmp_path / "a.csv", *arguments, *missing)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-e", "0"), "epsilon must be greater than 0"),
        (("-e", "-1"), "epsilon must be greater than 0"),
        (("-e", "nan"), "epsilon must be greater than 0"),
        (("-e", "1e300"), "epsilon must be greater than 0 and at most"),
        (("-e", "inf"), "epsilon must be greater than 0 and at most"),
        (("-e", "much"), "Invalid value for '--epsilon'"),
        (("-n", "1e300"), "epsilon must be"),
        (("-n", "0"), "neighbour_loss must be"),
        (("-e", "1", "-n", "1"), "not both"),
        (("-m", "magic"), "there is no mechanism 'magic'; choose one of"),
        (("-s", "nowhere"), "there is no space and no file nowhere"),
        (("--tuning", "worst"), "tuning must be one of"),
        (("--oov", "drop"), "oov must be one of"),
        (("--option", "colour=red"), "tem has no option colour"),
        (("--format", "xml"), "format must be one of"),
        (("--encoding", "utf-99"), "encoding must be"),
        (("--max-record-chars", "0"), "max-record-chars"),
        (("--colour",), "No such option"),
        (("-c", "text"), "must not name a column twice"),
        (("--option", "epsilon=1"), "epsilon is given with --epsilon"),
        (("--option", "threads=-2"), "threads must be a whole number"),
        (("--option", "row_memory=0"), "row_memory must be a whole number"),
        (("--digits", "0"), "digits must be greater than 0"),
        (("--workers", "0"), "workers must be a whole number"),
        (("--workers", "100000"), "workers must be at most"),
        (("--public-length", "1000000000"), "public_length must be a whole number of words, 1 to 100,000"),
    ],
)
def test_options(program: Program, tmp_path: Path, tiny_space: Path, options: tuple[str, ...], message: str) -> None:
    source = tmp_path / "a.csv"
    source.write_text(f"text\n{SENTINEL}\n", encoding="utf-8")
    given = ("privatize", source, "-c", "text", "-o", tmp_path / "out.csv", "-s", tiny_space)
    assert message in _refused(program, tmp_path, *given, *options)


def test_outputs_that_cannot_be(program: Program, tmp_path: Path, tiny_space: Path) -> None:
    source = tmp_path / "a.csv"
    source.write_text(f"text\n{SENTINEL}\n", encoding="utf-8")
    (tmp_path / "old.csv").touch()
    (tmp_path / "new.csv.guarantee.json").touch()
    for target, options, message in (
        (tmp_path / "none" / "out.csv", (), "is not a folder"),
        (source / "out.csv", (), "is not a folder"),
        (source, ("--force",), "is one of the inputs and is not replaced, not even with --force"),
        (tmp_path / "old.csv", (), "exists; choose another output, or replace it with --force"),
        (tmp_path / "new.csv", (), "new.csv.guarantee.json exists"),
        (tmp_path, ("--force",), "is not a regular file"),
        (tmp_path / "b.csv", ("--guarantee", source, "--force"), "is one of the inputs"),
        (tmp_path / "b.xlsx", (), "outputs named .xlsx are not written"),
        (tmp_path / "b.csv", ("--guarantee", tmp_path / "b.csv"), "cannot be the same file"),
    ):
        given = ("privatize", source, "-c", "text", "-o", target, "-s", tiny_space, *options)
        assert message in _refused(program, tmp_path, *given)
    if Path("/dev/full").exists():
        given = ("privatize", source, "-c", "text", "-o", "/dev/full", "-s", tiny_space, "--force")
        assert "is not a regular file" in _refused(program, tmp_path, *given)
        assert not Path("/dev/full").is_file()


def test_a_folder_that_may_not_be_written_to_is_said_before_anything_is_read(
    program: Program, tmp_path: Path, tiny_space: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner of this process may be allowed everything, so the answer of the operating system is made here."""
    source, folder = tmp_path / "a.csv", tmp_path / "sealed"
    source.write_text(f"text\n{SENTINEL}\n", encoding="utf-8")
    folder.mkdir()
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, *rest: Path(path) != folder and allowed(path, *rest))
    for options in (("-o", folder / "out.csv"), ("-o", tmp_path / "out.csv", "--guarantee", folder / "g.json")):
        error = _refused(program, tmp_path, "privatize", source, "-c", "text", *options, "-s", tiny_space)
        assert "nothing may be written to the folder" in error


def test_the_operating_systems_refusals_say_what_to_do(
    program: Program, tmp_path: Path, tiny_space: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ("-c", "text", "-o", tmp_path / "out.csv", "-s", tiny_space)
    assert "check how its path is written" in _refused(program, tmp_path, "privatize", tmp_path / "none.csv", *given)
    source = tmp_path / "a.csv"
    source.write_text(f"text\n{SENTINEL}\n", encoding="utf-8")
    monkeypatch.setattr(
        Path, "open", lambda path, *_, **__: _raise(PermissionError(13, "Permission denied", str(path)))
    )
    assert "change its permissions" in _refused(program, tmp_path, "privatize", source, *given)


def _raise(error: Exception) -> None:
    raise error


def test_an_endless_line_is_given_up_quickly_and_in_little_memory(tmp_path: Path, tiny_space: Path) -> None:
    source = tmp_path / "a.csv"
    with source.open("wb") as file:
        file.write(b"text\n")
        for _ in range(100):
            file.write((SENTINEL.encode() + b" ") * (1_000_000 // (len(SENTINEL) + 1)))
    most = 2 << 30
    run = subprocess.run(
        [*PROGRAM, "privatize", source, "-c", "text", "-o", tmp_path / "o.csv", "-s", tiny_space],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)),
        env={"PATH": "", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    _is_one_line_without_the_input(Outcome(run.returncode, run.stdout, run.stderr))
    assert "longer than 20000000 characters" in run.stderr
    assert "--max-record-chars" in run.stderr
    assert list(tmp_path.iterdir()) == [source]


def test_an_unexpected_error_shows_its_type_alone(
    program: Program, tmp_path: Path, tiny_space: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "a.csv"
    source.write_text(f"text\n{SENTINEL}\n", encoding="utf-8")

    def fail(*arguments: object, **options: object) -> None:
        raise LookupError(f"cannot find {SENTINEL}")

    monkeypatch.setattr("sfumato.cli.running.sanitize_records", fail)
    given = ("privatize", source, "-c", "text", "-o", tmp_path / "o.csv", "-s", tiny_space)
    result = program(*given)
    assert (result.code, result.out) == (app.DEFECT, "")
    assert result.err.startswith("sfumato: unexpected LookupError; please report it")
    assert SENTINEL not in result.err
    assert list(tmp_path.iterdir()) == [source]
    monkeypatch.setenv("SFUMATO_DEBUG", "1")
    assert "Traceback" in program(*given).err


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (KeyboardInterrupt(), 130, ""),
        (MemoryError(), 2, "not enough memory"),
        (OSError(28, "No space left on device"), 2, "No space left on device"),
        (BrokenPipeError(32, "Broken pipe"), 141, ""),
    ],
)
def test_other_ways_to_end_leave_nothing_either(
    program: Program,
    tmp_path: Path,
    tiny_space: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
    text: str,
) -> None:
    source = tmp_path / "a.csv"
    source.write_text(f"text\n{SENTINEL}\n", encoding="utf-8")

    def fail(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr("sfumato.cli.running.sanitize_records", fail)
    result = program("privatize", source, "-c", "text", "-o", tmp_path / "o.csv", "-s", tiny_space)
    assert result.code == code
    assert text in result.err
    assert result.err.count("\n") <= 1
    assert "Traceback" not in result.err
    assert list(tmp_path.iterdir()) == [source]
