"""What people hand over by mistake is refused in a sentence, before anything is drawn, and without its content."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import sfumato
from sfumato import policies
from sfumato.foundation.errors import SfumatoError
from sfumato.foundation.randomness import SystemSource
from sfumato.sanitize.sanitizer import MOST_PUBLIC_LENGTH

SECRET = "xylophonist"
SPACE = sfumato.Space.from_arrays(["cold", "cool", "warm", "hot"], [[0.0], [1.0], [3.0], [4.0]])
MECHANISM = sfumato.compile("tem", SPACE, epsilon=1.0)


@pytest.mark.parametrize("epsilon", ["6", SECRET, None, True, 10**400, 3j, [3], np.array([3.0]), Decimal("nan")])
def test_an_epsilon_that_is_no_number(epsilon: object) -> None:
    with pytest.raises(SfumatoError, match="epsilon must be") as refused:
        sfumato.compile("tem", SPACE, epsilon=epsilon)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("name", [one.name for one in sfumato.mechanisms() if one.sound and one.takes_epsilon])
@pytest.mark.parametrize("epsilon", [2, Fraction(2), Decimal(2), np.float32(2), np.int64(2)])
def test_exact_numbers_and_those_of_numpy_are_numbers(name: str, epsilon: float) -> None:
    found = sfumato.compile(name, SPACE, epsilon=epsilon).guarantee
    assert found.to_json()["epsilon"] == 2
    assert type(found.to_json()["epsilon"]) in (int, float)


@pytest.mark.parametrize("options", [{"threads": 0}, {"threads": "2"}, {"row_memory": -1}, {"row_memory": 1.5}])
def test_counts_that_are_none(options: dict[str, object]) -> None:
    with pytest.raises(SfumatoError, match="must be a whole number"):
        sfumato.compile("tem", SPACE, epsilon=1.0, **options)


def test_a_name_in_place_of_a_space() -> None:
    with pytest.raises(SfumatoError, match="space must be a Space"):
        sfumato.compile("tem", "default", epsilon=1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "texts", [SECRET, SECRET.encode(), None, 5, [SECRET, None], [SECRET, float("nan")], [[SECRET]]]
)
def test_texts_that_are_no_list_of_strings(texts: object) -> None:
    with pytest.raises(SfumatoError, match=r"a list of texts|text \d of \d is of type") as refused:
        sfumato.Sanitizer(MECHANISM).batch(texts)  # type: ignore[arg-type]
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("text", [None, 5, SECRET.encode(), [SECRET]])
def test_a_text_that_is_no_string(text: object) -> None:
    with pytest.raises(SfumatoError, match="text 0 of 1 is of type") as refused:
        sfumato.Sanitizer(MECHANISM)(text)  # type: ignore[arg-type]
    assert SECRET not in str(refused.value)


def test_texts_may_come_from_a_generator() -> None:
    assert len(sfumato.Sanitizer(MECHANISM).batch(text for text in ("cold", "hot")).texts) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [
        {"policy": "numbers"},
        {"policy": lambda document: True},
        {"digits": 1.0},
        {"identifiers": "fixed"},
        {"carry_case": "False"},
        {"public_length": 2.5},
        {"public_length": True},
        {"public_length": MOST_PUBLIC_LENGTH + 1},
        {"key": "secret", "consistency": "dataset"},
    ],
    ids=lambda options: "-".join(options),
)
def test_parts_of_the_wrong_type(options: dict[str, object]) -> None:
    with pytest.raises(SfumatoError, match=f"{next(iter(options))} must be"):
        sfumato.Sanitizer(MECHANISM, **options)  # type: ignore[arg-type]


def test_a_name_in_place_of_a_mechanism() -> None:
    with pytest.raises(SfumatoError, match="mechanism must be"):
        sfumato.Sanitizer("tem")  # type: ignore[arg-type]


def test_keys_and_record_numbers() -> None:
    sanitizer = sfumato.Sanitizer(MECHANISM)
    with pytest.raises(SfumatoError, match="key must be"):
        sanitizer("cold", key=5)  # type: ignore[arg-type]
    for number in (-1, 1.5, 2**70, None, "1"):
        with pytest.raises(SfumatoError, match="first_record must be"):
            sanitizer.batch(["cold"], key=sfumato.RunKey.generate(), first_record=number)  # type: ignore[arg-type]
    with pytest.raises(SfumatoError, match="number must be"):
        sfumato.RunKey.generate().record(-1)
    with pytest.raises(SfumatoError, match="run key is made of 32 bytes"):
        sfumato.RunKey("x" * 32)  # type: ignore[arg-type]
    for seed in (1.5, "x", True, None):
        with pytest.raises(SfumatoError, match="a seed is a whole number"):
            sfumato.RunKey.from_seed(seed)  # type: ignore[arg-type]


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(SfumatoError) as refused:
        sfumato.Sanitizer(MECHANISM, oov="drop", policy="numbers", carry_case=1)  # type: ignore[arg-type]
    assert all(name in str(refused.value) for name in ("oov", "policy", "carry_case"))


def test_word_lists_that_hold_no_words() -> None:
    with pytest.raises(SfumatoError, match="word 1 of the list is of type int"):
        policies.keep_words(["cold", 1])  # type: ignore[list-item]
    with pytest.raises(SfumatoError, match="must be a list of words"):
        policies.protect_words(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        policies.numbers() | "cold"  # type: ignore[operator]


@pytest.mark.parametrize("key", [None, sfumato.RunKey.from_seed(3)])
def test_long_padded_records_are_worked_on_a_few_at_a_time(
    key: sfumato.RunKey | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Padding multiplies the input: without a limit a small file fills any memory."""
    texts = ["cold rain", "", "hot " * 9, "warm", "cool"]
    sanitizer = sfumato.Sanitizer(MECHANISM, public_length=4)
    whole = sanitizer.batch(texts, key=key)
    monkeypatch.setattr("sfumato.sanitize.sanitizer._PADDED_AT_ONCE", 9)
    pieces = sanitizer.batch(texts, key=key)
    assert [len(text.split()) for text in pieces.texts] == [4] * 5
    assert pieces.counts.protected == whole.counts.protected == 20
    assert pieces.counts.longest_record == 4
    if key is not None:
        assert pieces == whole


