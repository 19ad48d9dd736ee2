import importlib
import sys

import pytest

from sfumato.foundation.errors import MissingExtraError, ParameterError
from sfumato.policy import Document, protect_words, stop_words
from sfumato.policy.wordlists import _codes


@pytest.fixture
def spacy():
    return pytest.importorskip("spacy", reason="needs the extra 'spacy'")


def protected(policy, text):
    document = Document(text)
    return [t for t, p in zip(document.tokens, policy.protects(document).tolist(), strict=True) if p]


def test_stop_words_of_a_language_are_kept_and_the_rest_protected(spacy):
    assert protected(stop_words("en"), "The patient said that HE was ill") == ["patient", "said", "ill"]
    assert protected(stop_words("de"), "Der Patient war nicht krank") == ["Patient", "krank"]
    assert stop_words().keeps == stop_words("en").keeps


def test_languages_combine_and_are_named_with_their_number_and_version(spacy):
    both = stop_words("fr", "en")
    assert protected(both, "the le secret") == ["secret"]
    for part in ("en, fr", spacy.__version__, "words)"):
        assert part in both.keeps


def test_every_list_can_be_used_and_keeps_no_number(spacy):
    codes = _codes(spacy)
    assert {"en", "de", "fr", "es", "ru", "zh", "ar"} <= set(codes)
    for code in codes:
        policy = stop_words(code)
        assert not any(policy.keeps_word(str(number)) for number in range(2000))
        assert policy.protects_word("xqzvkt")


def test_numbers_written_as_words_and_halves_of_contractions_are_not_kept(spacy):
    english = importlib.import_module("spacy.lang.en.stop_words")
    assert {"eleven", "'ll"} <= english.STOP_WORDS
    policy = stop_words("en")
    assert not policy.keeps_word("eleven")
    assert not policy.keeps_word("ll")
    assert policy.keeps_word("the")


def test_a_stop_word_can_be_protected_again(spacy):
    assert protected(stop_words("en") | protect_words(["will"]), "Will and the others") == ["Will"]


@pytest.mark.parametrize("language", ["klingon", "english", "../en", "xx-no", "", 7])
def test_an_unknown_language_is_refused(spacy, language):
    with pytest.raises(ParameterError, match="language 1"):
        stop_words("en", language)


def test_without_the_extra_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(MissingExtraError, match=r"sfumato\[spacy\]"):
        stop_words("en")
