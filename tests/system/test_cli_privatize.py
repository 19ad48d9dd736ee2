"""``sfumato privatize`` from file to file."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from cli_support import WORDS, Outcome, Program

from sfumato.foundation.guarantee import MetricGuarantee, guarantee_from_json

REVIEWS = Path(__file__).parents[2] / "examples" / "reviews.csv"
CONTENT = 'id,text,note\n1,Cold rain and SNOW!,keep me\n2,,x\n3,"hot, hot sun","a ""b"""\n'


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.csv"
    path.write_text(CONTENT, encoding="utf-8")
    return path


def test_words_are_replaced_and_all_else_stays(
    program: Program, source: Path, tiny_space: Path, tmp_path: Path
) -> None:
    target = tmp_path / "out.csv"
    result = program("privatize", source, "-c", "text", "-o", target, "-s", tiny_space, "-e", "0.1", "--oov", "mask")
    assert (result.code, result.err) == (0, "")
    rows = list(csv.DictReader(target.open(encoding="utf-8", newline="")))
    assert [(row["id"], row["note"]) for row in rows] == [("1", "keep me"), ("2", "x"), ("3", 'a "b"')]
    first, second, mask, last = rows[0]["text"].rstrip("!").split(" ")
    assert mask == "[MASK]"
    assert {first.lower(), second, last.lower()} <= set(WORDS)
    assert first.istitle()
    assert last.isupper()
    assert rows[1]["text"] == ""
    assert rows[2]["text"].count(",") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "out.csv", "out.csv.guarantee.json"]


def test_that_other_columns_are_copied_is_part_of_the_guarantee(
    program: Program, source: Path, tiny_space: Path, tmp_path: Path
) -> None:
    lines, target = tmp_path / "lines.txt", tmp_path / "out.txt"
    lines.write_text("cold rain\n", encoding="utf-8")
    result = program("privatize", source, "-c", "text", "-o", tmp_path / "out.csv", "-s", tiny_space, "-e", "1")
    assert "all columns that were not named, which are copied" in " ".join(result.out.split())
    assert program("privatize", lines, "-o", target, "-s", tiny_space, "-e", "1", "-q").code == 0
    for name, copied in (("out.csv", True), ("out.txt", False)):
        data = json.loads((tmp_path / f"{name}.guarantee.json").read_text(encoding="utf-8"))
        assert any("columns" in item for item in data["guarantee"]["public"]) is copied
        assert data["settings"]["columns"] == ["text"]


@pytest.mark.parametrize("row", ["cold,hot", "cold rain," + "sun " * 14])
def test_the_guarantee_file_counts_a_public_length_for_every_column_and_does_not_show_the_true_one(
    program: Program, tiny_space: Path, tmp_path: Path, row: str
) -> None:
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text(f"title,text\n{row}\n", encoding="utf-8")
    columns = ("-c", "title", "-c", "text", "--public-length", "5")
    assert program("privatize", source, *columns, "-o", target, "-s", tiny_space, "-e", "1", "-q").code == 0
    document = json.loads((tmp_path / "out.csv.guarantee.json").read_text(encoding="utf-8"))["document"]
    assert document["words"] == 10
    (out,) = csv.DictReader(target.open(encoding="utf-8", newline=""))
    assert [len(text.split()) for text in out.values()] == [5, 5]


