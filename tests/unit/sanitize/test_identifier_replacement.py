import re

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sfumato.foundation.errors import ParameterError
from sfumato.foundation.randomness import RunKey, SystemSource
from sfumato.policy import Document, IdentifierKind, find_identifiers, identifiers
from sfumato.policy.accounts import iban_holds, luhn_holds
from sfumato.policy.spans import touched
from sfumato.sanitize.identifiers import FORMS, IdentifierReplacer

ORIGINALS = {
    "email": "Bob.Smith9@work.example",
    "url": "https://work.example/bob?id=77",
    "iban": "GB82 WEST 1234 5698 7654 32",
    "card": "5555-5555-5555-4444",
    "phone": "+49 30 901820",
}
FIXED = {
    "email": r"[a-z][a-z0-9]{9}@example\.(com|org|net)",
    "url": r"https://example\.(com|org|net)/[a-z0-9]{10}",
    "iban": r"DE\d{2}0\d{17}",
    "card": r"400000\d{10}",
    "phone": r"\+44 7700 900\d{3}",
}
PRESERVED = {
    "email": r"[A-Z][a-z]{2}\.[A-Z][a-z]{4}\d@example\.(com|org|net)",
    "url": r"https://example\.(com|org|net)/[a-z]{3}\?[a-z]{2}=\d\d",
    "iban": r"GB\d{2} [A-Z]{4} \d{4} \d{4} \d{4} \d{2}",
    "card": r"4000-00\d\d-\d{4}-\d{4}",
    "phone": r"\+[1-9]\d \d\d \d{6}",
}
BOTH = pytest.mark.parametrize("form", FORMS)
EVERY = pytest.mark.parametrize("kind", ORIGINALS)


def numbers(seed):
    return RunKey.from_seed(seed).record(0, "identifier")


def replaced(text, form, seed=1, kinds=tuple(IdentifierKind)):
    return IdentifierReplacer(kinds, form=form).replace(text, numbers(seed)).text


@EVERY
@BOTH
def test_a_random_identifier_is_of_its_kind_and_right(kind, form):
    for seed in range(30):
        value = replaced(ORIGINALS[kind], form, seed)
        assert re.fullmatch((FIXED if form == "fixed" else PRESERVED)[kind], value)
        assert [str(f.kind) for f in find_identifiers(value)] == [kind]
        if kind == "card":
            assert luhn_holds(re.sub(r"\D", "", value))
        if kind == "iban":
            assert iban_holds(value.replace(" ", ""))


@EVERY
def test_in_the_fixed_form_nothing_of_the_original_matters(kind):
    others = {
        "email": "x@y.example",
        "url": "www.example.org",
        "iban": "no9386011117947",
        "card": "378282246310005",
        "phone": "0171 2345678",
    }
    for seed in range(20):
        assert replaced(ORIGINALS[kind], "fixed", seed) == replaced(others[kind], "fixed", seed)


@EVERY
def test_in_the_preserved_form_only_the_format_matters(kind):
    like = {
        "email": "Eve.Jones3@elsewhere.example",
        "url": "http://other.example/eve?xy=12",
        "iban": "GB29 NWBK 6016 1331 9268 19",
        "card": "4111-1111-1111-1111",
        "phone": "+33 14 567891",
    }
    for seed in range(20):
        assert replaced(ORIGINALS[kind], "preserved", seed) == replaced(like[kind], "preserved", seed)


@BOTH
@given(
    parts=st.lists(st.sampled_from([*ORIGINALS.values(), "word", "☔", "漢"]), max_size=8),
    between=st.sampled_from([" ", ", "]),
)
def test_the_rest_of_the_text_stays_and_the_spans_are_right(form, parts, between):
    text = between.join(parts)
    result = IdentifierReplacer(form=form).replace(text, numbers(5))
    before = [(f.start, f.end) for f in find_identifiers(text)]
    assert len(result.spans) == len(before)
    assert _without(text, before) == _without(result.text, result.spans)


def _without(text, spans):
    edges = [0, *(edge for span in spans for edge in span), len(text)]
    return [text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]


def test_every_occurrence_is_drawn_anew_and_a_key_repeats_it():
    text = "bob@work.example " * 20
    values = set(replaced(text, "fixed").split())
    assert len(values) == 20
    assert replaced(text, "fixed", 1) == replaced(text, "fixed", 1) != replaced(text, "fixed", 2)
    assert IdentifierReplacer().replace(text, SystemSource()).text != text


def test_only_the_kinds_asked_for_are_replaced():
    text = "bob@work.example and 0171 2345678"
    assert replaced(text, "fixed", kinds=["phone"]).startswith("bob@work.example and +44 7700 900")


def test_tokens_of_a_random_identifier_need_no_protection_but_their_neighbours_do():
    result = IdentifierReplacer(["iban"]).replace("see ☔GB82WEST12345698765432 or GB82WEST12345698765432.", numbers(1))
    document = Document(result.text)
    assert [len(token) for token in document.tokens] == [3, 23, 2, 22]
    assert result.mask(document).tolist() == [False, False, False, True]
    assert result.text not in repr(result)


@pytest.mark.parametrize("kind", ["card", "phone", "iban"])
def test_digits_are_uniform(kind):
    """Every free digit of 4,000 draws: no count is further off than chance allows once in a million runs."""
    texts = IdentifierReplacer([kind]).replace((ORIGINALS[kind] + ", ") * 4000, numbers(11)).text.split(", ")[:-1]
    free = {"card": slice(6, 15), "phone": slice(12, 15), "iban": slice(5, 22)}[kind]
    drawn = np.array([[int(c) for c in text[free]] for text in texts])
    counts = np.stack([(drawn == digit).sum(axis=0) for digit in range(10)])
    # Hoeffding with a union bound over at most 170 counts.
    allowed = np.sqrt(np.log(2 * 170 / 1e-6) / (2 * len(texts))) * len(texts)
    assert np.abs(counts - len(texts) / 10).max() < allowed


