import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.foundation.errors import ParameterError
from sfumato.policy import Document, IdentifierKind, find_identifiers, identifiers
from sfumato.policy.identifiers import iban_holds, luhn_holds

EXAMPLES = {
    "email": ["bob@example.org", "b.o.b+tag@mail.example.co.uk", "zoë@bücher.example"],
    "url": ["https://example.org/a?b=c#d", "www.example.org/path", "http://example.org"],
    "iban": ["DE89 3704 0044 0532 0130 00", "GB82WEST12345698765432", "FR14 2004 1010 0505 0001 3M02 606", "no9386011117947"],
    "card": ["4111 1111 1111 1111", "378282246310005", "5555-5555-5555-4444", "3782 822463 10005"],
    "phone": ["+49 (0)30 901820", "0171 2345678", "(212) 555-0184", "212-555-0184", "00442079460958", "01.45.67.89.10"],
}  # fmt: skip
PAIRS = [(kind, example) for kind, examples in EXAMPLES.items() for example in examples]


def found(text, *kinds):
    return [(str(f.kind), text[f.start : f.end]) for f in find_identifiers(text, kinds or tuple(IdentifierKind))]


@pytest.mark.parametrize(("kind", "example"), PAIRS)
@pytest.mark.parametrize("frame", ["{}", "it is {}, not", "({})", "{}."])
def test_identifiers_are_found_whole(kind, example, frame):
    assert found(frame.format(example)) == [(kind, example)]


@pytest.mark.parametrize(
    "text",
    [
        "2024-05-01 12:30",
        "on 01.05.2024 at 12:30",
        "01/05/24",
        "it was 1990",
        "3.14159265",
        "at20 degrees and more words",
        "4111 1111 1111 1112",
        "1234 5678 9012",
        "DE89 3704",
        "XX89 3704 1144 1532 2130 30",
        "a@b",
        "nothing at all",
        "",
    ],
)
def test_other_things_are_none(text):
    assert found(text) == []


def test_a_card_in_a_longer_row_of_numbers_is_found():
    assert found("4111 1111 1111 1111 123") == [("card", "4111 1111 1111 1111")]
    assert found("no 555 4111 1111 1111 1111", "card") == [("card", "4111 1111 1111 1111")]


def test_neighbouring_ibans_are_two():
    text = "DE89 3704 0044 0532 0130 00 GB82 WEST 1234 5698 7654 32"
    assert [value for _, value in found(text)] == [text[:27], text[28:]]


def test_only_the_kinds_asked_for():
    text = "bob@example.org 0171 2345678"
    assert found(text, "email") == [("email", "bob@example.org")]
    assert found(text, IdentifierKind.PHONE) == [("phone", "0171 2345678")]
    with pytest.raises(ParameterError, match="kind"):
        find_identifiers(text, ["fax"])
    with pytest.raises(ParameterError, match="list"):
        find_identifiers(text, "email")
    with pytest.raises(ParameterError, match="at least one"):
        identifiers([])


@given(st.lists(st.sampled_from([*[example for _, example in PAIRS], "word", "☔", "漢", "12", "+", "."]), max_size=8))
def test_identifiers_are_in_order_and_apart(parts):
    text = " ".join(parts)
    places = [(f.start, f.end) for f in find_identifiers(text)]
    assert all(start < end for start, end in places)
    assert all(a[1] <= b[0] for a, b in pairwise(places))


@given(st.text(alphabet=st.sampled_from("0123456789 +-().@/:aDE漢"), max_size=60))
def test_any_text_is_taken(text):
    for f in find_identifiers(text):
        assert 0 <= f.start < f.end <= len(text)


def test_the_policy_protects_every_token_of_an_identifier():
    document = Document("card 4111 1111 1111 1111, thanks")
    assert identifiers().protects(document).tolist() == [False, True, True, True, True, False]
    assert identifiers(["email"]).protects(document).tolist() == [False] * 6
    assert "payment card numbers" in identifiers(["card"]).keeps
    assert "positions it chooses are public" in identifiers().keeps


@pytest.mark.parametrize("unit", ["0", "00 ", "1 ", "+1", "a@", "(0", "DE89 ", "111 "])
def test_long_rows_of_the_same_take_no_long_time(unit):
    began = time.process_time()
    find_identifiers(unit * (200_000 // len(unit)))
    assert time.process_time() - began < 10


def test_check_digits():
    assert iban_holds("GB82WEST12345698765432")
    assert not iban_holds("GB82WEST12345698765431")
    for digit in range(10):
        assert luhn_holds(f"411111111111111{digit}") is (digit == 1)
