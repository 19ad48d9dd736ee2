"""Rows that list near words only, and spaces with too many pairs to look at."""

import pickle

import numpy as np
import pytest
from scipy import stats

import sfumato
from sfumato.foundation.errors import CertificationError
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism import artifact, nearrows
from sfumato.mechanism.nearrows import NearRows
from sfumato.space import Space, statistics

WORDS = 900
CONFIDENCE = 1e-6


def space_of(kind):
    rng = np.random.default_rng(4)
    vectors = rng.integers(-90, 90, (WORDS, 5)).astype(np.int8)
    vectors[-40:] = vectors[:40]
    if kind == "float":
        vectors = vectors * 0.31
    return Space.from_arrays([f"w{i}" for i in range(WORDS)], vectors)


@pytest.fixture(scope="module", params=["integer", "float"])
def short(request):
    space = space_of(request.param)
    gamma = 0.14 * space.statistics.diameter
    return sfumato.compile("tem", space, epsilon=60 / space.statistics.diameter, gamma=gamma, tuning="published")


def test_a_small_gamma_has_short_rows_and_a_large_one_has_not(short):
    assert short.has_short_rows
    space = short.space
    for options in ({"gamma": space.statistics.diameter / 2}, {"gamma": short.ground.gamma, "tuning": "calibrated"}):
        other = sfumato.compile("tem", space, epsilon=0.3, **{"tuning": "published", **options})
        assert other.has_short_rows == (options.get("tuning") == "calibrated")


def test_every_number_falls_on_the_cell_whose_weight_it_is_in(short):
    """The tail is exact: the near words' weights and the others' add up to the total, and each has its own numbers."""
    ids = np.array([0, 3, 450, WORDS - 1])
    rows = short._store.rows(ids, short)
    assert isinstance(rows, NearRows)
    for word in ids.tolist():
        row = short.row(f"w{word}")
        weights = row.weights.astype(object)
        far = weights.min()
        near = np.flatnonzero(row.weights != far)
        order = np.concatenate([near, np.setdiff1d(np.arange(WORDS), near)])
        ends = np.cumsum(weights[order])
        assert 0 < len(near) < WORDS / 10
        assert ends[-1] == row.total == int(rows.totals[rows.slot[word]])
        first, last = (ends - weights[order]).astype(np.uint64), (ends - 1).astype(np.uint64)
        for numbers in (first, last):
            found = rows.find(np.full(WORDS, word), numbers, short)
            assert np.array_equal(found, short.outputs[order])


def test_draws_follow_the_rows_integers(short):
    row = short.row("w3")
    drawn = short.sample(np.full(100_000, 3), RunKey.from_seed(1).record(0))
    counts = np.bincount(drawn, minlength=WORDS)
    expected = row.weights / row.weights.sum() * 100_000
    large = expected >= 10
    observed = np.append(counts[large], counts[~large].sum())
    pooled = np.append(expected[large], expected[~large].sum())
    keep = pooled > 0
    assert stats.chisquare(observed[keep], pooled[keep] * observed[keep].sum() / pooled[keep].sum()).pvalue > CONFIDENCE


def test_the_draws_are_the_same_with_little_memory_in_other_processes_and_from_a_file(short, tmp_path):
    ids = np.random.default_rng(1).integers(-1, WORDS, 5000)
    key = RunKey.from_seed(3)
    drawn = short.sample(ids, key.record(0))
    artifact.save(short, tmp_path / "m.sfm")
    little = sfumato.compile(
        "tem",
        short.space,
        epsilon=short.guarantee.epsilon,
        gamma=short.ground.gamma,
        tuning="published",
        row_memory=999,
    )
    for other in (little, pickle.loads(pickle.dumps(short)), artifact.load(tmp_path / "m.sfm")):
        assert np.array_equal(other.sample(ids, key.record(0)), drawn)


@pytest.mark.parametrize("kind", ["integer", "float"])
def test_bounds_hold_where_pairs_are_too_many(monkeypatch, kind):
    space = space_of(kind)
    exact = statistics.compute_statistics(space.geometry, threads=1)
    monkeypatch.setattr(statistics, "BOUNDED_FROM", 100)
    bounds = statistics.compute_statistics(space.geometry, threads=1)
    assert exact.exact
    assert not bounds.exact
    assert 0 < bounds.least_distance <= exact.least_distance
    assert exact.diameter <= bounds.diameter <= 2.1 * exact.diameter
    assert bounds.median_neighbour_distance == pytest.approx(exact.median_neighbour_distance, rel=0.2)
    assert bounds.density == pytest.approx(exact.density, rel=0.5)


@pytest.mark.parametrize("kind", ["integer", "float"])
@pytest.mark.parametrize("share", [0.14, 0.9])
def test_the_published_form_is_certified_by_its_theorem(monkeypatch, tmp_path, kind, share):
    monkeypatch.setenv("SFUMATO_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(statistics, "BOUNDED_FROM", 100)
    space = space_of(kind)
    gamma = share * space.statistics.diameter
    mechanism = sfumato.compile("tem", space, epsilon=0.5, gamma=gamma, tuning="published")
    assert mechanism.certificate.epsilon <= 0.5
    assert mechanism.certificate.epsilon == pytest.approx(0.5, rel=1e-6)
    assert "theorem" in mechanism.guarantee.statement()
    checked = sfumato.verify(mechanism)
    assert checked.passed
    assert checked.realised <= mechanism.certificate.epsilon
    for tuning in ("calibrated", "tight", "filled", "floored", "best"):
        with pytest.raises(CertificationError, match="pairs of 860 points"):
            sfumato.compile("tem", space, epsilon=0.5, gamma=gamma, tuning=tuning)


def test_words_without_a_near_one_are_drawn_all_the_same():
    """No row that was compiled has a word within gamma: nothing but the far words is there to draw."""
    places = np.r_[np.arange(100) * 0.01, 1000 + np.arange(100) * 0.01]
    space = Space.from_arrays([f"w{i}" for i in range(200)], places[:, None])
    far = sfumato.compile(
        "tem", space, epsilon=1.0, gamma=5.0, tuning="published", inputs=space.words[:100], outputs=space.words[100:]
    )
    assert far.has_short_rows
    drawn = far.sample(np.repeat(np.arange(100), 1000), RunKey.from_seed(2).record(0))
    assert len(far._store._rows.head_sums) == 0
    assert set(far.row("w0").weights.tolist()) == {int(far.row("w0").weights[0])}
    assert stats.chisquare(np.bincount(drawn, minlength=200)[100:]).pvalue > CONFIDENCE


def test_no_cell_is_before_a_column_where_there_is_none():
    none, starts = np.empty(0, dtype=np.int32), np.zeros(2, dtype=np.int64)
    assert nearrows._before(none, starts, starts, np.array([0, 7])).tolist() == [0, 0]
