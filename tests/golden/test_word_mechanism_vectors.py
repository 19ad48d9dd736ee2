"""Figures computed independently (mpmath, 30 digits) for CusText, its tunings and the truncated Gumbel mechanism."""

import math

import pytest

import sfumato
from sfumato.mechanism.custext import custext
from sfumato.mechanism.gumbel import least_epsilon, truncated_gumbel
from sfumato.mechanism.integers import rounding_loss
from sfumato.mechanism.santext_plus import santext_plus
from sfumato.space import Space

GROUP = Space.from_arrays(list("abcd"), [[0.0], [1.0], [2.0], [3.0]])
LINE = Space.from_arrays(list("abcde"), [[0.0], [1.0], [2.0], [3.0], [4.0]])
INTEGER_STEP = rounding_loss(5)


def test_custext_in_one_group():
    mechanism = custext(GROUP, epsilon=1.0, k=4)
    first = [0.315502828222, 0.267067378241, 0.226067654995, 0.191362138542]
    second = [0.246134082738, 0.316042418148, 0.246134082738, 0.191689416377]
    assert mechanism.row("a").probabilities == pytest.approx(first, rel=INTEGER_STEP)
    assert mechanism.row("b").probabilities == pytest.approx(second, rel=INTEGER_STEP)
    assert mechanism.guarantee.certified == pytest.approx(0.5, abs=INTEGER_STEP)
    assert sfumato.verify(mechanism).realised == pytest.approx(0.5, abs=INTEGER_STEP)


def test_custext_calibrated_in_one_group():
    """Here the calibrated rate is twice the published one: all of epsilon is used."""
    mechanism = custext(GROUP, epsilon=1.0, k=4, tuning="calibrated")
    first = [0.384936974173, 0.275819394593, 0.197633232289, 0.141610398945]
    assert mechanism.row("a").probabilities == pytest.approx(first, rel=1e-6)
    assert mechanism.guarantee.certified == pytest.approx(1.0, abs=1e-8)


def test_custext_with_the_least_expected_distance_in_one_group():
    """Every word becomes b or c: the nearer one with probability e / (1 + e)."""
    mechanism = custext(GROUP, epsilon=1.0, k=4, tuning="lp")
    near = math.e / (1 + math.e)
    for word, row in zip("abcd", ([near, 1 - near],) * 2 + ([1 - near, near],) * 2, strict=True):
        assert mechanism.row(word).probabilities == pytest.approx([0, *row, 0], abs=1e-6)


def test_custext_with_a_global_mix():
    mechanism = custext(GROUP, epsilon=1.0, k=2, global_mix=0.1)
    near = math.exp(0.5) / (1 + math.exp(0.5))
    expected = [0.9 * near + 0.025, 0.9 * (1 - near) + 0.025, 0.025, 0.025]
    assert mechanism.row("a").probabilities == pytest.approx(expected, rel=INTEGER_STEP)
    assert mechanism.guarantee.global_epsilon == pytest.approx(math.log(37), abs=INTEGER_STEP)


def test_santext_plus_on_a_line():
    mechanism = santext_plus(GROUP, epsilon=1.0, p=0.25, protected=["c", "d"])
    far, near = math.exp(-1.5), math.exp(-1.0)
    expected = [0.25 * near / (near + far), 0.25 * far / (near + far), 0.75]
    assert mechanism.row("a").probabilities == pytest.approx(expected, rel=1e-6)
    assert mechanism.row("c").probabilities == pytest.approx(
        [1 / (1 + math.exp(-0.5)), 1 / (1 + math.exp(0.5))], rel=1e-6
    )


@pytest.mark.parametrize(
    ("epsilon", "scale", "row"),
    [
        (9.0, 34.5708132272231, [0.72483631176693, 0.19409460225319, 0.06919324764162, 0.01085024729348, 0.00102559104478]),
        (100.0, 2.31685413671463, [0.74243014641682, 0.18208946270649, 0.06574970564144, 0.00902480593965, 0.00070587929559]),
    ],
)  # fmt: skip
def test_truncated_gumbel_on_a_line(epsilon, scale, row):
    mechanism = truncated_gumbel(LINE, epsilon=epsilon)
    assert mechanism.scale == pytest.approx(scale, rel=1e-12)
    found = mechanism.row("b")
    assert found.cells.tolist() == [1, 0, 2, 3, 4]
    assert found.probabilities == pytest.approx(row, rel=1e-7)


def test_least_epsilon_of_the_truncated_gumbel_noise():
    assert least_epsilon(LINE) == pytest.approx(5 + 2 * math.log(5), rel=1e-15)
