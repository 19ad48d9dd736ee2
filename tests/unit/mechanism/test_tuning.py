"""Tunings at the edges of floating point: what they certify is true there too, or they refuse."""

import math
from fractions import Fraction

import numpy as np
import pytest

import sfumato
from sfumato.foundation.errors import CertificationError
from sfumato.mechanism.exponential import santext, tem
from sfumato.mechanism.kernel import LEAST_SUM
from sfumato.mechanism.santext_plus import santext_plus
from sfumato.mechanism.tuning import TUNINGS
from sfumato.space import Space

FAR = [
    7.426113262554062,
    7.425526580427208,
    -0.019206393657303485,
    -0.01386694689995904,
    0.0275534591390,
    -0.0193495960751,
]
"""Two inputs so far from four outputs that at epsilon 200 the sums of their rows are subnormal numbers."""


def on_a_line(places):
    return Space.from_arrays([f"w{i}" for i in range(len(places))], np.array(places, dtype=float)[:, None])


def realised(mechanism):
    """The greatest loss per charged distance, from fractions of the integers that run."""
    ids = mechanism.inputs
    rows = [
        [Fraction(int(w), total) for w in row]
        for row, total in ((row, int(row.sum(dtype=object))) for row in mechanism.weights(ids).astype(object))
    ]
    space, radius, worst = mechanism.space, mechanism.guarantee.radius, 0.0
    for one, here in enumerate(rows):
        for other, there in enumerate(rows):
            if one != other:
                loss = max(math.log(a / b) for a, b in zip(here, there, strict=True))
                worst = max(worst, loss / min(float(space.distances(ids[[one]], ids[[other]])[0, 0]), radius))
    return worst


@pytest.mark.parametrize("tuning", TUNINGS)
def test_rows_of_subnormal_numbers_are_not_certified(tuning):
    space = on_a_line(FAR)
    try:
        mechanism = santext(space, epsilon=200.0, tuning=tuning, inputs=space.words[:2], outputs=space.words[2:])
    except CertificationError:
        return
    assert realised(mechanism) <= mechanism.guarantee.certified <= 200.0
    assert sfumato.verify(mechanism).passed


@pytest.mark.parametrize("tuning", TUNINGS)
def test_santext_plus_does_not_either(tuning):
    space = on_a_line(FAR)
    try:
        mechanism = santext_plus(space, epsilon=200.0, p=0.3, tuning=tuning, protected=space.words[2:])
    except CertificationError:
        return
    assert sfumato.verify(mechanism).passed


def test_the_theorem_alone_does_not_certify_rows_that_may_underflow(monkeypatch):
    space = on_a_line(FAR)
    object.__setattr__(space.statistics, "exact", False)
    with pytest.raises(CertificationError, match="underflows"):
        santext(space, epsilon=200.0, tuning="published", inputs=space.words[:2], outputs=space.words[2:])
    assert math.exp(-100 * 7.4) < LEAST_SUM


@pytest.mark.parametrize(
    ("places", "epsilon", "outputs"),
    [([0, 1, 2, 3, 4], 1.0, ["w2"]), ([0, 1, 2, 3, 4], 1e-6, None), ([0, 1e-6, 1, 2], 1.0, None)],
)
@pytest.mark.parametrize("tuning", TUNINGS)
def test_no_tuning_certifies_more_than_epsilon(places, epsilon, outputs, tuning):
    space = on_a_line(places)
    try:
        mechanism = tem(space, epsilon=epsilon, tuning=tuning, outputs=outputs)
    except CertificationError:
        assert tuning != "published"
        return
    assert mechanism.guarantee.certified <= epsilon
    assert sfumato.verify(mechanism).passed


@pytest.mark.parametrize("epsilon", [2e-5, 3e-4, 0.1])
def test_published_leaves_room_for_the_sums_where_all_outputs_lie_on_one_side(epsilon):
    space = on_a_line([0, 0.01, 1])
    mechanism = santext(space, epsilon=epsilon, tuning="published", inputs=["w0", "w1"], outputs=["w2"])
    assert mechanism.guarantee.certified <= epsilon


def test_filled_certifies_at_a_great_epsilon_too():
    assert tem(on_a_line([0, 1e6]), epsilon=75.0, tuning="filled").guarantee.certified <= 75.0


@pytest.mark.parametrize("tuning", TUNINGS)
@pytest.mark.parametrize(("places", "epsilon"), [([0, 1, 2, 3, 4], 1e-9), ([0, 1e-7, 1, 2], 0.01)])
def test_what_rounding_alone_uses_up_is_refused(places, epsilon, tuning):
    with pytest.raises(CertificationError, match=r"too close|no positive solution"):
        tem(on_a_line(places), epsilon=epsilon, tuning=tuning)


def test_best_goes_on_where_one_way_underflows():
    space = on_a_line([5.0, 5.003, 5.3, 0.0, -0.3, -0.6])
    mechanism = santext(space, epsilon=200.0, tuning="best", inputs=space.words[:3], outputs=space.words[3:])
    assert mechanism.guarantee.certified <= 200.0
    assert sfumato.verify(mechanism).passed


@pytest.mark.parametrize("tuning", TUNINGS)
def test_a_metric_that_does_not_tell_words_apart_is_refused(tuning):
    def first_component(one, other):
        return np.abs(one[:, None, 0] - other[None, :, 0])

    vectors = np.array([[0.0, 1.0], [0.0, 2.0], [1.0, 0.0]])
    space = Space.from_arrays(list("abc"), vectors, metric=first_component)
    with pytest.raises(CertificationError, match="at distance 0"):
        tem(space, epsilon=1.0, tuning=tuning)
    with pytest.raises(CertificationError, match="at distance 0"):
        santext_plus(space, epsilon=1.0, tuning=tuning)
