import logging
import pickle
import socket
import sys

import numpy as np
import pytest

from sfumato.foundation.errors import DataError, MissingExtraError, ParameterError
from sfumato.policy import Document, presidio
from sfumato.policy.recognisers import DEFAULT_ENTITIES

EXAMPLES = {
    "CREDIT_CARD": "4111 1111 1111 1111",
    "US_SSN": "536-22-1234",
    "PHONE_NUMBER": "(212) 555-0184",
    "EMAIL_ADDRESS": "bob.smith@example.org",
    "IBAN_CODE": "DE89 3704 0044 0532 0130 00",
    "IP_ADDRESS": "192.168.7.41",
    "URL": "https://example.org/x",
}


@pytest.fixture(autouse=True)
def needs_the_extra():
    pytest.importorskip("presidio_analyzer", reason="needs the extra 'presidio'")


def protected(policy, text):
    document = Document(text)
    return [t for t, p in zip(document.tokens, policy.protects(document).tolist(), strict=True) if p]


@pytest.mark.parametrize("entity", EXAMPLES)
def test_every_recogniser_finds_its_own_and_leaves_words_alone(entity):
    text = f"here it is: {EXAMPLES[entity]} and no more"
    assert protected(presidio([entity]), text) == Document(EXAMPLES[entity]).tokens
    assert protected(presidio([entity]), "here it is and no more") == []


def test_by_default_five_kinds_are_found():
    assert set(DEFAULT_ENTITIES) == {"CREDIT_CARD", "US_SSN", "PHONE_NUMBER", "EMAIL_ADDRESS", "IBAN_CODE"}
    text = " and ".join(EXAMPLES[entity] for entity in DEFAULT_ENTITIES)
    assert set(Document(text).tokens) - set(protected(presidio(), text)) == {"and"}


def test_a_card_with_a_wrong_check_digit_is_none():
    assert protected(presidio(["CREDIT_CARD"]), "4111 1111 1111 1112") == []


def test_nothing_is_fetched_and_addresses_in_ones_own_network_are_found(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    policy = presidio(list(EXAMPLES))
    assert protected(policy, "write to bob@mail.internal") == ["bob@mail.internal"]


def test_no_text_gets_into_a_log(caplog):
    caplog.set_level(logging.DEBUG)
    for text in EXAMPLES.values():
        presidio(list(EXAMPLES)).protects(Document(text + " zzyzx"))
    assert "zzyzx" not in caplog.text
    for text in EXAMPLES.values():
        assert text not in caplog.text


def test_regions_and_scores_choose():
    swiss = "044 668 18 00"
    assert protected(presidio(["PHONE_NUMBER"], regions=["CH"]), f"ring {swiss} now") == swiss.split()
    assert protected(presidio(["US_SSN"], least_score=0.4), "number 536221234") == []
    assert protected(presidio(["US_SSN"]), "number 536221234") == ["536221234"]


def test_a_recogniser_that_gives_up_lets_nothing_pass(monkeypatch):
    policy = presidio(["US_SSN"])
    monkeypatch.setattr(policy, "_patience", 0.0)
    with pytest.raises(DataError, match="gave up") as caught:
        policy.protects(Document("Smith 536-22-1234"))
    assert "Smith" not in str(caught.value)


def test_an_analyzer_of_ones_own_is_asked():
    class Result:
        start, end = 0, 3

    class Analyzer:
        def analyze(self, text, language, entities, score_threshold):
            self.asked = (text, language, entities, score_threshold)
            return [Result()]

    analyzer = Analyzer()
    assert protected(presidio(["PERSON"], analyzer=analyzer, language="de", least_score=0.3), "Ann ist da") == ["Ann"]
    assert analyzer.asked == ("Ann ist da", "de", ["PERSON"], 0.3)
    with pytest.raises(ParameterError, match="AnalyzerEngine"):
        presidio(analyzer=object())


def test_it_says_what_it_keeps_and_travels():
    policy = presidio(["US_SSN"])
    assert "US_SSN" in policy.keeps
    assert "positions it chooses are public" in policy.keeps
    document = Document("my number is 536-22-1234")
    assert np.array_equal(pickle.loads(pickle.dumps(policy)).protects(document), policy.protects(document))


@pytest.mark.parametrize("entities", ["US_SSN", ["PERSON"], []])
def test_entities_it_does_not_have_are_refused(entities):
    with pytest.raises(ParameterError, match="entities"):
        presidio(entities)


def test_without_the_extra_it_is_named(monkeypatch):
    for module in ("presidio_analyzer", "presidio_analyzer.predefined_recognizers"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"sfumato\[presidio\]"):
        presidio()


@pytest.mark.parametrize(
    "number",
    [
        "4111\u00a01111\u00a01111\u00a01111",
        "4111\u20111111\u20111111\u20111111",
        "\uff14\uff11\uff11\uff11" + "\uff11" * 12,
        "DE89\u00a03704\u00a00044\u00a00532\u00a00130\u00a000",
        "DE89\u20113704\u20110044\u20110532\u20110130\u201100",
        "de89 3704 0044 0532 0130 00",
        "at61 1904 3002 3457 3201",
        "gb82west12345698765432",
        "536\u201122\u20111234",
    ],
)
def test_numbers_are_known_in_other_characters(number):
    text = f"this {number} was paid"
    assert set(Document(text).tokens) - set(protected(presidio(), text)) == {"this", "was", "paid"}
    assert set(Document(number).tokens) <= set(protected(presidio(), f"{number} paid"))
