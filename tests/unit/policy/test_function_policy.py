import numpy as np
import pytest

from sfumato.foundation.errors import ParameterError
from sfumato.policy import Document, protect_where

TEXT = "Ann met Bob, 7."


def mask(answer):
    return protect_where(lambda text: answer, "what the test says").protects(Document(TEXT)).tolist()


def test_spans_characters_and_tokens_say_the_same():
    expected = [True, False, True, False]
    characters = [c.isupper() for c in TEXT]
    assert mask([(0, 3), (8, 11)]) == expected
    assert mask([[1, 2], [10, 12]]) == expected
    assert mask(characters) == expected
    assert mask(np.array(characters)) == expected
    assert mask(tuple(expected)) == expected
    assert mask(np.array(expected)) == expected
    assert mask([]) == [False] * 4


def test_the_function_gets_the_text():
    policy = protect_where(lambda text: [(text.index("met"), text.index("met") + 3)], "the word met")
    assert policy.protects(Document(TEXT)).tolist() == [False, True, False, False]
    assert "the word met" in policy.keeps
    assert "positions it chooses are public" in policy.keeps


def test_a_text_of_tokens_of_one_character_is_read_the_same_either_way():
    document = Document("漢字")
    assert protect_where(lambda text: [False, True], "the second").protects(document).tolist() == [False, True]


@pytest.mark.parametrize("answer", [[True], [False] * 5, np.ones((4, 1), dtype=bool), [(0, 99)], [1, 2], None, "ab", 3])
def test_answers_of_another_shape_are_refused_without_a_word_of_the_text(answer):
    with pytest.raises(ParameterError) as caught:
        mask(answer)
    assert "Ann" not in str(caught.value)


def test_the_caller_must_say_what_is_protected():
    with pytest.raises(ParameterError, match="plain words"):
        protect_where(lambda text: [], " ")
    with pytest.raises(ParameterError, match="callable"):
        protect_where("not a function", "names")
