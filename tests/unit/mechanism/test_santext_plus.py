import dataclasses

import numpy as np
import pytest
from scipy import stats

import sfumato
from sfumato.foundation.errors import CertificationError, CompositionError, ParameterError
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism.base import UNKNOWN, TableMechanism
from sfumato.mechanism.exponential import santext
from sfumato.mechanism.santext_plus import santext_plus
from sfumato.mechanism.table import DenseTable
from sfumato.space import Space

CONFIDENCE = 1e-6
"""Chance that a right sampler fails one chi-square test; the seeds are fixed, so a pass stays a pass."""


def space_of(count, seed=0, dimension=3):
    vectors = np.random.default_rng(seed).normal(size=(count, dimension))
    return Space.from_arrays([f"w{i}" for i in range(count)], vectors)


def test_a_protected_word_is_always_replaced_by_a_protected_one():
    space = space_of(30)
    protected = [f"w{i}" for i in range(0, 30, 3)]
    mechanism = santext_plus(space, epsilon=1.0, protected=protected)
    for word in protected:
        assert set(mechanism.row(word).cells.tolist()) == set(range(0, 30, 3))
    drawn = mechanism.sample(np.tile(np.arange(0, 30, 3), 500), RunKey.from_seed(0).record(0))
    assert set(drawn.tolist()) == set(range(0, 30, 3))
    assert set(mechanism.sample(np.full(500, UNKNOWN), RunKey.from_seed(0).record(0)).tolist()) == set(range(0, 30, 3))


def test_over_protected_words_it_is_santext():
    space = space_of(30)
    protected = [f"w{i}" for i in range(10)]
    plus = santext_plus(space, epsilon=2.0, protected=protected)
    plain = santext(space, epsilon=2.0, outputs=protected)
    for word in ("w3", "w25"):
        row = plus.row(word).probabilities
        share = 1.0 if word == "w3" else 0.2
        assert row[:10] == pytest.approx(share * plain.row(word).probabilities, rel=1e-5)


@pytest.mark.parametrize("p", [0.05, 0.4, 0.95])
def test_other_words_are_kept_with_one_minus_p_and_never_more(p):
    space = space_of(40)
    mechanism = santext_plus(space, epsilon=1.0, p=p)
    for word in (0, 19):
        kept = mechanism.row(f"w{word}").probability(word)
        assert 1 - p - 1e-6 < kept <= 1 - p
    drawn = mechanism.sample(np.full(50_000, 4), RunKey.from_seed(1).record(0))
    row = mechanism.row("w4")
    counts = np.bincount(drawn, minlength=40)[row.cells]
    assert stats.chisquare(counts, row.probabilities * 50_000).pvalue > CONFIDENCE


def test_with_p_one_nothing_is_kept():
    mechanism = santext_plus(space_of(20), epsilon=1.0, p=1.0)
    assert mechanism.row("w0").probability(0) == 0
    assert mechanism.guarantee.keep_probability == 0


