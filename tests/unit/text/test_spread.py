import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.text import case_of, pieces
from sfumato.text import spread as module
from sfumato.text.case import Case
from sfumato.text.spread import Spread

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=80)
ODD_TEXT = st.text(st.sampled_from("abAB1@.:/wW'- \n\t\x1e\x00é中文İßKΣ٣\u200b☔\ud800"), max_size=60)
ASCII_TEXT = st.text(st.characters(codec="ascii"), max_size=80)
TEXTS = st.lists(st.one_of(ANY_TEXT, ODD_TEXT, ASCII_TEXT), max_size=5)


@settings(max_examples=400)
@given(TEXTS)
def test_the_tokens_are_those_of_one_text_after_the_other(texts):
    spread = Spread.of(texts)
    tokens = [pieces(text)[1::2] for text in texts]
    flat = [token for some in tokens for token in some]
    assert [spread.token(place) for place in range(len(spread))] == flat
    assert spread.lowered == [token.lower() for token in flat]
    assert spread.counts.tolist() == [len(some) for some in tokens]
    assert [list(Case)[case] for case in spread.cases] == [case_of(token) for token in flat]


@settings(max_examples=300)
@given(TEXTS, st.data())
def test_the_same_tokens_restore_the_texts_and_other_words_leave_the_gaps(texts, data):
    spread = Spread.of(texts)
    assert spread.rewritten([spread.token(place) for place in range(len(spread))]) == texts
    words = data.draw(
        st.lists(st.sampled_from(["", "x", "rain", "é", "☔"]), min_size=len(spread), max_size=len(spread))
    )
    expected, left = [], list(words)
    for text in texts:
        parts = pieces(text)
        count = len(parts) // 2
        parts[1::2], left = left[:count], left[count:]
        expected.append("".join(parts))
    assert spread.rewritten(words) == expected


@given(TEXTS, st.data())
def test_some_of_the_tokens_leave_the_others_as_they_are(texts, data):
    spread = Spread.of(texts)
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=len(spread), max_size=len(spread))), dtype=bool)
    some = spread.only(chosen)
    flat = [spread.token(place) for place in range(len(spread))]
    assert some.lowered == [token.lower() for token, is_chosen in zip(flat, chosen, strict=True) if is_chosen]
    assert some.counts.sum() == chosen.sum() == len(some)
    assert some.rewritten([some.token(place) for place in range(len(some))]) == texts


@pytest.mark.parametrize("text", ["rain " * 5000, " " * 9000 + "rain" + "," * 9000, "r" * 20_000, "", "Zürich " * 4000])
def test_texts_longer_than_what_is_worked_on_at_a_time(text, monkeypatch):
    monkeypatch.setattr(module, "_CHARACTERS_AT_ONCE", 512)
    spread = Spread.of([text, "", text])
    expected = "".join("snow" if place % 2 else piece for place, piece in enumerate(pieces(text)))
    assert spread.rewritten(["snow"] * len(spread)) == [expected, "", expected]
