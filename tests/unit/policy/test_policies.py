import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.foundation.errors import ParameterError
from sfumato.policy import (
    Document,
    Policy,
    everything,
    identifiers,
    keep_pattern,
    keep_words,
    numbers,
    protect_pattern,
    protect_where,
    protect_words,
)
from sfumato.policy.base import masks_of

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


@pytest.mark.parametrize(
    "spelling",
    [
        *[
            "Smi\u00adth",
            "Smith\u200b",
            "\u200fSmith",
            "\u202aSmith\u202c",
            "\ufeffSmith",
            "Smith\u2060",
            "Smith\x00",
            "Smith\ufe0f",
        ],
        *["\uff33\uff4d\uff49\uff54\uff48", "\U0001d412\U0001d426\U0001d422\U0001d42d\U0001d421", "\u24c8mith\u00ae"],
        *[
            "Smith\u00ae",
            "Smith\u2122",
            "Smith\u00b9",
            "\u00a9Smith",
            "Smith\U0001f642",
            "Smith\u00d7",
            "Smith\u00b4s",
            "Smith\u02bcs",
        ],
        *["SM\u0130TH", "Sm\u0131th", "Smith2", "Smi\u00adth\u2122"],
    ],
)
def test_a_protected_word_is_known_in_odd_spellings_and_a_kept_one_is_not(spelling):
    """Whatever hides a name from a comparison must not let it pass; and must not carry anything along with a kept word."""
    document = Document(f"Dr. {spelling} smithy")
    assert protect_words(["smith"]).protects(document).tolist() == [False, *[True] * (len(document.tokens) - 2), False]
    assert protect_words(["smith"]).protects_word(spelling)
    for keeping in (
        keep_words(["smith"]),
        ~protect_words(["smith"]),
        ~(protect_words(["smith"]) | protect_words(["x"])),
    ):
        assert keeping.protects(document).all()
        assert keeping.protects(Document("Smith")).tolist() == [False]


def test_a_listed_word_may_be_spelled_oddly_too():
    odd = protect_words(["\uff33mith", "\u0130zmir", "A12"])
    assert odd.protects(Document("smith Izmir \u0131zmir A12\u00ae \u0645 x")).tolist() == [
        True,
        True,
        True,
        True,
        False,
        False,
    ]
    assert protect_words(["\u0645\u062d\u0645\u062f"]).protects(Document("\u0645\u062d\u0640\u0640\u0645\u062f")).all()


def test_the_opposite_of_the_opposite_of_a_list_is_the_list():
    listed = protect_words(["smith"])
    assert ~~listed is listed
    assert (~listed).keeps == f"everything but: {listed.keeps}"
    assert (~listed).protects_word("other")
    assert not (~listed).protects_word("smith")


@given(st.text(max_size=20), st.text(max_size=20))
def test_protecting_a_list_never_protects_less_than_comparing_exactly(token, other):
    words = [word for word in Document(f"{token} {other}").tokens if Document(word).pieces == ["", word, ""]]
    document = Document(f"{other} {token} {token.upper()}")
    assert not (~keep_words(words).protects(document) & ~protect_words(words).protects(document)).any()


class _Answers(Policy):
    """A policy that returns what it was given."""

    def __init__(self, *masks):
        self._masks = list(masks)

    keeps = "nothing in particular"

    def protects(self, document):
        return self._masks[0]

    def protects_many(self, documents):
        return self._masks


WRONG_MASKS = [
    np.array([0, 1, 1]),
    np.array([True]),
    np.ones((3, 1), dtype=bool),
    [True, False, True],
    None,
    np.array([1.0, 0, 0]),
]


@pytest.mark.parametrize("mask", WRONG_MASKS)
@pytest.mark.parametrize(
    "change", [lambda policy: policy, lambda policy: policy | A, lambda policy: A & policy, lambda policy: ~policy]
)
def test_a_mask_that_is_none_is_refused_by_the_number_of_its_text(mask, change):
    right = np.array([True, False, True])
    documents = [Document("Ann met Bob")] * 2
    with pytest.raises(ParameterError, match=r"text \d+ must be .* its 3 tokens") as caught:
        masks_of(change(_Answers(right, mask)), documents, 7)
    assert "Ann" not in str(caught.value)


def test_masks_are_as_many_as_texts():
    with pytest.raises(ParameterError, match="1 masks for 2 texts"):
        masks_of(_Answers(np.array([True])), [Document("a"), Document("b")])
