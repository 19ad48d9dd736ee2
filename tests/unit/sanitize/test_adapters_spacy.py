"""The spaCy component."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import sfumato
from sfumato.foundation.errors import MissingExtraError, ParameterError
from sfumato.sanitize.sanitizer import Counts
from sfumato.space import Space

pytest.importorskip("spacy")
import spacy
from spacy.tokens import Doc, DocBin

import sfumato.sanitize.adapters.spacy as adapter

WORDS = ["rain", "snow", "wind", "storm", "sun", "sky", "hail", "ice"]
SPACE = Space.from_arrays(WORDS, np.random.default_rng(0).normal(size=(8, 3)))
STILL = sfumato.Sanitizer(sfumato.compile("tem", SPACE, epsilon=500.0), oov="mask")
NOISY = sfumato.Sanitizer(sfumato.compile("tem", SPACE, epsilon=0.1))
TEXT, SAFE = "Rain, Smith and SUN.", "Rain, [MASK] [MASK] SUN."

for name, sanitizer in (("still", STILL), ("noisy", NOISY), ("text", "no sanitizer")):
    spacy.registry.misc(f"sfumato_test_{name}", func=lambda found=sanitizer: found)


def pipeline(which="still", **settings):
    nlp = spacy.blank("en")
    nlp.add_pipe("sfumato", config={"sanitizer": {"@misc": f"sfumato_test_{which}"}, **settings})
    return nlp


def test_the_document_stays_and_has_its_sanitized_text():
    doc = pipeline()(TEXT)
    assert doc.text == TEXT
    assert doc._.sanitized.text == SAFE
    assert doc._.sanitized.guarantee == STILL.guarantee
    assert doc._.sanitized.counts == STILL(TEXT).counts != Counts()


def test_a_document_that_was_not_sanitized_says_so():
    assert spacy.blank("en")(TEXT)._.sanitized is None


def test_the_document_can_be_replaced_and_then_holds_nothing_of_the_original():
    nlp = pipeline(replace=True)
    before = nlp.make_doc(TEXT)
    before.user_data["note"] = "Smith"
    doc = nlp(before)
    assert doc.text == doc._.sanitized.text == SAFE
    assert doc._.sanitized.counts == Counts()
    assert "Smith" not in str(doc.user_data)
    assert {token.text for token in doc}.isdisjoint({"Smith", "and"})
    assert b"Smith" not in doc.to_bytes()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("replace", [False, True])
def test_what_belongs_to_a_document_stays_with_it(workers, replace):
    texts = [(f"rain {'sun ' * place}", {"id": place}) for place in range(5)]
    found = list(pipeline(replace=replace).pipe(texts, as_tuples=True, n_process=workers, batch_size=2))
    assert [(doc._.sanitized.text, context) for doc, context in found] == texts


def test_extensions_of_a_replaced_document_are_not_carried_over():
    Doc.set_extension("sfumato_test_note", default=None, force=True)
    nlp = pipeline(replace=True)
    before = nlp.make_doc(TEXT)
    before._.sfumato_test_note = "Smith"
    assert nlp(before)._.sfumato_test_note is None


@pytest.mark.parametrize("replace", [False, True])
def test_workers_draw_unlike_noise(replace):
    """Forked workers that shared a random state would draw alike: texts of 96 words agree with a chance far below 2**-96."""
    text = " ".join(WORDS * 12)
    done = list(pipeline("noisy", replace=replace).pipe([text] * 6, n_process=2, batch_size=1))
    assert len({doc._.sanitized.text for doc in done}) == 6


def test_what_comes_after_sees_the_replaced_document():
    nlp = pipeline(replace=True)
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns(
        [{"label": "SKY", "pattern": [{"TEXT": "SUN"}]}, {"label": "PERSON", "pattern": [{"TEXT": "Smith"}]}]
    )
    assert [entity.label_ for entity in nlp(TEXT).ents] == ["SKY"]


def test_documents_draw_anew_each():
    text = " ".join(WORDS * 4)
    one, other = (doc._.sanitized.text for doc in pipeline("noisy").pipe([text, text]))
    assert one != other


def test_documents_come_through_files_and_other_processes():
    nlp = pipeline()
    doc = next(iter(nlp.pipe([TEXT] * 3, n_process=2, batch_size=1)))
    assert doc._.sanitized.guarantee == STILL.guarantee
    packed = DocBin(docs=[doc], store_user_data=True).to_bytes()
    (back,) = DocBin().from_bytes(packed).get_docs(spacy.blank("en").vocab)
    assert back._.sanitized.text == SAFE
    assert back._.sanitized.guarantee == STILL.guarantee


def test_settings_instead_of_a_sanitizer(tmp_path):
    nlp = spacy.blank("en")
    settings = {"mechanism": "santext", "epsilon": 3.0, "words": 60, "oov": "mask", "carry_case": False}
    nlp.add_pipe("sfumato", config={**settings, "consistency": "record", "public_length": 4, "replace": True})
    nlp.to_disk(tmp_path / "pipeline")
    component = spacy.load(tmp_path / "pipeline").get_pipe("sfumato")
    built = component.sanitizer
    assert (built.mechanism.guarantee.mechanism, built.mechanism.guarantee.epsilon) == ("santext", 3.0)
    assert len(built.mechanism.space) == 60
    assert (built.oov, built.carry_case, str(built.consistency), built.public_length) == ("mask", False, "record", 4)
    assert component.replace


@pytest.mark.parametrize(
    ("which", "settings", "message"),
    [
        ("text", {}, "must be a Sanitizer, got a str"),
        ("noisy", {"epsilon": 1.0, "oov": "mask"}, "leave epsilon, oov out"),
    ],
)
def test_settings_that_cannot_be_meant(which, settings, message):
    with pytest.raises(ParameterError, match=message):
        pipeline(which, **settings)


def test_a_missing_epsilon_is_named():
    with pytest.raises(ParameterError, match="tem needs epsilon"):
        spacy.blank("en").add_pipe("sfumato", config={"words": 10})


def test_a_missing_library_is_named(monkeypatch):
    import importlib

    monkeypatch.setitem(sys.modules, "spacy.language", None)
    monkeypatch.delitem(sys.modules, adapter.__name__)
    with pytest.raises(MissingExtraError, match=r"sfumato\[spacy\]"):
        importlib.import_module(adapter.__name__)
