import numpy as np
import pytest

import sfumato
from sfumato.foundation.errors import ParameterError
from sfumato.foundation.guarantee import PureGuarantee
from sfumato.foundation.randomness import RunKey
from sfumato.space import Space

WORDS = [f"w{i}" for i in range(50)]
SPACE = Space.from_arrays(WORDS, np.random.default_rng(0).normal(size=(50, 3)))
TEM = sfumato.compile("tem", SPACE, epsilon=0.05)
KEY = RunKey.from_seed(5)
TEXT = "Smith saw w1. w1 saw Smith, W1 and Jones"


class Shift:
    """Replaces a digit by a uniform one; stands for any digit mechanism."""

    guarantee = PureGuarantee(mechanism="shift", epsilon=0.0, certified=0.0)

    def digit_count(self, token):
        return len(token)

    def replace(self, tokens, source):
        from sfumato.foundation.randomness import below

        total = sum(map(len, tokens))
        digits = below(source, np.full(total, 10, dtype=np.uint64)).tolist()
        return ["".join(str(digits.pop(0)) for _ in token) for token in tokens]


def words_of(text):
    return text.replace(".", "").replace(",", "").split()


def test_by_token_equal_words_part():
    outs = words_of(sfumato.Sanitizer(TEM)(" ".join(["w1"] * 60), KEY).text)
    assert len(set(outs)) > 10


@pytest.mark.parametrize("consistency", ["record", "dataset"])
def test_within_a_record_equal_words_stay_equal_known_or_not(consistency):
    out = words_of(sfumato.Sanitizer(TEM, consistency=consistency)(TEXT, KEY).text)
    smith, saw, one, again, saw_again, smith_again, upper, _, _ = out
    assert smith == smith_again
    assert saw == saw_again
    assert one == again == upper.lower()


def test_by_record_other_records_draw_anew_and_by_dataset_they_do_not():
    texts = [" ".join(WORDS[:20])] * 2
    one, other = sfumato.Sanitizer(TEM, consistency="record").batch(texts, key=KEY).texts
    assert one != other
    one, other = sfumato.Sanitizer(TEM, consistency="dataset").batch(texts, key=KEY).texts
    assert one == other


@pytest.mark.parametrize("consistency", ["token", "record", "dataset"])
@pytest.mark.parametrize("digits", [None, Shift()])
@pytest.mark.parametrize("length", [None, 12])
def test_batches_do_not_change_what_a_record_gets(consistency, digits, length):
    texts = [TEXT, "", "w1 w2 4711 4711", "Jones 12 w1"]
    sanitizer = sfumato.Sanitizer(TEM, consistency=consistency, digits=digits, public_length=length)
    together = sanitizer.batch(texts, key=KEY).texts
    alone = [sanitizer.batch([t], key=KEY, first_record=i).texts[0] for i, t in enumerate(texts)]
    assert together == alone


def test_dataset_consistency_has_a_secret_key_of_its_own():
    one, other = (sfumato.Sanitizer(TEM, consistency="dataset") for _ in range(2))
    text = " ".join(WORDS)
    assert one(text).text == one(text).text != other(text).text
    assert one.guarantee.secure
    assert not sfumato.Sanitizer(TEM, consistency="dataset", key=KEY).guarantee.secure


@pytest.mark.parametrize("consistency", ["token", "record"])
def test_a_key_for_all_calls_is_refused_where_it_would_repeat_noise(consistency):
    with pytest.raises(ParameterError, match="first_record"):
        sfumato.Sanitizer(TEM, consistency=consistency, key=KEY)


def test_the_loss_of_sharing_draws_is_said():
    token = sfumato.Sanitizer(TEM).guarantee.statement()
    assert "infinite" not in token
    for consistency in ("record", "dataset"):
        statement = sfumato.Sanitizer(TEM, consistency=consistency).guarantee.statement()
        assert "infinite" in statement
        assert "once for every distinct word" in statement
        assert "are equal words" in statement
    with pytest.raises(ParameterError, match="consistency"):
        sfumato.Sanitizer(TEM, consistency="document")


def test_what_adds_up_over_a_document_is_said_for_the_versions_it_is_true_of():
    """Shared draws, unknown words and digits each take versions of a text out of the plain sum over words."""
    from sfumato.accounting.documents import document_composition
    from sfumato.mechanism.digits import digits

    def said(**options):
        return document_composition(sfumato.Sanitizer(TEM, **options).guarantee, 7).statement()

    assert "agree in everything that is listed as public" in said()
    assert "outside the vocabulary" in said()
    assert "equal words" not in said()
    assert "between others there is no bound" in said(consistency="record")
    assert "between others there is no bound" in said(consistency="dataset")
    assert "every digit in which two versions differ adds at most 0.5 more" in said(digits=digits(epsilon=0.5))
    assert "adds at most 4.5 more" in said(digits=digits(epsilon=0.5, kind="exponential"))
    composed = sfumato.Sanitizer(TEM, consistency="record").guarantee
    assert (composed + composed).document_notes == composed.document_notes


