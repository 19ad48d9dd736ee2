import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.foundation.errors import ParameterError
from sfumato.policy import Document, everything, keep_words

TEXTS = st.lists(st.sampled_from(["the", "The", "sound", "of", "rain", "42", "☔"]), max_size=12).map(" ".join)
A, B = keep_words(["the", "rain"]), keep_words(["of", "the"])


@given(TEXTS)
def test_policies_combine_as_sets(text):
    document = Document(text)
    a, b = A.protects(document), B.protects(document)
    assert np.array_equal((A | B).protects(document), a | b)
    assert np.array_equal((A & B).protects(document), a & b)
    assert np.array_equal((~A).protects(document), ~a)
    assert np.array_equal((~(A | B)).protects(document), (~A & ~B).protects(document))
    assert everything().protects(document).all()


def test_kept_words_are_kept_in_any_case_and_described():
    assert keep_words(["The"]).protects(Document("THE the thE then")).tolist() == [False, False, False, True]
    assert "2 words" in A.keeps
    assert everything().keeps == ""
    assert A.keeps in (A & B).keeps
    assert "everything but" in (~A).keeps
    assert (~everything()).keeps == "every token"


def test_only_words_that_can_be_protected_need_be_inputs():
    assert not A.protects_word("the")
    assert A.protects_word("sound")
    assert (A | B).protects_word("of")
    assert not (A & B).protects_word("of")


def test_a_bare_string_is_no_list_of_words():
    with pytest.raises(ParameterError, match="list"):
        keep_words("the")


def test_offsets_of_a_documents_tokens():
    document = Document(" a, bc  d")
    assert document.starts.tolist() == [1, 4, 8]
    assert Document("").starts.tolist() == []


def test_a_document_does_not_show_its_text():
    assert "Smith" not in repr(Document("Smith"))
