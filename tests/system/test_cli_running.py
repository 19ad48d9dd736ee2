"""Runs over large inputs: compiled mechanisms, workers, compressed files, folders, keys, and runs that were killed."""

from __future__ import annotations

import gzip
import json
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from cli_support import WORDS, Program

from sfumato.scale import compression, state
from sfumato.scale.part import part_path

RECORDS = 9000
KILLED = """
import os, signal, sys
from sfumato.cli import app, running
from sfumato.scale import columnar
running._CHECKPOINT_SECONDS = 0.0
from sfumato.scale import part
part.MEMBER_BYTES = 1 << 15
columnar._ROW_GROUP_RECORDS = 1500
lives, save = int(sys.argv[1]), running._File._save
def save_and_die(self, *arguments):
    global lives
    save(self, *arguments)
    lives -= 1
    if lives == 0:
        os.kill(os.getpid(), signal.SIGKILL)
running._File._save = save_and_die
sys.exit(app.main(sys.argv[2:]))
"""


def lines(count: int = RECORDS) -> list[str]:
    return [" ".join(WORDS[(place * step) % len(WORDS)] for step in (1, 3, 7)) for place in range(count)]


def write(path: Path, texts: list[str]) -> Path:
    """Write texts in the format of the name."""
    kind = compression.plain_name(path).suffix
    if kind == ".parquet":
        import pyarrow as pa

        pq.write_table(pa.table({"text": texts, "n": list(range(len(texts)))}), path)
        return path
    if kind == ".jsonl":
        content = "".join(json.dumps({"n": n, "text": text}) + "\n" for n, text in enumerate(texts))
    elif kind == ".txt":
        content = "".join(text + "\n" for text in texts)
    else:
        mark = "\t" if kind == ".tsv" else ","
        content = f"text{mark}n\n" + "".join(f"{text}{mark}{n}\n" for n, text in enumerate(texts))
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(content.encode()))
    elif path.suffix == ".zst":
        path.write_bytes(pytest.importorskip("zstandard").ZstdCompressor().compress(content.encode()))
    else:
        path.write_text(content, encoding="utf-8")
    return path