def test_what_is_public_is_said():
    fixed, preserved = IdentifierReplacer(["iban"]), IdentifierReplacer(["iban"], form="preserved")
    assert any("IBANs stand" in item for item in fixed.public)
    assert not any("length" in item for item in fixed.public)
    assert any("length" in item and "country" in item for item in preserved.public)
    assert not any("country" in item for item in IdentifierReplacer(["card"], form="preserved").public)
    assert "epsilon 0" in fixed.note
    begins = "whether a phone number begins with 0, 00 or +"
    assert any(begins in item for item in IdentifierReplacer(["phone"], form="preserved").public)
    assert not any(begins in item for item in (*preserved.public, *IdentifierReplacer(["phone"]).public))


@pytest.mark.parametrize("options", [{"kinds": ["fax"]}, {"kinds": "email"}, {"kinds": []}, {"form": "same"}])
def test_wrong_options_are_refused(options):
    with pytest.raises(ParameterError):
        IdentifierReplacer(**options)


@BOTH
@given(st.text(alphabet=st.sampled_from("0123456789 +-().@/:aDE漢é"), max_size=60))
def test_any_text_is_taken(form, text):
    result = IdentifierReplacer(form=form).replace(text, numbers(2))
    assert len(result.spans) == len(find_identifiers(text))


FIFTEEN = st.text("1234567890", min_size=15, max_size=15)
PHONE_FORMS = [
    "+## ### #######",
    "+## (#)## ######",
    "00## ## ######",
    "0### #######",
    "(0##) ######",
    "0##-######",
    "###-###-####",
    "(###) ###-####",
]


@pytest.mark.parametrize("shape", PHONE_FORMS)
@given(first=FIFTEEN, second=FIFTEEN)
def test_phone_numbers_of_one_declared_format_become_the_same(shape, first, second):
    """Nothing but what is declared may decide what is put in: the format, and whether 0, 00 or + is in front."""
    pair = [_in_shape(shape, digits) for digits in (first, second)]
    assume(all(_declared(number) == _declared(shape.replace("#", "7")) for number in pair))
    assume(all([(f.start, f.end) for f in find_identifiers(number)] == [(0, len(number))] for number in pair))
    for seed in range(3):
        assert len({replaced(number, "preserved", seed, kinds=["phone"]) for number in pair}) == 1


def _in_shape(shape, digits):
    left = iter(digits)
    return "".join(next(left) if character == "#" else character for character in shape)


def _declared(number):
    digits = re.sub("[^0-9]", "", number)
    return re.sub("[0-9]", "9", number), "+" in number, digits[:2] if digits[:2] == "00" else digits[:1] == "0"


@BOTH
@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("0171 2345678 / 0172 3456789", 2),
        ("06 12 34 56 78 06 98 76 54 32", 2),
        ("202-555-0143 202-555-0144", 2),
        ("4111 1111 1111 1111 4111 1111 1111 1111", 2),
        ("john__doe@gmail.com", 1),
        ("AT12 DE89 3704 0044 0532 0130 00", 1),
        ("\uff14\uff11\uff11\uff11\u00a01111\u00a01111\u00a01111", 1),
        ("\uff24\uff25\uff18\uff19 3704 0044 0532 0130 00", 1),
        ("017 4111 1111 1111 1111", 1),
    ],
)
def test_all_that_could_belong_to_an_identifier_is_replaced(form, text, most):
    result = IdentifierReplacer(form=form).replace(text, numbers(4))
    assert 1 <= len(result.spans) <= most
    document = Document(result.text)
    assert result.mask(document).all()


def test_two_numbers_side_by_side_become_two():
    assert replaced("0171 2345678 / 0172 3456789", "preserved") != replaced("0171 2345678", "preserved")
    assert re.fullmatch(r"0\d{3} \d{7} / 0\d{3} \d{7}", replaced("0171 2345678 / 0172 3456789", "preserved"))
    assert re.fullmatch(rf"{FIXED['phone']} / {FIXED['phone']}", replaced("0171 2345678 / 0172 3456789", "fixed"))


@given(
    st.lists(
        st.sampled_from(["4111 1111 1111 1111", "0171 2345678", "202-555-0143", "AT12", "100", *ORIGINALS.values()]),
        max_size=5,
    )
)
def test_what_a_policy_would_protect_is_replaced(parts):
    """The replacer takes one reading of a row of numbers, but leaves nothing of the others."""
    text = " ".join(parts)
    document = Document(text)
    spans = [(f.start, f.end) for f in find_identifiers(text)]
    assert touched(document, spans).tolist() == identifiers().protects(document).tolist()
    for kind in IdentifierKind:
        assert not (identifiers([kind]).protects(document) & ~touched(document, spans)).any()


def test_no_random_address_begins_like_a_url():
    """Which would make it take the words behind it along, in one draw of 17,576."""

    class Always:
        """Chooses the same letter each time, where it is among the possible ones."""

        secure = False

        def __init__(self, place):
            self.place = place

        def uint64(self, count, each=1):
            return np.full(count * each, self.place, dtype=np.uint64)

    replacer = IdentifierReplacer(["email"], form="preserved")
    texts = {replacer.replace("ask bob.x@work.org, now", Always(place)).text for place in range(26)}
    assert any("ww.w@" in text for text in texts)
    assert not any("www." in text for text in texts)
