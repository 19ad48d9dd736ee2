import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from decimal import Context, Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato
from sfumato.foundation.errors import ParameterError
from sfumato.foundation.guarantee import MetricGuarantee, PureGuarantee
from sfumato.foundation.randomness import RunKey, SystemSource
from sfumato.mechanism.digits import KINDS, digit_count, digits, is_number

EXACT = Context(prec=50)
EPSILONS = (1e-6, 0.01, 0.5, 1.0, 3.0, 10.0, 40.0)
ZEROS = [ord("0"), 0x660, 0x6F0, 0x966, 0xE50, 0xFF10, 0x1D7CE]
CASES = pytest.mark.parametrize(("kind", "epsilon"), list(product(KINDS, EPSILONS)))
NUMBERS = st.lists(
    st.text(alphabet=[chr(zero + digit) for zero in ZEROS for digit in range(10)], min_size=1, max_size=12), max_size=8
)


def logarithm(ratio):
    return EXACT.ln(EXACT.divide(Decimal(ratio.numerator), Decimal(ratio.denominator)))


class Counting:
    """A source that counts how often it is asked."""

    secure = True

    def __init__(self):
        self.inner, self.asked = RunKey.from_seed(1).record(0), []

    def uint64(self, count, each=1):
        self.asked.append(count * each)
        return self.inner.uint64(count, each)

    def again(self, positions, attempt):
        return self.inner.again(positions, attempt)


@CASES
def test_every_exact_ratio_is_within_the_guarantee(kind, epsilon):
    mechanism = digits(epsilon=epsilon, kind=kind)
    rows = [mechanism.row(digit) for digit in range(10)]
    assert all(sum(row.weights.tolist()) == row.total for row in rows)
    certified = Decimal(mechanism.guarantee.certified)
    assert certified <= Decimal(epsilon)
    for a, b in product(range(10), repeat=2):
        charge = abs(a - b) if kind == "exponential" else 1
        if a != b:
            for output in range(10):
                loss = logarithm(rows[a].probability(output) / rows[b].probability(output))
                assert loss <= certified * charge
    assert sfumato.verify(mechanism).passed


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 3.0, 10.0])
def test_the_uniform_kind_is_randomised_response(epsilon):
    row = digits(epsilon=epsilon).row("4")
    stays = math.exp(epsilon) / (math.exp(epsilon) + 9)
    assert float(row.probability(4)) == pytest.approx(stays, rel=2e-9 * max(epsilon, 1))
    assert {row.probability(other) for other in range(10) if other != 4} == {row.probability(0)}
    assert digits(epsilon=epsilon).guarantee.certified == pytest.approx(epsilon, rel=2e-9)


def test_the_exponential_kind_prefers_near_digits():
    row = digits(epsilon=1.0, kind="exponential").row(3)
    assert [row.probability(3 + step) > row.probability(4 + step) for step in range(6)] == [True] * 6
    assert float(row.probability(4)) == pytest.approx(float(row.probability(2)), rel=1e-12)
    # The tight mechanism on a line: weights tanh(epsilon / 2) inside, 1 / (1 + exp(-epsilon)) at the ends.
    assert float(row.probability(3)) == pytest.approx(math.tanh(0.5), abs=1e-6)
    assert float(digits(epsilon=1.0, kind="exponential").row(0).probability(0)) == pytest.approx(
        0.731058578630, abs=1e-6
    )


def test_a_large_epsilon_promises_no_more_than_integers_can_keep():
    mechanism = digits(epsilon=1000.0)
    assert mechanism.guarantee.certified < 27
    assert sfumato.verify(mechanism).passed
    assert mechanism.row(1).probability(1) > 1 - Fraction(1, 10**10)


def test_the_guarantee_says_what_it_is_about():
    uniform, near = digits(epsilon=1.0).guarantee, digits(epsilon=1.0, kind="exponential").guarantee
    assert isinstance(uniform, PureGuarantee)
    assert isinstance(near, MetricGuarantee)
    for guarantee in (uniform, near):
        assert guarantee.sound
        assert guarantee.arithmetic == "integer"
        assert "one digit" in guarantee.neighbours
        assert "which tokens are numbers, and how many digits each has" in guarantee.statement()
        assert "a number of n digits is n releases" in guarantee.statement()
    assert "script" not in uniform.statement()
    assert "script" in digits(epsilon=1.0, keep_script=True).guarantee.statement()
    assert uniform.repeated(6).epsilon == 6.0