@pytest.mark.parametrize("name", ["tem", "laplace", "custext", "identity"])
@pytest.mark.parametrize("ids", [[4], [-2], [0, 99], [0.5]])
def test_ids_that_are_no_words(name: str, ids: list[float]) -> None:
    """Numpy takes -2 for the last but one place: the row of another word."""
    given = {} if name == "identity" else {"epsilon": 1.0}
    mechanism = sfumato.compile(name, SPACE, **given)
    with pytest.raises(SfumatoError, match="ids must be an array of whole numbers"):
        mechanism.sample(np.array(ids), SystemSource())


def test_word_lists_may_be_sets_or_generators() -> None:
    words = ["cold", "warm", "cold"]
    listed = sfumato.compile("tem", SPACE, epsilon=9.0, inputs=words, outputs=words)
    generated = sfumato.compile("tem", SPACE, epsilon=9.0, inputs=set(words), outputs=(word for word in words))
    assert listed.guarantee == generated.guarantee
    with pytest.raises(SfumatoError, match="lists of words, not a single text"):
        sfumato.compile("tem", SPACE, epsilon=9.0, outputs="cold")


@pytest.mark.parametrize("limit", [0, -1, 2.5, "5"])
def test_limits_of_a_space(limit: object) -> None:
    with pytest.raises(SfumatoError, match="limit must be a whole number"):
        sfumato.Space.load(limit=limit)  # type: ignore[arg-type]
    with pytest.raises(SfumatoError, match="count must be a whole number"):
        SPACE.head(limit)  # type: ignore[arg-type]


def test_vectors_of_unlike_lengths() -> None:
    with pytest.raises(SfumatoError, match="two-dimensional array of numbers"):
        sfumato.Space.from_arrays(["a", "b"], [[0.0], [1.0, 2.0]])


def test_parts_of_a_space_hold_each_word_once() -> None:
    assert SPACE.restricted(["warm", "cold", "warm"]).words == SPACE.restricted(["cold", "warm"]).words
    for nothing in ([], "cold"):
        with pytest.raises(SfumatoError, match="at least one word"):
            SPACE.restricted(nothing)


class _NumbersForMask(policies.Policy):
    """A user's policy that returns numbers instead of truth values for its second text."""

    keeps = "what the test says"

    def protects(self, document: policies.Document) -> np.ndarray:
        return np.ones(len(document.tokens), dtype=bool if document.text == "cold" else int)


def test_a_policy_whose_masks_are_none() -> None:
    sanitizer = sfumato.Sanitizer(MECHANISM, policy=_NumbersForMask())
    assert len(sanitizer.batch(["cold"]).texts) == 1
    with pytest.raises(SfumatoError, match="mask of text 6 must be a numpy array"):
        sanitizer.batch(["cold", "warm rain"], first_record=5)
