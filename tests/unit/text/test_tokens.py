import string
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.text import Kind, kind_of, pieces, tokenize

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=200)


@settings(max_examples=400)
@given(ANY_TEXT)
def test_unchanged_tokens_rejoin_to_the_very_same_text(text):
    parts = pieces(text)
    assert "".join(parts) == text
    assert len(parts) % 2 == 1


@given(ANY_TEXT)
def test_offsets_point_at_the_tokens(text):
    for token in tokenize(text):
        assert text[token.start : token.end] == token.text


@given(ANY_TEXT)
def test_gaps_hold_nothing_but_space_and_punctuation(text):
    for gap in pieces(text)[::2]:
        assert not any(character.isalnum() for character in gap)


@given(st.text(st.sampled_from("ab1@.:/w'- \n"), max_size=60))
def test_addresses_and_numbers_rejoin_too(text):
    assert "".join(pieces(text)) == text


def tokens(text):
    return pieces(text)[1::2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("state-of-the-art", ["state", "of", "the", "art"]),
        ("3.14 1,000 12:30 7/8", ["3", "14", "1", "000", "12", "30", "7", "8"]),
        ("don't isn’t O'Neil", ["don", "t", "isn", "t", "O", "Neil"]),
        ("v2 b4 4th", ["v2", "b4", "4th"]),
        ("see http://x.org/a?b=c. Or www.foo.org!", ["see", "http://x.org/a?b=c", "Or", "www.foo.org"]),
        ("bob.o-neil+x@mail.example.org,", ["bob.o-neil+x@mail.example.org"]),
        ("☔👨‍👩‍👧 €5", ["☔👨‍👩‍👧", "€5"]),
        ("中文字", ["中", "文", "字"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("مرحبا، بك؟", ["مرحبا", "بك"]),
        ("naïve cafe\u0301", ["naïve", "cafe\u0301"]),
        ("\x00\x01secret\x7f", ["\x00\x01secret\x7f"]),
        ("a\u200bb \u202eabc", ["a\u200bb", "\u202eabc"]),
        ("\ue000 \U000e0061\U000e0062", ["\ue000", "\U000e0061\U000e0062"]),
        ("", []),
        (" \t\n", []),
    ],
)
def test_what_a_token_is(text, expected):
    assert tokens(text) == expected


def test_nothing_but_listed_punctuation_is_ever_released():
    """Control, format, private-use, symbol and unassigned characters can carry text, so they are never gaps."""
    import unicodedata

    for code in range(0x110000):
        character = chr(code)
        if pieces(character) == [character]:
            category = unicodedata.category(character)
            whitespace = character.isspace()
            assert whitespace or category[0] in "PS", (hex(code), category)
            if category[0] == "S":
                assert code < 0x80 or 0x2000 <= code <= 0x20FF or 0x3000 <= code <= 0x303F or code >= 0xFF00, hex(code)


def test_kinds():
    text = "Write to a@b.org or http://a.org/x, 42 times ☔"
    assert [str(t.kind) for t in tokenize(text)] == ["word", "word", "email", "word", "url", "number", "word", "symbol"]
    assert kind_of("WWW.A.ORG") is Kind.URL
    assert kind_of("@") is Kind.SYMBOL


@pytest.mark.parametrize(
    "part",
    ["a", "a.b", "a@", "!", "1.", "http://!", "e\u0301", "a'", "www.", "a@b.", "a.a@"],
)
def test_hostile_text_takes_time_in_proportion_to_its_length(part):
    def hostile(count):
        return "http://" + part * count + "@"

    def seconds(text):
        start = time.perf_counter()
        assert "".join(pieces(text)) == text
        return time.perf_counter() - start

    small, large = (min(seconds(hostile(count)) for _ in range(3)) for count in (10_000, 40_000))
    assert large < 9 * small + 0.05  # quadratic growth would make it 16 times as long


@given(st.text(st.characters(codec="ascii", exclude_characters="@:"), max_size=80))
def test_the_pattern_for_ascii_text_splits_as_the_general_one(text):
    assert pieces(text + " €")[1::2][:-1] == pieces(text)[1::2]


def test_ascii_punctuation_and_space_are_gaps():
    assert pieces(string.punctuation + string.whitespace) == [string.punctuation + string.whitespace]
