from __future__ import annotations

import io

import pytest

from sfumato.foundation.randomness import RunKey
from sfumato.mechanism.exponential import tem
from sfumato.policy import keep_words
from sfumato.sanitize import Sanitizer
from sfumato.scale import ReadOptions, RunSummary, open_reader, open_writer, sanitize_records
from sfumato.scale.records import RECORDS_AT_ONCE
from sfumato.space import Space

WORDS = ["cold", "cool", "mild", "warm", "hot"]


@pytest.fixture
def sanitizer() -> Sanitizer:
    space = Space.from_arrays(WORDS, [[0.0], [1.0], [2.0], [3.0], [4.0]])
    return Sanitizer(tem(space, epsilon=0.5), policy=keep_words(["the"]))


def _run(
    sanitizer: Sanitizer, content: bytes, columns: tuple[str, ...], key: RunKey | None = None, samples: int = 0
) -> tuple[RunSummary, str]:
    reader = open_reader(io.BytesIO(content), "csv", ReadOptions(columns))
    output = io.BytesIO()
    summary = sanitize_records(sanitizer, reader, open_writer(output, "csv", reader), key=key, samples=samples)
    return summary, output.getvalue().decode()


def test_counts_over_batches(sanitizer: Sanitizer) -> None:
    content = b"text\n" + b"the cold unknown\n" * RECORDS_AT_ONCE + b"cold hot warm\n"
    summary, _ = _run(sanitizer, content, ("text",))
    assert summary.records == RECORDS_AT_ONCE + 1
    assert summary.longest_record == 3
    assert summary.counts.kept == summary.counts.out_of_vocabulary == RECORDS_AT_ONCE
    assert summary.counts.protected == 2 * RECORDS_AT_ONCE + 3


def test_the_longest_record_counts_all_its_columns(sanitizer: Sanitizer) -> None:
    content = b"a,b\ncold hot warm,the\nhot hot,cold the cold\n"
    assert _run(sanitizer, content, ("a", "b"))[0].longest_record == 4
    assert _run(sanitizer, content, ("a",))[0].longest_record == 3


def test_with_a_key_the_same_comes_out_again_and_without_it_something_else(sanitizer: Sanitizer) -> None:
    content = b"text\n" + b"cold hot warm\n" * 50
    key = RunKey.from_seed(3)
    assert _run(sanitizer, content, ("text",), key)[1] == _run(sanitizer, content, ("text",), key)[1]
    assert _run(sanitizer, content, ("text",))[1] != _run(sanitizer, content, ("text",))[1]


def test_equal_texts_get_noise_of_their_own_in_every_record_and_column(sanitizer: Sanitizer) -> None:
    # 30 words of 5 possible outputs each: two independent draws agree with a chance below (1/2)**30.
    text = " ".join(WORDS * 6)
    content = "a,b\n" + f"{text},{text}\n" * (RECORDS_AT_ONCE + 1)
    _, output = _run(sanitizer, content.encode(), ("a", "b"), RunKey.from_seed(5))
    drawn = [field for row in output.splitlines()[1:] for field in row.split(",")]
    assert len(set(drawn)) == len(drawn) == 2 * (RECORDS_AT_ONCE + 1)


def test_samples_are_there_only_when_asked_for_and_never_in_the_repr(sanitizer: Sanitizer) -> None:
    content = b"text,n\n,0\ncold,1\nhot,2\n"
    assert _run(sanitizer, content, ("text",))[0].samples == ()
    summary, output = _run(sanitizer, content, ("text",), samples=1)
    assert summary.samples == (("cold", output.splitlines()[2].split(",")[0]),)
    assert "cold" not in repr(summary)