@given(NUMBERS)
def test_lengths_stay_and_the_source_is_asked_once_for_all_digits(numbers):
    source = Counting()
    mechanism = digits(epsilon=0.5)
    replaced = mechanism.replace(numbers, source)
    assert [len(number) for number in replaced] == [len(number) for number in numbers]
    assert all(number.isascii() and is_number(number) for number in replaced)
    assert source.asked in ([], [sum(map(mechanism.digit_count, numbers))])


def test_one_number_after_the_other_gets_what_all_together_get():
    numbers = ["1990", "٣٤", "007", "5"]
    mechanism = digits(epsilon=0.5)
    together = mechanism.replace(numbers, RunKey.from_seed(3).record(0))
    stream = RunKey.from_seed(3).record(0)
    assert [mechanism.replace([number], stream)[0] for number in numbers] == together
    assert mechanism.replace(numbers, RunKey.from_seed(4).record(0)) != together


def test_at_a_large_epsilon_numbers_come_back():
    still = digits(epsilon=30.0)
    assert still.replace(["1990", "٣٤"], SystemSource()) == ["1990", "34"]
    scripted = digits(epsilon=30.0, keep_script=True)
    assert scripted.replace(["1990", "٣٤", "3٤", "०१"], SystemSource()) == ["1990", "٣٤", "34", "०१"]


def test_the_mix_of_scripts_in_a_number_does_not_come_out():
    """Two scripts could spell a secret, one bit for each digit."""
    mechanism = digits(epsilon=0.5, keep_script=True)
    for number in ("1２3４", "１2３4"):
        assert mechanism.replace([number], RunKey.from_seed(1).record(0))[0].isascii()


def test_draws_follow_the_row():
    """20,000 draws of each digit; by Hoeffding and a union bound over 100 counts a failure has chance 1e-6."""
    mechanism = digits(epsilon=1.0)
    drawn = mechanism.replace(["0123456789" * 20_000], RunKey.from_seed(8).record(0))[0]
    table = np.array([int(digit) for digit in drawn]).reshape(20_000, 10)
    allowed = math.sqrt(math.log(2 * 100 / 1e-6) / (2 * 20_000))
    for digit in range(10):
        shares = np.bincount(table[:, digit], minlength=10) / 20_000
        assert np.abs(shares - mechanism.row(digit).probabilities).max() < allowed


@pytest.mark.parametrize("token", ["A12B", "12a", "½", "Ⅷ", "²", "①", "", "seven", "-1", "1 2"])
def test_what_is_no_number_is_left_to_the_word_mechanism(token):
    assert not is_number(token)
    with pytest.raises(ParameterError, match="token 1 of 2") as caught:
        digits(epsilon=1.0).replace(["1990", token], SystemSource())
    assert not token or token not in str(caught.value).replace("token 1 of 2", "")


@given(st.text(max_size=30))
def test_digits_are_counted_in_every_script(token):
    assert digit_count(token) == sum(c.isdecimal() for c in token)
    assert is_number(token) == (len(token) > 0 and digit_count(token) == len(token))


@pytest.mark.parametrize(
    "options",
    [{"epsilon": e} for e in (0, -1, math.nan, math.inf, None, "1")]
    + [{"epsilon": 1.0, "kind": "near"}, {"epsilon": 1.0, "kind": "exponential", "tuning": "x"}],
)
def test_wrong_options_are_refused(options):
    with pytest.raises(ParameterError):
        digits(**options)


def test_it_travels_and_is_shared_by_threads():
    mechanism = digits(epsilon=0.7, kind="exponential")
    travelled = pickle.loads(pickle.dumps(mechanism))
    numbers = [str(number) for number in range(500)]

    def run(made):
        return made.replace(numbers, RunKey.from_seed(5).record(0))

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(run, [mechanism, travelled] * 8))
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize("epsilon", [1e-13, 3e-13, 1e-12, 1e-9, 1e-6, 1e-5, 1e-4, 2e-4, 1e-3, 0.1])
def test_a_right_table_passes_at_the_smallest_epsilons_too(epsilon):
    mechanism = digits(epsilon=epsilon)
    assert sfumato.verify(mechanism).passed
    row = mechanism.row(3)
    loss = logarithm(row.probability(3) / row.probability(4))
    assert loss <= Decimal(mechanism.guarantee.certified) <= Decimal(epsilon)
    assert mechanism.guarantee.certified >= epsilon * (1 - 2e-9) - 3e-13
