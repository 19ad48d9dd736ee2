from __future__ import annotations

import io

import pytest

from sfumato.foundation.randomness import RunKey
from sfumato.mechanism.exponential import tem
from sfumato.policy import Policy, everything, keep_words, protect_where
from sfumato.sanitize import Sanitizer
from sfumato.sanitize.identifiers import IdentifierReplacer
from sfumato.scale import ReadOptions, RunSummary, open_reader, open_writer, sanitize_records
from sfumato.scale.records import RECORDS_AT_ONCE
from sfumato.space import Space

WORDS = ["cold", "cool", "mild", "warm", "hot"]
SPACE = Space.from_arrays(WORDS, [[0.0], [1.0], [2.0], [3.0], [4.0]])


@pytest.fixture
def sanitizer() -> Sanitizer:
    return Sanitizer(tem(SPACE, epsilon=0.5), policy=keep_words(["the"]))


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


@pytest.mark.parametrize("rows", [b"cold,hot\n", b"cold hot," + b"warm " * 14 + b"\n", b",\n"])
@pytest.mark.parametrize("policy", [everything(), keep_words(["cold"])], ids=["everything", "some"])
def test_a_public_length_counts_for_every_text_of_a_record_whatever_it_held(rows: bytes, policy: Policy) -> None:
    sanitizer = Sanitizer(tem(SPACE, epsilon=0.5), policy=policy, public_length=5)
    summary, output = _run(sanitizer, b"title,text\n" + rows * 3, ("title", "text"))
    assert summary.longest_record == 10
    assert all(len(text.split()) in (0, 5) for row in output.splitlines()[1:] for text in row.split(","))


def test_a_public_length_of_no_records_is_no_words() -> None:
    assert _run(Sanitizer(tem(SPACE, epsilon=0.5), public_length=5), b"a,b\n", ("a", "b"))[0].longest_record == 0


def test_the_longest_record_counts_what_is_drawn_and_not_random_identifiers() -> None:
    sanitizer = Sanitizer(tem(SPACE, epsilon=0.5), identifiers=IdentifierReplacer())
    content = b"a,b\nask bob@work.example,cold or hot\n"
    summary, _ = _run(sanitizer, content, ("a", "b"))
    assert summary.longest_record == summary.counts.protected == 4


def test_a_policy_is_asked_once_about_every_text() -> None:
    asked: list[str] = []

    def everywhere(text: str) -> list[tuple[int, int]]:
        asked.append(text)
        return [(0, len(text))]

    sanitizer = Sanitizer(tem(SPACE, epsilon=0.5), policy=protect_where(everywhere, "everything"))
    assert _run(sanitizer, b"a,b\ncold hot,warm\n", ("a", "b"))[0].longest_record == 3
    assert asked == ["cold hot", "warm"]
