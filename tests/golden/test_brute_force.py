"""Certificates against a loop over all pairs of words and all outputs, in exact rationals and logarithms of 40 digits.

Of the library nothing is believed but the integers of the rows: distances, ratios and maxima are computed anew here.
"""

from fractions import Fraction
from itertools import permutations

import mpmath
import numpy as np
import pytest

import sfumato
from sfumato.mechanism.digits import digits
from sfumato.space import Space

DIGITS_OF_LOGARITHMS = 40
DYADIC = 2.0**-10
"""Vectors in steps of this have distances that are the same with and without the library's own grid."""


def words(count):
    return [f"w{i}" for i in range(count)]


def cloud(count, dimension, seed):
    return np.round(np.random.default_rng(seed).normal(size=(count, dimension)) / DYADIC) * DYADIC


SPACES = {
    "line": Space.from_arrays(list("abcde"), [[0.0], [1.0], [2.0], [3.0], [4.0]]),
    "cloud": Space.from_arrays(words(12), cloud(12, 3, 5)),
    "whole numbers": Space.from_arrays(words(11), np.random.default_rng(6).integers(-4, 5, (11, 6)).astype(np.int8), scale=0.25),
    "equal vectors": Space.from_arrays(words(12), np.vstack([cloud(6, 2, 7)] * 2)),
}  # fmt: skip
TUNINGS = ("published", "calibrated", "tight", "filled", "floored", "best")


def distance(space, one, other):
    """The straight-line distance of two words, from their vectors as they were given."""
    rows = [[Fraction(float(part)) for part in space.vectors[place]] for place in (one, other)]
    squared = sum((a - b) ** 2 for a, b in zip(*rows, strict=True))
    return mpmath.sqrt(mpmath.mpf(squared.numerator) / squared.denominator) * mpmath.mpf(space.scale)


def chances(mechanism):
    """The exact probability of every output of every input word."""
    rows = {}
    for place in mechanism.inputs.tolist():
        row = mechanism.row(mechanism.space.words[place])
        total = sum(map(int, row.weights))
        rows[place] = {}
        for cell, weight in zip(row.cells.tolist(), row.weights.tolist(), strict=True):
            rows[place][cell] = rows[place].get(cell, Fraction(0)) + Fraction(int(weight), total)
    return rows


def logarithm(ratio):
    return mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)


def losses(rows, one, other, outputs=None):
    """ln P(y|one) / P(y|other) of every output y that one of two words can have."""
    found = []
    for output in rows[one].keys() | rows[other].keys():
        if outputs is not None and output not in outputs:
            continue
        above, below = rows[one].get(output, 0), rows[other].get(output, 0)
        if above:
            found.append(logarithm(above / below) if below else mpmath.inf)
    return found


def realised(mechanism, outputs=None, allowance=lambda one, other: 0):
    """The least epsilon for which epsilon x min(distance, radius), with an allowance, bounds every loss."""
    rows, space, worst = chances(mechanism), mechanism.space, mpmath.mpf(0)
    for one, other in permutations(rows, 2):
        charge = min(distance(space, one, other), mpmath.mpf(mechanism.guarantee.radius))
        excess = max(losses(rows, one, other, outputs), default=mpmath.mpf(0)) - allowance(one, other)
        if excess > 0:
            worst = max(worst, excess / charge if charge else mpmath.inf)
    return worst


def refused(space, epsilon, tuning):
    """Whether K w = 1, solved in 40 digits, has a solution that is not positive: then there is no tight mechanism."""
    matrix = mpmath.matrix(len(space), len(space))
    for i in range(len(space)):
        for j in range(len(space)):
            matrix[i, j] = mpmath.exp(-epsilon * distance(space, i, j))
    return tuning == "tight" and min(mpmath.lu_solve(matrix, mpmath.ones(len(space), 1))) < 1e-6


@pytest.fixture(autouse=True)
def many_digits():
    with mpmath.workdps(DIGITS_OF_LOGARITHMS):
        yield


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("tuning", TUNINGS)
@pytest.mark.parametrize(("epsilon", "gamma"), [(0.7, None), (2.5, None), (2.5, 1.0)])
def test_tem(name, tuning, epsilon, gamma):
    space = SPACES[name]
    try:
        mechanism = sfumato.compile("tem", space, epsilon=epsilon, gamma=gamma, tuning=tuning)
    except sfumato.SfumatoError:
        assert gamma is not None or name == "equal vectors" or refused(space, epsilon, tuning)
        assert tuning == "tight"
        return
    found = realised(mechanism)
    certified = mechanism.guarantee.certified
    assert found <= certified <= epsilon
    assert certified == pytest.approx(float(found), abs=3e-6)
    result = sfumato.verify(mechanism)
    assert result.realised == pytest.approx(float(found), rel=1e-12)
    assert found <= result.bound < found + 1e-9


@pytest.mark.parametrize("tuning", TUNINGS)
def test_santext(tuning):
    mechanism = sfumato.compile("santext", SPACES["cloud"], epsilon=4.0, tuning=tuning)
    found = realised(mechanism)
    assert found <= mechanism.guarantee.certified <= 4
    assert mechanism.guarantee.certified == pytest.approx(float(found), abs=3e-6)
    assert sfumato.verify(mechanism).realised == pytest.approx(float(found), rel=1e-12)


