"""Rows that are filled up: the promise, the solver's loose ends, and how near the ceiling of all mechanisms they come."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import linprog

import sfumato
from sfumato.foundation.errors import CertificationError, ParameterError
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism import artifact
from sfumato.mechanism.exponential import ExponentialMechanism, santext, tem
from sfumato.mechanism.filled import ceiling, greatest_share
from sfumato.mechanism.kernel import Ground, steepest_fill
from sfumato.mechanism.rowstore import BLOCK
from sfumato.space import Space


def cloud(words, dimension=3, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(words, dimension))
    return Space.from_arrays([f"w{i}" for i in range(words)], vectors)


def whole(space, gamma=np.inf):
    every = np.arange(len(space))
    return Ground(space, every, every, gamma)


def optimum(space, epsilon):
    """The greatest mean P(unchanged) of all mechanisms with the promise, by one linear program over all cells."""
    count = len(space)
    ids = np.arange(count)
    bounds = np.exp(epsilon * space.distances(ids, ids))
    rows = []
    for y, x, other in itertools.product(range(count), range(count), range(count)):
        if x != other:
            row = np.zeros((count, count))
            row[x, y], row[other, y] = 1.0, -bounds[x, other]
            rows.append(row.ravel())
    sums = np.kron(np.eye(count), np.ones(count))
    found = linprog(
        -np.eye(count).ravel() / count, A_ub=np.array(rows), b_ub=np.zeros(len(rows)), A_eq=sums, b_eq=np.ones(count)
    )
    assert found.status == 0
    return -found.fun


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_between_the_other_tunings_and_what_any_mechanism_can_keep(seed, epsilon):
    space = cloud(9, 2, seed)
    filled = tem(space, epsilon=epsilon, gamma=100.0, tuning="filled").tuned.keeps
    calibrated = tem(space, epsilon=epsilon, gamma=100.0, tuning="calibrated").tuned.keeps
    most = optimum(space, epsilon)
    assert calibrated < filled <= most * (1 + 1e-6)
    assert most <= ceiling(whole(space), epsilon) * (1 + 1e-6)
    assert filled > 0.8 * most


def test_where_tight_weights_exist_no_mechanism_keeps_more():
    space = cloud(12, 6, 1)
    tight = tem(space, epsilon=3.0, tuning="tight").tuned.keeps
    assert tight == pytest.approx(optimum(space, 3.0), rel=1e-5)
    assert tight == pytest.approx(ceiling(whole(space), 3.0, steps=2000), rel=1e-5)
    assert tem(space, epsilon=3.0, tuning="filled").tuned.keeps == pytest.approx(tight, rel=0.01)


@pytest.mark.parametrize("words", [300, 900])
def test_keeps_more_than_calibrated_and_floored_where_tight_does_not_exist(words):
    space = cloud(words, 8)
    with pytest.raises(CertificationError, match="no positive solution"):
        tem(space, epsilon=1.0, tuning="tight")
    keeps = {t: tem(space, epsilon=1.0, tuning=t).tuned.keeps for t in ("calibrated", "floored", "filled", "best")}
    assert keeps["calibrated"] < keeps["floored"] < keeps["filled"] == keeps["best"]
    assert keeps["filled"] <= ceiling(whole(space), 1.0)


@pytest.mark.parametrize("gamma", [0.2, 1.5, 100.0])
@pytest.mark.parametrize("part", ["all", "some inputs", "some outputs", "apart"])
def test_every_ratio_is_within_the_promise(gamma, part):
    space = cloud(60, 2, 3)
    words = list(space.words)
    chosen = {
        "all": {}, "some inputs": {"inputs": words[:25]}, "some outputs": {"outputs": words[:25]},
        "apart": {"inputs": words[:30], "outputs": words[30:]},
    }[part]  # fmt: skip
    mechanism = tem(space, epsilon=1.5, gamma=gamma, tuning="filled", **chosen)
    result = sfumato.verify(mechanism)
    assert result.exhaustive
    assert result.passed
    assert result.realised <= mechanism.certificate.epsilon <= 1.5


def test_a_fill_that_is_forgotten_is_found_out():
    honest = tem(cloud(80, 2), epsilon=1.0, tuning="filled")
    assert sfumato.verify(honest).passed
    forgotten = ExponentialMechanism(honest.ground, replace(honest.tuned, fill=None), honest.guarantee)
    assert not sfumato.verify(forgotten).passed


def test_a_fill_that_changes_too_fast_is_found_out_without_every_ratio(monkeypatch):
    monkeypatch.setattr("sfumato.audit.verification.EXHAUSTIVE_CELLS", 1000)
    honest = tem(cloud(80, 2), epsilon=1.0, tuning="filled")
    assert sfumato.verify(honest).passed
    assert not sfumato.verify(honest).exhaustive
    fill = honest.tuned.fill.copy()
    fill[7] *= 1e-3
    tampered = ExponentialMechanism(honest.ground, replace(honest.tuned, fill=fill), honest.guarantee)
    assert not sfumato.verify(tampered).passed


def test_draws_and_blocks_are_those_of_the_row():
    """Rows of 700 words, drawn through heads, blocks and marks; a chi-square test at 1e-6 with a fixed key."""
    space = cloud(700, 3, 5)
    mechanism = tem(space, epsilon=1.0, tuning="filled")
    draws = 400_000
    for word in (0, 699):
        row = mechanism.row(space.words[word])
        counts = np.bincount(mechanism.sample(np.full(draws, word), RunKey.from_seed(2).record(word)), minlength=700)
        expected = np.zeros(700)
        expected[row.cells] = row.probabilities.astype(float) * draws
        assert stats.chisquare(counts, expected * draws / expected.sum()).pvalue > 1e-6


def test_a_file_and_the_cache_bring_the_fill_back(tmp_path, monkeypatch):
    monkeypatch.setenv("SFUMATO_CACHE_DIR", str(tmp_path / "cache"))
    space = cloud(2100, 3, 6)
    mechanism = tem(space, epsilon=1.0, tuning="filled")
    assert mechanism.tuned.fill is not None
    ids = np.arange(0, 2100, 7)
    expected = mechanism.weights(ids)
    again = tem(space, epsilon=1.0, tuning="filled")
    assert np.array_equal(again.tuned.fill, mechanism.tuned.fill)
    assert np.array_equal(again.weights(ids), expected)
    artifact.save(mechanism, tmp_path / "filled.sfm")
    loaded = artifact.load(tmp_path / "filled.sfm")
    assert np.array_equal(loaded.weights(ids), expected)
    drawn = [one.sample(ids, RunKey.from_seed(1).record(0)) for one in (mechanism, loaded)]
    assert np.array_equal(*drawn)


def test_document_accounting_uses_a_range_that_is_true():
    """The bounded range, over all pairs and outputs."""
    space = cloud(40, 2, 8)
    mechanism = tem(space, epsilon=1.0, tuning="filled")
    logs = np.log(mechanism.weights(np.arange(40)).astype(float))
    logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
    distances = space.distances(np.arange(40), np.arange(40))
    for one, other in itertools.permutations(range(40), 2):
        gaps = logs[one] - logs[other]
        assert np.ptp(gaps) <= mechanism.guarantee.bounded_range * distances[one, other]


@pytest.mark.parametrize("value", [0.0, -1e-4, np.nan, np.inf])
def test_a_fill_that_is_no_probability_is_refused(value):
    honest = tem(cloud(40, 2), epsilon=1.0, tuning="filled")
    fill = honest.tuned.fill.copy()
    fill[7] = value
    with pytest.raises(CertificationError, match="positive number"):
        steepest_fill(honest.ground, fill, 1)


def test_best_keeps_most_where_filling_up_does_not_do_well():
    """A cluster of near words among words far apart."""
    cluster = [[0, 0], [0.001, 0], [0, 0.001], [0.001, 0.001], [0.0005, 0.0005]]
    space = Space.from_arrays([f"w{i}" for i in range(10)], [*cluster, [9, 0], [0, 9], [-9, 0], [0, -9], [9, 9]])
    keeps = {t: santext(space, epsilon=1.0, tuning=t).tuned.keeps for t in ("calibrated", "filled", "floored", "best")}
    assert keeps["filled"] < keeps["calibrated"]
    assert keeps["best"] == max(keeps.values())
    assert 0.99 * ceiling(whole(space), 1.0) < keeps["best"] <= ceiling(whole(space), 1.0)


def test_one_word_and_words_far_from_every_output():
    alone = Space.from_arrays(["only"], [[1.0, 2.0]])
    assert tem(alone, epsilon=1.0, tuning="filled").row("only").probabilities.tolist() == [1.0]
    far = Space.from_arrays(list("abcd"), [[0.0], [1.0], [5000.0], [5001.0]])
    mechanism = santext(far, epsilon=1.0, tuning="filled", inputs=["a", "b"], outputs=["c", "d"])
    assert [float(p) for p in mechanism.row("a").probabilities] == pytest.approx([0.5, 0.5])
    assert sfumato.verify(mechanism).passed


def test_the_share_is_the_greatest_for_its_worst_pair():
    space = Space.from_arrays(list("abc"), [[0.0], [1.0], [3.0]])
    loads = np.array([1.0, 0.5, 0.2])
    share = greatest_share(whole(space), loads, 1.0, 1)
    change = np.abs(np.diff(np.log1p(-share * loads))) / np.array([1.0, 2.0])
    assert change.max() == pytest.approx(1.0, rel=1e-6)
    assert change.max() <= 1.0


def test_the_ceiling_is_about_whole_spaces():
    space = cloud(10)
    with pytest.raises(ParameterError, match="whole spaces"):
        ceiling(Ground(space, np.arange(5), np.arange(10), np.inf), 1.0)


@pytest.mark.parametrize("tuning", ["published", "filled"])
@pytest.mark.parametrize("name", ["tem", "santext-plus"])
def test_a_block_is_a_part_of_its_row_to_the_last_bit(name, tuning):
    """Blocks are computed by themselves where vectors are small whole numbers, as those of the default space are."""
    vectors = np.random.default_rng(9).integers(-90, 91, (2100, 12)).astype(np.int8)
    space = Space.from_arrays([f"w{i}" for i in range(2100)], vectors, scale=0.01)
    mechanism = sfumato.compile(name, space, epsilon=2.0, tuning=tuning)
    assert mechanism._pairs is not None
    assert (mechanism.tuned.fill is None) == (tuning == "published")
    ids = np.array([0, 3, 1500, 2099])
    whole_rows = mechanism.compile_rows(ids)
    columns = whole_rows.weights.shape[1]
    for block in (0, 1, (columns - 1) // BLOCK):
        _, weights = mechanism.block_weights(ids, np.full(len(ids), block), whole_rows.norms)
        expected = whole_rows.weights[:, block * BLOCK : (block + 1) * BLOCK]
        assert np.array_equal(weights[:, : expected.shape[1]], expected)
        assert not weights[:, expected.shape[1] :].any()
