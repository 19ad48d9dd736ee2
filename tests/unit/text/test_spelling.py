from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato
from sfumato.text.spelling import LEAST_LETTERS, Spelling, one_edit_apart

LETTERS = "abc"
TEXTS = st.text(alphabet=LETTERS, max_size=6)


def all_one_edit_away(word: str) -> set[str]:
    """Every text one letter away, by the definition."""
    splits = [(word[:i], word[i:]) for i in range(len(word) + 1)]
    found = {a + b[1:] for a, b in splits if b}
    found |= {a + c + b for a, b in splits for c in LETTERS}
    found |= {a + c + b[1:] for a, b in splits if b for c in LETTERS}
    found |= {word[:i] + b + a + word[i + 2 :] for i, (a, b) in enumerate(pairwise(word))}
    return found - {word}


@given(TEXTS, TEXTS)
def test_one_edit_is_what_the_definition_says(one, other):
    assert one_edit_apart(one, other) == (other in all_one_edit_away(one))
    assert one_edit_apart(one, other) == one_edit_apart(other, one)


@given(st.lists(TEXTS, unique=True, max_size=30), TEXTS)
def test_the_first_word_one_edit_away_is_found(vocabulary, word):
    near = [place for place, known in enumerate(vocabulary) if known in all_one_edit_away(word)]
    expected = near[0] if near and len(word) >= LEAST_LETTERS else None
    assert Spelling(vocabulary).nearest(word) == expected


@pytest.mark.parametrize("word", ["1992", "a1b2", "cat", "", "x-ray", "anna1"])
def test_numbers_codes_and_short_words_are_taken_for_nothing(word):
    assert Spelling(["1991", "a1b3", "cut", "anna", "x-rays"]).nearest(word) is None


def test_every_word_of_the_default_space_is_found_again_with_a_letter_missing():
    words = sfumato.Space.load(limit=5000).words
    spelling = Spelling(words)
    known = set(words)
    rng = np.random.default_rng(0)
    tried = 0
    for word in words:
        if len(word) < 6 or not word.isalpha():
            continue
        cut = int(rng.integers(len(word)))
        misspelled = word[:cut] + word[cut + 1 :]
        if misspelled not in known:
            found = spelling.nearest(misspelled)
            assert found is not None
            assert one_edit_apart(words[found], misspelled)
            tried += 1
    assert tried > 2000