@pytest.mark.parametrize("count", [1024, 1039])
def test_block_by_block_the_draws_are_those_of_whole_rows(count):
    """Integer vectors have a short cut for the tail of a row; the last cell may stand in a block of its own."""
    vectors = np.random.default_rng(3).integers(-40, 40, (count + 60, 4)).astype(np.int8)
    space = Space.from_arrays([f"w{i}" for i in range(count + 60)], vectors)
    mechanism = santext_plus(space, epsilon=0.01, p=0.5, protected=space.words[60:])
    assert mechanism._pairs is not None
    ids = np.repeat([0, 7, 59, 60, 700], 12)
    blocks = np.tile(np.append(np.arange(11) * 5, len(mechanism.outputs) // 16), 5)
    norms = mechanism.compile_rows(ids).norms
    quick_cells, quick = mechanism.block_weights(ids, blocks, norms)
    cells, weights = TableMechanism.block_weights(mechanism, ids, blocks, norms)
    assert np.array_equal(quick, weights)
    assert np.array_equal(quick_cells[weights > 0], cells[weights > 0])
    drawn = mechanism.sample(np.full(40_000, 7), RunKey.from_seed(2).record(0))
    row = mechanism.row("w7")
    quarters = np.minimum(np.searchsorted(row.cells[:-1], drawn) * 4 // len(row.cells), 3)
    observed = np.append(np.bincount(quarters[drawn != 7], minlength=4), (drawn == 7).sum())
    places = np.minimum(np.arange(len(row.cells) - 1) * 4 // len(row.cells), 3)
    expected = np.append(np.bincount(places, row.probabilities[:-1], minlength=4), row.probabilities[-1])
    assert stats.chisquare(observed, expected * 40_000).pvalue > CONFIDENCE


@pytest.mark.parametrize("tuning", ["published", "calibrated", "best"])
@pytest.mark.parametrize("p", [0.01, 0.5])
def test_the_claim_holds_with_and_without_every_ratio(tuning, p, monkeypatch):
    mechanism = santext_plus(space_of(120, dimension=6), epsilon=1.5, p=p, tuning=tuning)
    exhaustive = sfumato.verify(mechanism)
    monkeypatch.setattr("sfumato.audit.verification.EXHAUSTIVE_CELLS", 1000)
    proven = sfumato.verify(mechanism)
    assert exhaustive.passed
    assert proven.passed
    assert exhaustive.exhaustive
    assert not proven.exhaustive
    assert exhaustive.realised <= proven.bound <= 1.5


def test_words_at_distance_zero_on_either_side_of_the_list_are_within_the_allowance():
    space = Space.from_arrays(["a", "b", "c"], [[0.0], [0.0], [1.0]])
    mechanism = santext_plus(space, epsilon=1.0, p=0.3, protected=["b", "c"])
    assert sfumato.verify(mechanism).passed


def test_a_smaller_chance_to_be_replaced_than_declared_is_found_out():
    honest = santext_plus(space_of(20), epsilon=1.0, p=0.05, tuning="calibrated")
    boasting = dataclasses.replace(honest.guarantee, keep_probability=0.2)
    honest.guarantee = boasting
    assert not sfumato.verify(honest).passed


def test_a_kernel_that_is_too_steep_is_found_out():
    space = space_of(20)
    honest = santext_plus(space, epsilon=1.0, tuning="calibrated")
    honest.guarantee = dataclasses.replace(honest.guarantee, epsilon=0.7)
    assert not sfumato.verify(honest).passed


def test_a_word_that_is_never_replaced_has_no_promise_to_break():
    space = space_of(2)
    guarantee = dataclasses.replace(santext_plus(space, epsilon=1.0).guarantee, keep_probability=1.0)
    weights = np.array([[7]], dtype=np.uint64) << np.uint64(30)
    table = DenseTable(space, weights, guarantee, inputs=["w0"], outputs=["w0"])
    assert sfumato.verify(table).passed


def test_losses_of_the_extra_add_up_and_unlike_ones_do_not_add():
    one = santext_plus(space_of(10), epsilon=1.0, p=0.5).guarantee
    assert "exp(0.6931)" in one.statement()
    assert "exp(1.386)" in one.repeated(2).statement()
    with pytest.raises(CompositionError, match="keep_probability"):
        one + santext_plus(space_of(10), epsilon=1.0, p=0.4).guarantee


def test_parameters_outside_their_domain_are_refused():
    space = space_of(4)
    for bad in ({"p": 0.0}, {"p": 1.5}, {"protected_share": 0.0}, {"protected_share": 2}, {"tuning": "loud"}):
        with pytest.raises(ParameterError, match=next(iter(bad))):
            santext_plus(space, epsilon=1.0, **bad)
    with pytest.raises(ParameterError, match="lists of words"):
        santext_plus(space, epsilon=1.0, protected="w1")
    with pytest.raises(ParameterError, match="at least one"):
        santext_plus(space, epsilon=1.0, protected=[])
    near = Space.from_arrays(["a", "b"], [[0.0], [1e-9]])
    with pytest.raises(CertificationError, match="too close"):
        santext_plus(near, epsilon=1.0)


def test_promises_about_unlike_protected_words_do_not_add():
    """Each holds for its own words only, so a sum would promise for a word that one of them releases."""
    words = space_of(10).words
    first, second = (
        santext_plus(space_of(10), epsilon=1.0, protected=list(chosen)).guarantee for chosen in (words[:5], words[5:])
    )
    again = santext_plus(space_of(10), epsilon=1.0, protected=list(words[:5][::-1])).guarantee
    assert (first + again).epsilon == 2.0
    with pytest.raises(CompositionError, match="protected_digest"):
        first + second