def test_the_guarantee_file(program: Program, source: Path, tiny_space: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    keep = tmp_path / "keep.txt"
    keep.write_text("and\n", encoding="utf-8")
    arguments = (
        "privatize",
        source,
        "-c",
        "text",
        "-o",
        target,
        "-s",
        tiny_space,
        "-n",
        "3",
        "--keep",
        keep,
        "--no-case",
    )
    assert program(*arguments, "--tuning", "published", "--option", "gamma=4.0").code == 0
    data = json.loads((tmp_path / "out.csv.guarantee.json").read_text(encoding="utf-8"))
    guarantee = guarantee_from_json(data["guarantee"])
    assert isinstance(guarantee, MetricGuarantee)
    assert guarantee.epsilon == 1.5
    assert guarantee.secure
    assert data["guarantee"]["statement"] == guarantee.statement()
    assert data["records"] == 3
    assert data["output_sha256"] == hashlib.sha256(target.read_bytes()).hexdigest()
    assert data["document"]["words"] == 3
    assert data["document"]["greatest_loss"] == pytest.approx(3 * guarantee.certified * 4.0)
    settings = data["settings"]
    assert settings["mechanism"] == "tem"
    assert settings["tuning"] == {"requested": "published", "used": "published"}
    assert settings["options"] == {"gamma": 4.0}
    assert settings["neighbour_loss"] == 3.0
    assert settings["radius"] == 4.0
    assert settings["local_epsilon"] == pytest.approx(settings["certified_epsilon"] * 4.0)
    assert settings["space"]["name"] == "tiny"
    assert settings["space"]["words"] == 10
    assert settings["oov"] == "draw"
    assert settings["case_carried"] is False
    assert "1 words" in settings["policy"]
    assert settings["columns"] == ["text"]
    assert settings["consistency"] == "token"


def test_nothing_about_the_text_is_in_the_guarantee_file(program: Program, tiny_space: Path, tmp_path: Path) -> None:
    """Two texts with the same numbers of records and words give the same guarantee, but for the output's digest."""
    found = []
    for name, text in (("a", "cold cold,x\nhot hot\n"), ("b", "Zebra 17,x\nrain OKAPI\n")):
        source, target = tmp_path / f"{name}.txt", tmp_path / f"{name}.out.txt"
        source.write_text(text, encoding="utf-8")
        assert program("privatize", source, "-o", target, "-s", tiny_space).code == 0
        data = json.loads(target.with_name(target.name + ".guarantee.json").read_text(encoding="utf-8"))
        assert len(data.pop("output_sha256")) == 64
        found.append(data)
    assert found[0] == found[1]


def test_the_summary_gives_both_amounts_and_the_promise(
    program: Program, source: Path, tiny_space: Path, tmp_path: Path
) -> None:
    result = program("privatize", source, "-c", "text", "-o", tmp_path / "o.csv", "-s", tiny_space, "-e", "1.5")
    for expected in (
        "epsilon            1.5 = neighbour loss 3",
        "certified epsilon",
        "local epsilon",
        "words protected    7 (at most 4 in a record)",
        "out of vocabulary  1",
        "Whoever sees the output",
        "For a whole record",
        "o.csv.guarantee.json",
    ):
        assert expected in result.out
    assert "keep me" not in result.out
    assert "SNOW" not in result.out


def test_quiet_says_nothing_and_samples_are_shown_when_asked_for(
    program: Program, source: Path, tiny_space: Path, tmp_path: Path
) -> None:
    arguments = ("privatize", source, "-c", "text", "-s", tiny_space, "-f", "-o", tmp_path / "o.csv")
    assert program(*arguments, "--quiet") == Outcome(0, "", "")
    assert "- Cold rain and SNOW!" in program(*arguments, "--show-samples").out
    assert program(*arguments, "--show-samples", "1").out.count("\n- ") == 0
    assert program(*arguments, "--show-samples", "1").out.startswith("- Cold rain")


def test_nearly_everything_unchanged_is_pointed_out(
    program: Program, source: Path, tiny_space: Path, tmp_path: Path
) -> None:
    arguments = ("privatize", source, "-c", "text", "-s", tiny_space, "-f", "-o", tmp_path / "o.csv")
    assert "MOST WORDS CAME OUT UNCHANGED" in program(*arguments, "-e", "50").out
    assert "MOST WORDS CAME OUT UNCHANGED" not in program(*arguments, "-e", "0.001", "--seed", "1").out


def test_a_seed_repeats_and_is_called_not_secure(
    program: Program, source: Path, tiny_space: Path, tmp_path: Path
) -> None:
    outputs = []
    for name in ("a.csv", "b.csv"):
        arguments = ("-c", "text", "-o", tmp_path / name, "-s", tiny_space, "-e", "0.1", "--seed", "4", "--quiet")
        result = program("privatize", source, *arguments)
        assert result.err.startswith("sfumato: NOT SECURE")
        outputs.append((tmp_path / name).read_bytes())
    assert outputs[0] == outputs[1]
    data = json.loads((tmp_path / "a.csv.guarantee.json").read_text(encoding="utf-8"))
    assert data["guarantee"]["secure"] is False
    assert "NOT SECURE" in data["guarantee"]["statement"]


def test_standard_output_holds_the_data_alone(program: Program, source: Path, tiny_space: Path, tmp_path: Path) -> None:
    result = program("privatize", source, "-c", "text", "-o", "-", "-s", tiny_space, "--guarantee", tmp_path / "g.json")
    assert result.code == 0
    assert [row[0] for row in csv.reader(result.out.splitlines())] == ["id", "1", "2", "3"]
    assert "Whoever sees the output" in result.err
    assert json.loads((tmp_path / "g.json").read_text(encoding="utf-8"))["output_sha256"] is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g.json", "in.csv"]


def test_several_columns_count_together(program: Program, source: Path, tiny_space: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    assert program("privatize", source, "-c", "text", "-c", "note", "-o", target, "-s", tiny_space).code == 0
    data = json.loads((tmp_path / "out.jsonl.guarantee.json").read_text(encoding="utf-8"))
    assert data["settings"]["columns"] == ["text", "note"]
    assert data["document"]["words"] == 6
    rows = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]
    assert [row["id"] for row in rows] == ["1", "2", "3"]
    assert "keep" not in rows[0]["note"]


@pytest.mark.parametrize("middle", ["m.tsv", "m.jsonl", "m.parquet"])
def test_formats_convert_into_each_other(
    program: Program, source: Path, tiny_space: Path, tmp_path: Path, middle: str
) -> None:
    """At an epsilon at which nothing changes the texts come back, so that what passes through can be compared."""
    common = ("-c", "text", "-s", tiny_space, "-e", "1000", "--oov", "keep", "--quiet")
    assert program("privatize", source, "-o", tmp_path / middle, *common).code == 0
    assert program("privatize", tmp_path / middle, "-o", tmp_path / "back.csv", *common).code == 0
    assert list(csv.reader((tmp_path / "back.csv").open(encoding="utf-8", newline=""))) == list(
        csv.reader(CONTENT.splitlines())
    )


def test_header_only_is_a_file_without_records(program: Program, tiny_space: Path, tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text("id,text\n", encoding="utf-8")
    result = program("privatize", source, "-c", "text", "-o", tmp_path / "out.csv", "-s", tiny_space)
    assert result.code == 0
    assert (tmp_path / "out.csv").read_text(encoding="utf-8") == "id,text\n"
    data = json.loads((tmp_path / "out.csv.guarantee.json").read_text(encoding="utf-8"))
    assert (data["records"], data["document"]["greatest_loss"]) == (0, 0.0)


def test_other_encodings_are_read_and_utf8_is_written(program: Program, tiny_space: Path, tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_bytes("id,text\né,cold\n".encode("cp1252"))
    arguments = ("-c", "text", "-o", tmp_path / "out.csv", "-s", tiny_space, "--encoding", "cp1252")
    assert program("privatize", source, *arguments).code == 0
    assert (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()[1].startswith("é,")


def test_force_replaces(program: Program, source: Path, tiny_space: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    target.write_text("old", encoding="utf-8")
    arguments = ("privatize", source, "-c", "text", "-o", target, "-s", tiny_space)
    assert program(*arguments).code == 2
    assert target.read_text(encoding="utf-8") == "old"
    assert program(*arguments, "--force").code == 0
    assert target.read_text(encoding="utf-8").startswith("id,text,note\n")


def test_the_example_with_the_space_of_the_package(program: Program, tmp_path: Path) -> None:
    """Its first words only: measuring and tuning the whole takes minutes."""
    target = tmp_path / "safe.parquet"
    arguments = ("-c", "text", "-o", target, "--space-words", "1500", "-n", "1", "--tuning", "published")
    result = program("privatize", REVIEWS, *arguments)
    assert result.code == 0, result.err
    before = list(csv.DictReader(REVIEWS.open(encoding="utf-8", newline="")))
    after = pq.read_table(target).to_pylist()
    assert [(row["id"], row["rating"]) for row in after] == [(row["id"], row["rating"]) for row in before]
    written = " ".join(row["text"] for row in after)
    for name in ("Marek", "Ottilie", "Fenwick", "Abernathy", "example.org", "555", "0142", "48213", "🎂", "取"):
        assert name.lower() not in written.lower()
    assert "default (first 1500)" in result.out