def test_memory_does_not_grow_with_the_data():
    import tracemalloc

    sanitizer = sfumato.Sanitizer(TEM, consistency="dataset", key=KEY)
    sanitizer.batch(["warm " + " ".join(WORDS)])  # rows of the vocabulary's words are kept, and are all there now
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for i in range(30):
        sanitizer.batch([f"unknown{i}x{j} w{j % 50}" for j in range(100)])
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 20_000  # 3,000 distinct unknown words would be more if they were kept


def test_a_public_length_hides_the_length_and_the_layout():
    sanitizer = sfumato.Sanitizer(TEM, public_length=6)
    for text in ("", "w1", "w1, w2 (Smith) w3... w4 w5 w6 w7 w8!"):
        out = sanitizer(text, KEY).text
        assert len(out.split(" ")) == 6
        assert set(words_of(out.lower())) <= set(WORDS)
    statement = sanitizer.guarantee.statement()
    assert "exactly 6 words of the vocabulary" in statement
    assert "may hold spaces" in statement
    assert "punctuation" not in statement
    with pytest.raises(ParameterError, match="public_length"):
        sfumato.Sanitizer(TEM, public_length=0)


def test_a_public_length_counts_words_of_the_vocabulary_which_may_hold_spaces():
    space = Space.from_arrays(["new york", "los angeles"], [[0.0], [1.0]])
    sanitizer = sfumato.Sanitizer(sfumato.compile("tem", space, epsilon=1.0), public_length=3)
    out = sanitizer("york").text
    assert out.count("new york") + out.count("los angeles") == 3
    assert len(out.split(" ")) == 6


@pytest.mark.parametrize("consistency", ["record", "dataset"])
def test_padding_does_not_show_by_equal_words(consistency):
    out = sfumato.Sanitizer(TEM, public_length=40, consistency=consistency)("w1", KEY).text.split()
    assert len(set(out)) > 10


@pytest.mark.parametrize("oov", ["mask", "keep"])
def test_padding_is_drawn_whatever_becomes_of_unknown_words(oov):
    out = sfumato.Sanitizer(TEM, public_length=5, oov=oov)("w1", KEY).text.split(" ")
    assert set(out) <= set(WORDS)


def test_numbers_go_digit_by_digit_where_asked():
    sanitizer = sfumato.Sanitizer(TEM, digits=Shift())
    batch = sanitizer.batch(["pin 4711, w1 and 12"], key=KEY)
    shown = words_of(batch.texts[0])
    assert shown[1].isdecimal()
    assert len(shown[1]) == 4
    assert shown[1] != "4711"
    assert batch.counts.out_of_vocabulary == 2  # "pin" and "and"
    assert "digit by digit" in batch.guarantee.statement()
    assert "how many digits" in batch.guarantee.statement()


def test_equal_numbers_follow_the_consistency():
    for consistency, equal in (("token", False), ("record", True), ("dataset", True)):
        sanitizer = sfumato.Sanitizer(TEM, digits=Shift(), consistency=consistency)
        one, other = sanitizer("123456789 123456789", KEY).text.split()
        assert (one == other) is equal


def test_no_digit_passes_in_a_mixed_token_even_where_unknown_words_are_kept():
    from sfumato.mechanism.digits import digits

    sanitizer = sfumato.Sanitizer(TEM, digits=digits(epsilon=1.0), oov="keep")
    for seed in range(20):
        out = sanitizer("plate A12B77 of Smith", RunKey.from_seed(seed)).text
        assert "Smith" in out
        assert "A12B77" not in out
        assert not set("①②¹²³Ⅷ½") & set(sanitizer("pin ①② ¹²³ Ⅷ ½", RunKey.from_seed(seed)).text)


def test_with_a_digit_mechanism_no_word_mechanism_sees_a_number_however_it_is_written():
    """Numbers of the vocabulary are near one another, and a word mechanism would often let them pass."""
    from sfumato.mechanism.digits import digits

    numbers = [str(number) for number in range(20)]
    space = Space.from_arrays(numbers, np.arange(20.0)[:, None])
    sure = sfumato.compile("tem", space, epsilon=500.0)
    assert sfumato.Sanitizer(sure)("12 ①② ¹²").text == "12 12 12"
    sanitizer = sfumato.Sanitizer(sure, digits=digits(epsilon=0.01))
    batch = sanitizer.batch(["①② ¹² 12"] * 300, key=KEY)
    assert batch.counts.out_of_vocabulary == 600
    for place in range(3):
        assert sum(text.split()[place] == "12" for text in batch.texts) < 60
    assert list(batch.guarantee.public).count("which tokens are numbers, and how many digits each has") == 1


def test_identifiers_are_replaced_first_where_asked():
    from sfumato.sanitize.identifiers import IdentifierReplacer

    sanitizer = sfumato.Sanitizer(TEM, identifiers=IdentifierReplacer(), oov="mask")
    batch = sanitizer.batch(["w1 bob.smith@mail.org w2", "none here"], key=KEY)
    assert "smith" not in batch.texts[0]
    assert "@" in batch.texts[0]
    assert batch.texts[1] == "[MASK] [MASK]"
    assert sanitizer("none", KEY).guarantee.statement() != sfumato.Sanitizer(TEM, oov="mask").guarantee.statement()
    alone = sanitizer.batch(["w1 bob.smith@mail.org w2"], key=KEY).texts
    assert alone[0] == batch.texts[0]
