from hypothesis import given
from hypothesis import strategies as st

from sfumato.text import Case, apply_case, case_of


@given(st.text(st.characters(codec="ascii", categories=("Ll",)), min_size=2, max_size=12), st.sampled_from(list(Case)))
def test_a_word_written_in_a_case_has_that_case(word, case):
    assert case_of(apply_case(word, case)) is case


@given(st.text(max_size=20))
def test_any_text_has_a_case_and_lower_leaves_it_alone(word):
    assert case_of(word) in Case
    assert apply_case(word, Case.LOWER) == word
    apply_case(word, Case.TITLE), apply_case(word, Case.UPPER)
