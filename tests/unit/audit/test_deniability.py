import numpy as np
import pytest

import sfumato
from sfumato.audit import compare, deniability
from sfumato.foundation.errors import ParameterError
from sfumato.foundation.guarantee import NoGuarantee
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism.table import DenseTable
from sfumato.space import Space

SPACE = Space.from_arrays(["a", "b", "c", "d"], [[0.0], [1.0], [2.0], [4.0]])
TABLE = np.array([[8, 4, 2, 2], [0, 16, 0, 0], [4, 4, 4, 4], [15, 0, 0, 1]]) / 16
MECHANISM = DenseTable.from_probabilities(SPACE, TABLE, NoGuarantee(mechanism="example"))


class WithoutTable:
    """The same mechanism, of which only draws are known."""

    space, guarantee, inputs = SPACE, MECHANISM.guarantee, MECHANISM.inputs

    def sample(self, ids, source):
        return MECHANISM.sample(ids, source)


@pytest.mark.parametrize(
    ("word", "unchanged", "spread", "distance"),
    [(0, 0.5, 4, (4 + 4 + 8) / 16), (1, 1.0, 1, 0.0), (2, 0.25, 4, (8 + 4 + 0 + 8) / 16), (3, 1 / 16, 2, 3.75)],
)
def test_figures_of_a_word(word, unchanged, spread, distance):
    exact = deniability(MECHANISM, ids=np.array([word]))
    assert exact.exact
    assert (exact.unchanged, exact.distance) == (pytest.approx(unchanged, abs=1e-9), pytest.approx(distance, abs=1e-9))
    assert exact.spread == spread
    # 20,000 draws: five standard errors of a share are below 0.018, of the mean distance below 0.06.
    drawn = deniability(WithoutTable(), ids=np.array([word]), draws=20_000)
    assert not drawn.exact
    assert drawn.unchanged == pytest.approx(unchanged, abs=0.018)
    assert drawn.distance == pytest.approx(distance, abs=0.06)
    assert drawn.spread == spread
    assert (exact.draws, drawn.draws) == (None, 20_000)
    assert (exact.spread_is_lower_bound, drawn.spread_is_lower_bound) == (False, True)


def test_means_over_words_are_repeatable():
    assert deniability(MECHANISM) == deniability(MECHANISM)
    assert deniability(MECHANISM).unchanged == pytest.approx((0.5 + 1 + 0.25 + 1 / 16) / 4)
    with pytest.raises(ParameterError, match="words"):
        deniability(MECHANISM, words=0)


def test_comparing_sets_texts_and_figures_side_by_side():
    loose = sfumato.compile("tem", SPACE, epsilon=50.0)
    tight = sfumato.compile("tem", SPACE, epsilon=0.01)
    one, other = compare("a, b: d!", [("loose", loose), ("tight", tight)], key=RunKey.from_seed(0))
    assert one.text == "a, b: d!"
    assert one.deniability.unchanged > 0.99 > 0.5 > other.deniability.unchanged
    assert one.certified <= 50
    assert set(other.to_json()) >= {"name", "text", "certified", "unchanged", "spread", "distance", "sound"}
    assert compare("a", [("example", MECHANISM)])[0].certified is None


def test_a_spread_from_draws_is_said_to_be_a_lower_bound():
    """Of 500 words that share the probability, 60 draws can show 60."""
    space = Space.from_arrays([f"w{i}" for i in range(500)], np.random.default_rng(0).normal(size=(500, 5)))
    wide = sfumato.compile("laplace", space, epsilon=1e-3)
    figures = deniability(wide, words=2, draws=60)
    assert figures.spread <= 60
    data = figures.to_json()
    assert data["spread_is_lower_bound"]
    assert data["draws"] == 60
    assert not deniability(sfumato.compile("tem", space, epsilon=1.0), words=2).to_json()["spread_is_lower_bound"]


def test_what_is_not_certified_is_not_a_number():
    space = Space.from_arrays(list("abcd"), [[0.0], [1.0], [2.0], [4.0]])
    (one,) = compare("a", [("gumbel", sfumato.compile("truncated-gumbel", space, epsilon=50.0))])
    assert one.certified is None
