import time
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.foundation.errors import ParameterError
from sfumato.policy import Document, IdentifierKind, find_identifiers, identifiers
from sfumato.policy.accounts import iban_holds, luhn_holds
from sfumato.policy.plain import plain, plain_address

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


HOSTILE = [
    *["0", "0 ", "00 ", "1 ", "+1", "(0", "0) ", "0171 ", "202-555-0143 ", "01.02.2020 ", "\u200b", "\uff11 "],
    *["a@", "@", ".@x.org", "a.", "=@", "@[", "a@-", "\u4e2d@", "a@x.org"],
    *["DE89 ", "111 ", "4111 1111 1111 1111 "],
]


@pytest.mark.parametrize("unit", HOSTILE)
def test_long_rows_of_the_same_take_no_long_time(unit):
    def seconds(characters):
        began = time.process_time()
        find_identifiers(unit * (characters // len(unit)))
        return time.process_time() - began

    small, large = (min(seconds(count) for _ in range(2)) for count in (25_000, 100_000))
    assert large < 9 * small + 0.1  # quadratic growth would make it 16 times as long


def left(text, policy=None):
    """Return the tokens that are released."""
    document = Document(text)
    mask = (policy or identifiers()).protects(document).tolist()
    return [token for token, protected in zip(document.tokens, mask, strict=True) if not protected]


NEIGHBOURS = [
    *PAIRS,
    ("phone", "202-555-0143"),
    ("phone", "06 12 34 56 78"),
    ("phone", "0171 23456"),
    ("email", "o'b@x.org"),
]
DATES = ["", "01.02.2020 ", "01.02.24 ", "2024-05-01 ", "12/31/1999 ", "am 3. 5. "]


@pytest.mark.parametrize("between", [" ", " / ", " - ", ", ", "\n"])
@pytest.mark.parametrize("before", DATES)
def test_neighbours_hide_nothing_of_each_other(before, between):
    """A row of numbers can be read in several ways; none of them may leave a part of another out."""
    for (_, one), (_, other) in product(NEIGHBOURS, repeat=2):
        text = f"{before}{one}{between}{other}"
        numbers_of_dates = set(Document(before).tokens)
        assert set(left(text)) <= numbers_of_dates, text
        beside = Document(one).tokens + Document(other).tokens
        assert not set(left(text)) & (set(beside) - numbers_of_dates), text


@pytest.mark.parametrize(
    ("text", "released"),
    [
        ("Tel. 0171 2345678 / 0172 3456789", ["Tel"]),
        ("0171 2345678 0172 3456789", []),
        ("am 01.02.2020 0171 2345678", ["am", "01", "02", "2020"]),
        ("01.02.24 0171 23456", ["01", "02", "24"]),
        ("2024-05-01 0171 23456789", ["2024", "05", "01"]),
        ("Fax 030 1234567 - 030 7654321 x", ["Fax", "x"]),
        ("0171 2345678 12345", ["12345"]),
        ("06 12 34 56 78 06 98 76 54 32", []),
        ("see https://a.org/1 202-555-0143", ["see"]),
        ("202-555-0143 202-555-0144", []),
        ("+49 (0)171 2345678 4111 1111 1111 1111", []),
        ("AT12 DE89 3704 0044 0532 0130 00", []),
        ("01.45.67.89.10-12-12-", []),
        ("0171 234 01-02-03", []),
    ],
)
def test_numbers_beside_others_are_protected(text, released):
    assert left(text) == released


def test_a_number_in_front_of_a_card_hides_no_part_of_it():
    for number in range(100, 10_000, 7):
        assert set(left(f"{number} 4111 1111 1111 1111")) <= {str(number)}


@given(
    st.lists(st.sampled_from([*[example for _, example in NEIGHBOURS], "12", "123", "+", "word"]), max_size=5),
    st.data(),
)
def test_each_kind_alone_protects_no_more_than_all_together(examples, data):
    """What a kind of a higher rank takes is covered by it, so asking for more kinds never protects less."""
    text = data.draw(st.sampled_from([" ", " / ", "-", "."])).join(examples)
    together = identifiers().protects(Document(text))
    for kind in IdentifierKind:
        assert not (identifiers([kind]).protects(Document(text)) & ~together).any()


@pytest.mark.parametrize(
    "address",
    [
        "john__doe@gmail.com",
        "bob_@gmail.com",
        "bob.@x.org",
        "b..b@x.org",
        "bob@localhost",
        "o'brien@example.org",
        "tom&jerry@x.org",
        "bounce+bob=example.org@list.example",
        "a" * 70 + "@x.org",
        "bob@xn--p1ai.\u0440\u0444",
        "bob@[192.168.0.1]",
        "bob@192.168.0.1",
        "bob\uff20example\uff0eorg",
        "bob@\u4f8b\u5b50.\u516c\u53f8",
        "bob@mail.\u4f8b\u5b50.\u516c\u53f8",
        "bob@mail@x.org",
    ],
)
def test_addresses_of_unusual_forms_are_found_whole(address):
    assert found(f"({address}), not") == [("email", address)]
    assert left(f"ask {address} today") == ["ask", "today"]


def test_an_address_ends_where_writing_without_spaces_goes_on():
    assert found("\u8bf7\u8054\u7cfbbob@example.org\u8c22\u8c22") == [("email", "bob@example.org")]
    assert found("a@x.org/b@y.org") == [("email", "a@x.org"), ("email", "b@y.org")]
    assert found("https://bob@example.org/x") == [("url", "https://bob@example.org/x")]
    assert left("3 @ 4.50 and @bob") == ["3", "4", "50", "and", "bob"]


SEPARATORS = [
    "\u00a0",
    "\u202f",
    "\u2009",
    "\t",
    "  ",
    "\u00a0 ",
    "\u2010",
    "\u2011",
    "\u2012",
    "\u2013",
    "\u2014",
    ".",
    "\u00b7",
]
SEPARATORS += [" \u2013 ", "\u200b", "\u00ad", "\u2060"]


@pytest.mark.parametrize("separator", SEPARATORS)
@pytest.mark.parametrize(
    "number", ["4111 1111 1111 1111", "0171 234 5678", "+49 171 2345678", "202 555 0143", "DE89 3704 0044 0532 0130 00"]
)
def test_numbers_are_known_whatever_separates_their_groups(number, separator):
    written = number.replace(" ", separator)
    assert left(f"it is {written}, not") == ["it", "is", "not"]


@pytest.mark.parametrize(
    "number",
    [
        "(202)555-0143",
        "2025550143",
        "12025550143",
        "\uff12\uff10\uff12-555-0143",
        "\uff14\uff11\uff11\uff11 " + "\uff11\uff11\uff11\uff11 " * 2 + "\uff11\uff11\uff11\uff11",
        "\u0660\u0661\u0667\u0661 \u0662\u0663\u0664\u0665\u0666\u0667\u0668",
        "\uff24\uff25\uff18\uff19 3704 0044 0532 0130 00",
        "\u202a+49 171 2345678\u202c",
        "+ 49 171 2345678",
        "(+49) 171 2345678",
        "0171 234567890",
    ],
)
def test_numbers_in_other_digits_and_groups_are_known(number):
    assert set(left(f"it is {number}, not")) <= {"it", "is", "not", "\u202a", "\u202c"}


def test_a_number_in_writing_without_spaces_and_with_a_footnote():
    assert left("\u7535\u8bdd0171 2345678\u53f7") == ["\u7535", "\u8bdd", "\u53f7"]
    assert left("4111 1111 1111 1111\u00b9") == []


@given(st.text(max_size=60))
def test_plain_characters_stand_where_those_of_the_text_stand(text):
    for one in (plain(text), plain_address(text)):
        assert len(one) == len(text)
        assert all(a == b for a, b in zip(text, one, strict=True) if "!" <= a <= "~")


def test_check_digits():
    assert iban_holds("GB82WEST12345698765432")
    assert not iban_holds("GB82WEST12345698765431")
    for digit in range(10):
        assert luhn_holds(f"411111111111111{digit}") is (digit == 1)