@pytest.mark.parametrize("name", ["line", "cloud", "whole numbers"])
@pytest.mark.parametrize("gamma", [1.5, 100.0])
def test_the_published_form_is_the_formula(name, gamma):
    """P(y|x) proportional to exp(-epsilon/2 min(d, gamma)) in real numbers, and what it realises."""
    space, epsilon = SPACES[name], 1.7
    count = len(space)
    charged = [[min(distance(space, i, j), mpmath.mpf(gamma)) for j in range(count)] for i in range(count)]
    kernel = [[mpmath.exp(-epsilon * d / 2) for d in row] for row in charged]
    exact = [[weight / mpmath.fsum(row) for weight in row] for row in kernel]
    worst = max(
        mpmath.log(exact[x][y] / exact[other][y]) / charged[x][other]
        for x, other in permutations(range(count), 2)
        for y in range(count)
    )
    mechanism = sfumato.compile("tem", space, epsilon=epsilon, gamma=gamma, tuning="published")
    assert mechanism.guarantee.certified == pytest.approx(float(worst), abs=3e-6)
    for x in range(count):
        assert mechanism.row(space.words[x]).probabilities == pytest.approx([float(p) for p in exact[x]], rel=1e-6)


@pytest.mark.parametrize("name", ["cloud", "whole numbers"])
@pytest.mark.parametrize("tuning", ["published", "calibrated", "best"])
def test_the_bounded_range_that_documents_are_accounted_with(name, tuning):
    """Over all outputs the log-ratio of two words varies by at most the stated range times their distance."""
    mechanism = sfumato.compile("tem", SPACES[name], epsilon=2.0, tuning=tuning)
    rows, ranges = chances(mechanism), []
    for one, other in permutations(rows, 2):
        found = losses(rows, one, other)
        ranges.append((max(found) - min(found)) / distance(mechanism.space, one, other))
    assert max(ranges) <= mechanism.guarantee.bounded_range
    assert max(ranges) > 0.99 * mechanism.guarantee.bounded_range


@pytest.mark.parametrize("mapping", ["conservative", "balanced", "aggressive"])
@pytest.mark.parametrize("tuning", ["published", "calibrated", "lp"])
@pytest.mark.parametrize("global_mix", [None, 0.1])
def test_custext(mapping, tuning, global_mix):
    space, epsilon = SPACES["cloud"], 1.3
    mechanism = sfumato.compile(
        "custext", space, epsilon=epsilon, k=4, mapping=mapping, tuning=tuning, global_mix=global_mix
    )
    rows, groups = chances(mechanism), mechanism.group_numbers.tolist()
    inside, between = mpmath.mpf(0), mpmath.mpf(0)
    for one, other in permutations(rows, 2):
        worst = max(losses(rows, one, other))
        if groups[one] == groups[other]:
            inside = max(inside, worst)
            assert rows[one].keys() == rows[other].keys()
        between = max(between, worst)
    guarantee, result = mechanism.guarantee, sfumato.verify(mechanism)
    assert inside <= guarantee.certified <= epsilon
    assert result.realised == pytest.approx(float(inside), rel=1e-12, abs=1e-15)
    if tuning != "lp":
        assert guarantee.certified == pytest.approx(float(inside), abs=3e-6)
    assert between <= guarantee.global_epsilon
    if global_mix is not None:
        assert result.global_bound == pytest.approx(float(between), rel=1e-12)


@pytest.mark.parametrize("tuning", ["published", "calibrated", "best"])
@pytest.mark.parametrize("p", [0.05, 0.3])
def test_santext_plus(tuning, p):
    mechanism = sfumato.compile(
        "santext-plus", SPACES["cloud"], epsilon=1.5, p=p, protected=words(12)[:12:2], tuning=tuning
    )
    outputs = set(mechanism.outputs.tolist())
    extra = -mpmath.log1p(-mpmath.mpf(mechanism.guarantee.keep_probability))

    def allowance(one, other):
        return extra if (one in outputs) != (other in outputs) else mpmath.mpf(0)

    found = realised(mechanism, outputs, allowance)
    # The certificate looks at all pairs as if each word were an output too, so it is not reached.
    assert 0.5 < found <= mechanism.guarantee.certified <= 1.5
    assert sfumato.verify(mechanism).realised == pytest.approx(float(found), rel=1e-12)
    rows = chances(mechanism)
    for place, row in rows.items():
        kept = row.get(place, Fraction(0)) if place not in outputs else 0
        assert kept <= Fraction(mechanism.guarantee.keep_probability)


@pytest.mark.parametrize("kind", ["uniform", "exponential"])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 6.0])
def test_digits(kind, epsilon):
    mechanism = digits(epsilon=epsilon, kind=kind)
    rows = chances(mechanism)
    steps = {(x, y): abs(x - y) if kind == "exponential" else 1 for x, y in permutations(rows, 2)}
    worst = max(max(losses(rows, *pair)) / step for pair, step in steps.items())
    assert worst <= mechanism.guarantee.certified <= epsilon
    assert mechanism.guarantee.certified == pytest.approx(float(worst), abs=3e-6)
