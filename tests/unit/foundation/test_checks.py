import math

import numpy as np
import pytest

from sfumato.foundation.checks import (
    gather,
    require_count,
    require_epsilon,
    require_non_negative,
    require_one_of,
    require_positive,
    require_probability,
    require_share,
)
from sfumato.foundation.errors import ParameterError, SfumatoError

BAD_NUMBERS = [math.nan, math.inf, -math.inf, None, "3", [1], True]


@pytest.mark.parametrize("bad", [*BAD_NUMBERS, 0, -1])
def test_not_positive(bad):
    with pytest.raises(ParameterError, match="epsilon"):
        require_positive(epsilon=bad)


@pytest.mark.parametrize("bad", [*BAD_NUMBERS, 0, -1, 1e7])
def test_not_an_epsilon(bad):
    with pytest.raises(ParameterError, match="epsilon"):
        require_epsilon(epsilon=bad)


@pytest.mark.parametrize(
    ("check", "bad"),
    [
        (require_non_negative, -1e-9),
        (require_probability, 0),
        (require_probability, 1),
        (require_share, 1.01),
        (require_count, 1.5),
        (require_count, 0),
        (require_share, math.nan),
    ],
)
def test_outside_the_domain(check, bad):
    with pytest.raises(ParameterError, match="value"):
        check(value=bad)


def test_good_values_pass():
    require_positive(a=1e-9, b=np.float32(2))
    require_epsilon(epsilon=1e6)
    require_non_negative(a=0)
    require_probability(a=0.5)
    require_share(a=0, b=1)
    require_count(a=1, b=np.int64(3))
    require_one_of(("x", "y"), option="x")


def test_all_problems_are_named_at_once():
    with pytest.raises(ParameterError) as caught:
        gather(lambda: require_positive(a=0, b=-1), lambda: require_one_of(("x",), c="z"))
    assert all(name in str(caught.value) for name in ("a must", "b must", "c must"))
    assert isinstance(caught.value, SfumatoError)
    assert isinstance(caught.value, ValueError)


def test_a_text_given_for_a_number_is_not_echoed():
    with pytest.raises(ParameterError) as caught:
        require_positive(epsilon="patient Smith")
    assert "Smith" not in str(caught.value)


def test_a_long_text_given_for_a_choice_is_not_echoed():
    with pytest.raises(ParameterError) as caught:
        require_one_of(("x",), option="The patient named Smith was seen on Monday in the clinic")
    assert "Smith" not in str(caught.value)
