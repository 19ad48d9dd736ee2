import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.foundation.errors import ParameterError
from sfumato.policy import Document, keep_pattern, numbers, protect_pattern
from sfumato.policy.numbers import has_number


def tokens(policy, text, protected=True):
    document = Document(text)
    return [t for t, p in zip(document.tokens, policy.protects(document).tolist(), strict=True) if p is protected]


def test_a_match_protects_every_token_it_touches():
    assert tokens(protect_pattern(r"id:\s*\S+"), "my id: AB-12/x, thanks") == ["id", "AB", "12", "x"]
    assert tokens(protect_pattern("mit"), "Smith and Smitty") == ["Smith", "Smitty"]
    assert tokens(protect_pattern("x*"), "empty matches") == []


def test_several_patterns_and_case():
    policy = protect_pattern("one", "two", ignore_case=True)
    assert tokens(policy, "One two three") == ["One", "two"]
    assert tokens(protect_pattern("one"), "One two three") == []


def test_only_tokens_wholly_inside_a_match_are_kept():
    assert tokens(keep_pattern("Smi"), "Smi Smith", protected=False) == ["Smi"]
    assert tokens(keep_pattern(r"<[^>]*>"), "<p class> secret <br>", protected=False) == ["p", "class", "br"]


def test_what_a_pattern_keeps_is_said_with_the_pattern_or_its_name():
    assert "'ab+'" in protect_pattern("ab+").keeps
    assert "case numbers" in keep_pattern("ab+", name="case numbers").keeps
    assert "'ab+'" not in keep_pattern("ab+", name="case numbers").keeps
    for policy in (protect_pattern("a"), keep_pattern("a")):
        assert "positions it chooses are public" in policy.keeps


@pytest.mark.parametrize("expressions", [(), ("(",), ("a", "[")])
def test_what_is_no_pattern_is_refused(expressions):
    for make in (protect_pattern, keep_pattern):
        with pytest.raises(ParameterError):
            make(*expressions)


def test_numbers_of_every_script_and_form_are_protected():
    assert tokens(numbers(), "call 555-0100, Room A12, ٣٤, Ⅷ, ½ cup, x² or seven") == [
        *("555", "0100", "A12", "٣٤", "Ⅷ", "½", "x²")
    ]
    assert "numbers written as words" in numbers().keeps


@given(st.text(max_size=40))
def test_no_decimal_digit_escapes(text):
    for token in tokens(numbers(), text, protected=False):
        assert not any(c.isdigit() or c.isdecimal() for c in token)
        assert not has_number(token)
