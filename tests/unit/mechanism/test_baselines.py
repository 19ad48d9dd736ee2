import numpy as np
import pytest
from scipy import stats

import sfumato
from sfumato.foundation.errors import CertificationError, ParameterError
from sfumato.foundation.randomness import RunKey, SystemSource
from sfumato.mechanism.base import UNKNOWN
from sfumato.mechanism.baselines import identity, random_replacement
from sfumato.space import Space

SPACE = Space.from_arrays([f"w{i}" for i in range(30)], np.arange(30.0)[:, None])
CONFIDENCE = 1e-6
"""Chance that a right sampler fails the chi-square test; the seed is fixed, so a pass stays a pass."""


def test_random_replacement_does_not_depend_on_the_word():
    mechanism = random_replacement(SPACE)
    source = RunKey.from_seed(0).record(0)
    drawn = mechanism.sample(np.zeros(90_000, dtype=int), source)
    assert stats.chisquare(np.bincount(drawn, minlength=30)).pvalue > CONFIDENCE
    for other in (np.full(90_000, 17), np.full(90_000, UNKNOWN)):
        assert np.array_equal(mechanism.sample(other, RunKey.from_seed(0).record(0)), drawn)
    assert mechanism.guarantee.epsilon == 0
    assert sfumato.verify(mechanism).bound == 0.0


def test_random_replacement_stays_within_its_outputs():
    mechanism = random_replacement(SPACE, inputs=["w1", "w2"], outputs=["w5", "w9"])
    assert set(mechanism.sample(np.arange(30), SystemSource()).tolist()) <= {5, 9}
    assert mechanism.row("w1").probability(9) == 0.5 == float(mechanism.row("w2").probability(5))
    with pytest.raises(ParameterError, match="inputs"):
        mechanism.row("w3")


def test_random_replacement_of_a_large_vocabulary_keeps_no_rows():
    space = Space.from_arrays([f"w{i}" for i in range(5000)], np.arange(5000.0)[:, None])
    mechanism = random_replacement(space)
    mechanism.sample(np.arange(5000), SystemSource())
    assert len(mechanism._store._rows.totals) == 0


def test_identity_leaves_words_and_still_replaces_unknown_ones():
    mechanism = identity(SPACE)
    ids = np.array([3, UNKNOWN, 7, 3])
    drawn = [mechanism.sample(ids, SystemSource()).tolist() for _ in range(40)]
    assert all(row[0] == row[3] == 3 and row[2] == 7 for row in drawn)
    assert len({row[1] for row in drawn}) > 1  # all equal has probability 30**-39
    assert "RELEASED AS IT IS" in mechanism.guarantee.statement()
    with pytest.raises(CertificationError, match="promises nothing"):
        sfumato.verify(mechanism)


@pytest.mark.parametrize("name", ["random", "identity"])
def test_they_take_no_epsilon(name):
    with pytest.raises(ParameterError, match="no option epsilon"):
        sfumato.compile(name, SPACE, epsilon=1.0)
