import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.foundation.errors import ParameterError
from sfumato.policy import Document
from sfumato.policy.spans import covered, touched

TEXTS = st.text(alphabet="ab ,.☔漢", max_size=25)


@st.composite
def texts_and_spans(draw):
    text = draw(TEXTS)
    offsets = st.integers(0, len(text))
    return text, draw(st.lists(st.tuples(offsets, offsets).map(sorted).map(tuple), max_size=6))


@given(texts_and_spans())
def test_tokens_touched_and_covered_are_those_found_one_by_one(case):
    text, spans = case
    document = Document(text)
    tokens = list(zip(document.starts.tolist(), document.ends.tolist(), strict=True))
    some = [(a, b) for a, b in spans if a < b]
    assert touched(document, spans).tolist() == [any(s < b and a < e for a, b in some) for s, e in tokens]
    assert covered(document, spans).tolist() == [any(a <= s and e <= b for a, b in some) for s, e in tokens]


@given(texts_and_spans())
def test_what_is_covered_is_touched(case):
    document = Document(case[0])
    assert not (covered(document, case[1]) & ~touched(document, case[1])).any()


def test_offsets_are_those_of_the_text():
    document = Document(" a, bc  d")
    assert [document.text[s:e] for s, e in zip(document.starts, document.ends, strict=True)] == document.tokens


def test_arrays_of_spans_are_taken():
    assert touched(Document("a b c"), np.array([[2, 3]])).tolist() == [False, True, False]


@pytest.mark.parametrize(
    "spans",
    [[(2, 1)], [(-1, 1)], [(0, 99)], [(0,)], [(0, 1, 2)], [(0, 1), (2,)], [0, 1], [(0.0, 1.0)], [("a", "b")], 7, None],
)
def test_spans_that_are_none_are_refused_without_a_word_of_the_text(spans):
    with pytest.raises(ParameterError, match="span") as caught:
        touched(Document("Smith"), spans)
    assert "Smith" not in str(caught.value)


class Revealing:
    """Tells its text when numpy asks for an array."""

    def __array__(self, *args, **kwargs):
        raise ValueError("Smith")

    def __iter__(self):
        raise TypeError("Smith")


class RevealingRow:
    def __array__(self, *args, **kwargs):
        raise ValueError("Smith")


def chain(error):
    """Return an error and all that are shown with it."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


@pytest.mark.parametrize("spans", [Revealing(), [RevealingRow()]])
@pytest.mark.parametrize("mark", [touched, covered])
def test_nothing_that_an_object_says_about_itself_is_shown_with_the_error(mark, spans):
    with pytest.raises(ParameterError) as caught:
        mark(Document("Smith"), spans)
    assert not any("Smith" in str(error) for error in chain(caught.value))