def read(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(content)
    if path.suffix == ".zst":
        with path.open("rb") as file:
            stream = compression.decompressed(file, "zstd")
            pieces = []
            while piece := stream.read(1 << 16):
                pieces.append(piece)
            return b"".join(pieces)
    return content


def arguments(source: Path | str, target: Path | str, space: Path, *more: str | Path) -> list[str]:
    column = [] if ".txt" in str(source) else ["-c", "text"]
    return ["privatize", str(source), "-o", str(target), "-s", str(space), "-q", "-e", "0.3", *column, *map(str, more)]


@pytest.fixture
def key(tmp_path: Path) -> Path:
    folder = tmp_path / "owner"
    folder.mkdir()
    return folder / "run.key"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def killed(lives: int, given: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", KILLED, str(lives), *given], capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut files in this process where the processes that are killed cut them."""
    monkeypatch.setattr("sfumato.scale.part.MEMBER_BYTES", 1 << 15)
    monkeypatch.setattr("sfumato.scale.columnar._ROW_GROUP_RECORDS", 1500)


@pytest.mark.parametrize(
    ("name", "kills"),
    [("a.csv", (1, 2, 1)), ("a.jsonl.gz", (2,)), ("a.parquet", (2,)), ("a.txt.zst", (2,)), ("a.tsv", (2,))],
)
def test_a_run_killed_and_taken_up_gives_the_bytes_of_one_that_was_not(
    tmp_path: Path,
    tiny_space: Path,
    key: Path,
    out: Path,
    program: Program,
    small_pieces: None,
    name: str,
    kills: tuple[int, ...],
) -> None:
    source = write(tmp_path / name, lines())
    whole, taken_up = out / f"whole-{name}", out / name
    uninterrupted = program(*arguments(source, whole, tiny_space, "--key", key))
    assert (uninterrupted.code, uninterrupted.err) == (0, "")
    for lives in kills:
        run = killed(lives, arguments(source, taken_up, tiny_space, "--key", key, "--resume"))
        assert run.returncode == -signal.SIGKILL
        assert not taken_up.exists()
    last = killed(-1, arguments(source, taken_up, tiny_space, "--key", key, "--resume"))
    assert (last.returncode, last.stderr) == (0, "")
    assert taken_up.read_bytes() == whole.read_bytes()
    one, other = (json.loads((out / f"{path.name}.guarantee.json").read_text()) for path in (whole, taken_up))
    assert one == other
    assert one["records"] == RECORDS
    assert sorted(path.name for path in out.iterdir()) == sorted(
        f"{path.name}{end}" for path in (whole, taken_up) for end in ("", ".guarantee.json")
    )
    assert not list(state.state_folder().glob("runs/*"))


def test_a_killed_run_with_a_key_of_its_own_is_taken_up_with_it(tmp_path: Path, tiny_space: Path, out: Path) -> None:
    """Without --key the key of the run lies in the owner's state folder until the run has ended."""
    source = write(tmp_path / "a.csv", lines())
    target = out / "a.csv"
    assert killed(2, arguments(source, target, tiny_space)).returncode == -signal.SIGKILL
    part = part_path(target).read_bytes()
    (kept,) = state.state_folder().glob("runs/*/run.json")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    position = json.loads(kept.read_text())["checkpoint"]["position"]
    secret = bytes.fromhex(json.loads(kept.read_text())["key"])
    assert 0 < position <= len(part)
    assert killed(-1, arguments(source, target, tiny_space, "--resume")).returncode == 0
    assert target.read_bytes()[:position] == part[:position]
    for path in out.iterdir():
        assert secret not in path.read_bytes()
        assert secret.hex().encode() not in path.read_bytes()
    assert not kept.exists()


def test_resuming_with_other_texts_or_settings_is_refused(
    tmp_path: Path, tiny_space: Path, out: Path, program: Program
) -> None:
    source, target = write(tmp_path / "a.csv", lines()), out / "a.csv"
    assert killed(1, arguments(source, target, tiny_space)).returncode == -signal.SIGKILL
    other = program(*arguments(source, target, tiny_space, "--resume", "-e", "0.1"))
    assert (other.code, "other inputs, outputs or settings" in other.err) == (2, True)
    write(source, lines()[::-1])
    changed = program(*arguments(source, target, tiny_space, "--resume"))
    assert (changed.code, "an input has changed" in changed.err) == (2, True)
    assert program(*arguments(source, target, tiny_space)).code == 0  # begun anew
    assert list(state.state_folder().glob("runs/*")) == []


@pytest.mark.parametrize("resume", [False, True])
def test_an_interruption_leaves_a_part_only_where_the_run_is_to_be_taken_up(
    tmp_path: Path, tiny_space: Path, out: Path, resume: bool
) -> None:
    source, target = write(tmp_path / "a.csv", lines()), out / "a.csv"
    program = KILLED.replace("signal.SIGKILL", "signal.SIGINT")
    more = ["--resume"] if resume else []
    given = [sys.executable, "-c", program, "1", *arguments(source, target, tiny_space, *more)]
    run = subprocess.run(given, capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 130
    assert [path.name for path in out.iterdir()] == ([part_path(target).name] if resume else [])
    assert len(list(state.state_folder().glob("runs/*"))) == int(resume)
    if resume:
        assert killed(-1, arguments(source, target, tiny_space, "--resume")).returncode == 0
        assert read(target).count(b"\n") == RECORDS + 1


@pytest.mark.parametrize("mechanism", ["tem", "laplace"])
def test_workers_write_the_bytes_of_a_single_process(
    tmp_path: Path, tiny_space: Path, key: Path, out: Path, program: Program, mechanism: str
) -> None:
    source = write(tmp_path / "a.csv", lines())
    targets = [out / f"{workers}.csv" for workers in (1, 2)]
    for workers, target in enumerate(targets, start=1):
        options = ("--key", key, "--workers", str(workers), "-m", mechanism)
        result = program(*arguments(source, target, tiny_space, *options))
        assert (result.code, result.err) == (0, "")
    assert targets[0].read_bytes() == targets[1].read_bytes()


def test_a_run_by_workers_is_taken_up_by_one_process_and_the_other_way_round(
    tmp_path: Path, tiny_space: Path, key: Path, out: Path, program: Program
) -> None:
    source, whole = write(tmp_path / "a.csv", lines()), out / "whole.csv"
    assert program(*arguments(source, whole, tiny_space, "--key", key)).code == 0
    for first, then in (("1", "2"), ("2", "1")):
        target = out / f"{first}.csv"
        script = tmp_path / f"{first}.py"  # a file, since workers import the main module again
        body = KILLED.replace("global lives", "pass").replace("lives -= 1", "globals()['lives'] -= 1")
        script.write_text("if __name__ == '__main__':\n" + "".join(f"    {line}\n" for line in body.splitlines()))
        given = arguments(source, target, tiny_space, "--key", key, "--resume")
        run = [sys.executable, str(script), "2", *given, "--workers", first]
        assert subprocess.run(run, capture_output=True, check=False, timeout=60).returncode == -signal.SIGKILL
        result = program(*given, "--workers", then)
        assert (result.code, result.err) == (0, "")
        assert target.read_bytes() == whole.read_bytes()


def test_workers_map_a_compiled_mechanism_and_give_the_same_bytes(
    tmp_path: Path, tiny_space: Path, key: Path, out: Path, program: Program
) -> None:
    source, artifact = write(tmp_path / "a.csv", lines()), tmp_path / "tem.sfm"
    compiled = program("compile", "-o", artifact, "-s", tiny_space, "-e", "0.5", "--json")
    assert (compiled.code, compiled.err) == (0, "")
    facts = json.loads(compiled.out)
    assert (facts["mechanism"], facts["words"], facts["stored_rows"]) == ("tem", len(WORDS), len(WORDS))
    direct, mapped, named = (out / name for name in ("direct.csv", "mapped.csv", "named.csv"))
    assert program(*arguments(source, direct, tiny_space, "-e", "0.5", "--key", key)).code == 0
    given = ["privatize", source, "-q", "-c", "text", "--key", key]
    result = program(
        *given, "-o", mapped, "--artifact", artifact, "--artifact-digest", facts["digest"], "--workers", "2"
    )
    assert (result.code, result.err) == (0, "")
    assert program(*given, "-o", named, "--mechanism", artifact).code == 0
    assert direct.read_bytes() == mapped.read_bytes() == named.read_bytes()
    one, other = (json.loads((out / f"{path.name}.guarantee.json").read_text()) for path in (direct, mapped))
    assert one == other


def test_a_compiled_mechanism_is_refused_where_it_does_not_fit(
    tmp_path: Path, tiny_space: Path, program: Program
) -> None:
    source, artifact, target = write(tmp_path / "a.csv", lines(3)), tmp_path / "tem.sfm", tmp_path / "o.csv"
    assert program("compile", "-o", artifact, "-s", tiny_space, "-q").code == 0
    assert "exists" in program("compile", "-o", artifact, "-s", tiny_space).err
    given = ["privatize", source, "-c", "text", "-o", target, "--artifact", artifact]
    assert "has settled --epsilon" in program(*given, "-e", "1").err
    assert "another digest" in program(*given, "--artifact-digest", "00").err
    content = bytearray(artifact.read_bytes())
    content[-40] ^= 1
    artifact.write_bytes(content[:-1])
    assert "cut short" in program(*given).err
    assert "noise" in program("compile", "-o", tmp_path / "l.sfm", "-s", tiny_space, "-m", "laplace").err
    assert not target.exists()


@pytest.mark.parametrize("ends", [(".csv", ".csv.gz"), (".csv.gz", ".jsonl.zst"), (".txt.zst", ".txt")])
def test_compressed_files_are_read_and_written(
    tmp_path: Path, tiny_space: Path, key: Path, out: Path, program: Program, ends: tuple[str, str]
) -> None:
    if any(end.endswith(".zst") for end in ends):
        pytest.importorskip("zstandard", reason="the extra 'zstd' is not installed")
    source, target = write(tmp_path / f"a{ends[0]}", lines(300)), out / f"b{ends[1]}"
    assert program(*arguments(source, target, tiny_space, "--key", key)).code == 0
    plain = write(tmp_path / f"a{compression.plain_name(source).suffix}", lines(300))
    expected = out / f"c{compression.plain_name(target).suffix}"
    other = key.with_name("other.key")
    data = json.loads(key.read_text())
    other.write_text(json.dumps({"key": data["key"]}))
    other.chmod(0o600)
    assert program(*arguments(plain, expected, tiny_space, "--key", other)).code == 0
    assert read(target) == expected.read_bytes()


def test_a_compressed_file_that_is_cut_short_or_damaged_is_refused(
    tmp_path: Path, tiny_space: Path, program: Program
) -> None:
    target = tmp_path / "o.csv"
    for name in ("a.csv.gz", "a.csv.zst"):
        source = write(tmp_path / name, lines())
        whole = source.read_bytes()
        source.write_bytes(whole[:-9])
        result = program(*arguments(source, target, tiny_space))
        assert (result.code, "cut short" in result.err) == (2, True)
        source.write_bytes(whole[: len(whole) // 2] + b"\xff\x00\xff\x13" * 9 + whole[len(whole) // 2 + 36 :])
        assert program(*arguments(source, target, tiny_space)).code == 2
        source.write_bytes(whole[:30] + b"\xff\x00\xff\x13" * 9 + whole[66:])
        result = program(*arguments(source, target, tiny_space))
        assert (result.code, "damaged" in result.err) == (2, True)
        source.write_bytes(whole + whole)  # two members; the second has a header line of its own
        assert program(*arguments(source, target, tiny_space, "--force")).code == 0
        assert target.read_bytes().count(b"\n") == 2 * RECORDS + 2
        target.unlink()
        (tmp_path / "o.csv.guarantee.json").unlink()


def test_a_folder_and_a_pattern_become_a_folder(tmp_path: Path, tiny_space: Path, key: Path, program: Program) -> None:
    source = tmp_path / "in"
    (source / "deep").mkdir(parents=True)
    for name in ("a.csv", "b.jsonl.gz", "deep/c.txt", "d.parquet", ".hidden.csv", "_SUCCESS", "notes.md"):
        if (source / name).suffix in (".csv", ".gz", ".txt", ".parquet"):
            write(source / name, lines(50))
        else:
            (source / name).write_text("")
    target = tmp_path / "out"
    result = program(*arguments(source, target, tiny_space, "--key", key))
    assert (result.code, result.err) == (0, "")
    names = sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file())
    outputs = ["a.csv", "b.jsonl.gz", "d.parquet", "deep/c.txt"]
    assert names == sorted([*outputs, *(f"{name}.guarantee.json" for name in outputs)])
    texts = {name: read(target / name) for name in ("a.csv", "deep/c.txt")}
    drawn = [line.split(b",")[0] for line in texts["a.csv"].splitlines()[1:]]
    assert drawn != texts["deep/c.txt"].splitlines(), "two files shared their noise"
    pattern = tmp_path / "pattern"
    assert program(*arguments(str(source / "*.csv"), pattern, tiny_space)).code == 0
    assert sorted(path.name for path in pattern.iterdir()) == ["a.csv", "a.csv.guarantee.json"]
    for given, reason in (
        ((source, source / "below"), "among the inputs"),
        ((source, "-"), "need a folder"),
        ((str(source / "*.md"), pattern), "there is no file"),
    ):
        assert reason in program(*arguments(given[0], given[1], tiny_space)).err


def test_a_folder_killed_in_its_second_file_is_taken_up_there(tmp_path: Path, tiny_space: Path, key: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for name in ("a.csv", "b.csv", "c.csv"):
        write(source / name, lines(4500 + len(name)))
    whole, target = tmp_path / "whole", tmp_path / "out"
    copy = key.with_name("copy.key")
    assert killed(-1, arguments(source, whole, tiny_space, "--key", key)).returncode == 0
    copy.write_text(json.dumps({"key": json.loads(key.read_text())["key"]}))
    copy.chmod(0o600)
    given = arguments(source, target, tiny_space, "--key", copy, "--resume")
    assert killed(4, given).returncode == -signal.SIGKILL
    assert (target / "a.csv").exists()
    assert not (target / "b.csv").exists()
    first = (target / "a.csv").stat().st_mtime_ns
    assert killed(-1, given).returncode == 0
    assert (target / "a.csv").stat().st_mtime_ns == first
    for name in ("a.csv", "b.csv", "c.csv"):
        assert (target / name).read_bytes() == (whole / name).read_bytes()


def test_a_key_is_private_lies_elsewhere_and_serves_one_text(
    tmp_path: Path, tiny_space: Path, key: Path, out: Path, program: Program
) -> None:
    source = write(tmp_path / "a.csv", lines(20))
    beside = program(*arguments(source, out / "a.csv", tiny_space, "--key", out / "run.key"))
    assert (beside.code, "in the output's folder" in beside.err) == (2, True)
    assert list(out.iterdir()) == []
    assert program(*arguments(source, out / "a.csv", tiny_space, "--key", key)).code == 0
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert program(*arguments(source, out / "again.csv", tiny_space, "--key", key)).code == 0
    assert (out / "a.csv").read_bytes() == (out / "again.csv").read_bytes()
    other = write(tmp_path / "b.csv", lines(21))
    refused = program(*arguments(other, out / "b.csv", tiny_space, "--key", key))
    assert (refused.code, "used for other texts" in refused.err) == (2, True)
    refused = program(*arguments(source, out / "c.csv", tiny_space, "--key", key, "-e", "0.2"))
    assert (refused.code, "used for other texts" in refused.err) == (2, True)
    piped = program(
        "privatize", "-", "--format", "csv", "-c", "text", "-o", out / "p.csv", "-s", tiny_space, "--key", key
    )
    assert (piped.code, "those of a pipe cannot be read twice" in piped.err) == (2, True)
    key.chmod(0o644)
    assert "chmod 600" in program(*arguments(source, out / "d.csv", tiny_space, "--key", key)).err


def test_a_worker_that_dies_ends_the_run_and_a_killed_run_leaves_no_worker(
    tmp_path: Path, tiny_space: Path, out: Path
) -> None:
    # So many that work is left which no worker has been given when the first part is saved.
    source, target = write(tmp_path / "a.csv", lines(20 * RECORDS)), out / "a.csv"
    program = KILLED.replace("os.kill(os.getpid(), signal.SIGKILL)", "die()").replace(
        "lives, save", "import multiprocessing\n"
        "def die():\n"
        "    print(*(child.pid for child in multiprocessing.active_children()), flush=True)\n"
        "    os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)\n"
        "lives, save"
    )  # fmt: skip
    guarded = f"if __name__ == '__main__':\n{''.join('    ' + line + chr(10) for line in program.splitlines())}"
    script = tmp_path / "run.py"
    script.write_text(guarded.replace("global lives", "pass").replace("lives -= 1", "globals()['lives'] -= 1"))
    given = [sys.executable, str(script), "1", *arguments(source, target, tiny_space, "--workers", "2")]
    run = subprocess.run(given, capture_output=True, text=True, check=False, timeout=60)
    assert (run.returncode, "a worker process has ended" in run.stderr) == (2, True)
    assert list(out.iterdir()) == []
    script.write_text(
        script.read_text().replace("multiprocessing.active_children()[0].pid, signal", "os.getpid(), signal")
    )
    run = subprocess.run(given, capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == -signal.SIGKILL
    for pid in map(int, run.stdout.split()):
        for _ in range(200):
            if not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]:
                break
            time.sleep(0.05)
        else:
            pytest.fail("a worker outlived the run")
