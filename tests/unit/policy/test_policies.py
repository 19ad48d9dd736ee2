import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.foundation.errors import ParameterError
from sfumato.policy import (
    Document,
    everything,
    identifiers,
    keep_pattern,
    keep_words,
    numbers,
    protect_pattern,
    protect_where,
    protect_words,
)

TEXTS = st.lists(st.sampled_from(["the", "The", "sound", "of", "rain", "42", "☔", "A1", "½"]), max_size=12).map(
    " ".join
)
A, B = keep_words(["the", "rain"]), keep_words(["of", "the"])
POLICIES = {
    "everything": everything(),
    "keep words": A,
    "protect words": protect_words(["sound", "42"]),
    "numbers": numbers(),
    "protect pattern": protect_pattern(r"\w+ of"),
    "keep pattern": keep_pattern(r"the \w+"),
    "identifiers": identifiers(),
    "function": protect_where(lambda text: [(0, len(text) // 2)], "what is in the first half"),
    "or": A | numbers(),
    "and": A & B,
    "not": ~A,
}
EVERY = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())


@given(TEXTS)
def test_policies_combine_as_sets(text):
    document = Document(text)
    a, b = A.protects(document), B.protects(document)
    assert np.array_equal((A | B).protects(document), a | b)
    assert np.array_equal((A & B).protects(document), a & b)
    assert np.array_equal((~A).protects(document), ~a)
    assert np.array_equal((~(A | B)).protects(document), (~A & ~B).protects(document))
    assert np.array_equal((~~A).protects(document), a)
    assert everything().protects(document).all()


@EVERY
@given(texts=st.lists(st.one_of(TEXTS, st.text(max_size=60)), max_size=4))
def test_a_mask_has_a_place_for_every_token_and_batches_change_nothing(policy, texts):
    documents = [Document(text) for text in texts]
    alone = [policy.protects(document) for document in documents]
    together = policy.protects_many(documents)
    for document, mask, other in zip(documents, alone, together, strict=True):
        assert mask.dtype == np.bool_
        assert len(mask) == len(document.tokens)
        assert np.array_equal(mask, other)


@EVERY
@given(text=TEXTS)
def test_words_that_can_never_be_protected_or_kept_never_are(policy, text):
    document = Document(text)
    for token, protected in zip(document.tokens, policy.protects(document).tolist(), strict=True):
        assert policy.protects_word(token.lower()) or not protected
        assert policy.keeps_word(token.lower()) or protected


def test_kept_words_are_kept_in_any_case_and_described():
    assert keep_words(["The"]).protects(Document("THE the thE then")).tolist() == [False, False, False, True]
    assert "2 words" in A.keeps
    assert everything().keeps == ""
    assert A.keeps in (A & B).keeps
    assert "everything but" in (~A).keeps
    assert (~everything()).keeps == "every token"
    assert (~~A).keeps == A.keeps


def test_protecting_a_list_is_keeping_its_complement():
    only = protect_words(["Paris", "rome"])
    document = Document("PARIS and Rome")
    assert only.protects(document).tolist() == [True, False, True]
    assert np.array_equal(only.protects(document), (~keep_words(["paris", "rome"])).protects(document))
    assert "2 words" in only.keeps


def test_only_words_that_can_be_protected_need_be_inputs():
    assert not A.protects_word("the")
    assert A.protects_word("sound")
    assert (A | B).protects_word("of")
    assert not (A & B).protects_word("of")
    assert not (~A).protects_word("sound")
    assert (~A).protects_word("the")
    assert protect_words(["secret"]).protects_word("secret")
    assert not protect_words(["secret"]).protects_word("public")


@pytest.mark.parametrize("make", [keep_words, protect_words])
def test_a_bare_string_is_no_list_of_words(make):
    with pytest.raises(ParameterError, match="list"):
        make("the")


def test_offsets_of_a_documents_tokens():
    document = Document(" a, bc  d")
    assert document.starts.tolist() == [1, 4, 8]
    assert document.ends.tolist() == [2, 6, 9]
    assert Document("").starts.tolist() == []
    assert Document("").ends.tolist() == []


def test_a_document_does_not_show_its_text():
    assert "Smith" not in repr(Document("Smith"))


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "function"])
def test_policies_travel_to_other_processes(name):
    document = Document("the sound of rain 42 bob@example.org")
    travelled = pickle.loads(pickle.dumps(POLICIES[name]))
    assert np.array_equal(travelled.protects(document), POLICIES[name].protects(document))
    assert travelled.keeps == POLICIES[name].keeps


def test_words_match_however_their_letters_are_encoded_or_written():
    """A name must not pass because a text writes its accent as a character of its own, or in capitals."""
    text = Document("Jose\u0301 JOS\u00c9 stra\u00dfe STRASSE jose")
    assert protect_words(["jos\u00e9", "Stra\u00dfe"]).protects(text).tolist() == [True, True, True, True, False]
    assert protect_words(["jose\u0301", "strasse"]).protects(text).tolist() == [True, True, True, True, False]
    assert keep_words(["Jos\u00e9"]).protects(text).tolist() == [False, False, True, True, True]


@pytest.mark.parametrize("entry", ["John Smith", "don't", " padded", "state-of-the-art", "", "?", "Anne-Marie"])
def test_a_listed_phrase_that_could_match_nothing_is_refused(entry):
    """Texts are split into words, so it would protect nothing at all; its parts have to be listed."""
    for policy in (protect_words, keep_words):
        with pytest.raises(ParameterError, match="word 1 of the list") as caught:
            policy(["fine", entry])
        assert "Smith" not in str(caught.value)
