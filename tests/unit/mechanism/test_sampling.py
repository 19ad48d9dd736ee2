import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import stats

import sfumato
from sfumato.foundation.errors import ParameterError
from sfumato.foundation.randomness import RunKey, SystemSource
from sfumato.mechanism.base import UNKNOWN, TableMechanism
from sfumato.space import Space

CONFIDENCE = 1e-6
"""Chance that a right sampler fails one chi-square test; the seeds are fixed, so a pass stays a pass."""


@pytest.fixture(scope="module")
def space():
    rng = np.random.default_rng(5)
    return Space.from_arrays([f"w{i}" for i in range(400)], rng.integers(-60, 60, (400, 6)).astype(np.int8))


@pytest.fixture(scope="module", params=["published", "best"])
def tem(space, request):
    return sfumato.compile("tem", space, epsilon=0.06, tuning=request.param)


def chi_square(counts, weights):
    """Compare counts with a row's integers, pooling cells that are expected fewer than ten times."""
    expected = weights.astype(float) / weights.astype(float).sum() * counts.sum()
    rare = expected < 10
    observed = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    if expected[-1] == 0:
        observed, expected = observed[:-1], expected[:-1]
    return stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue


@pytest.mark.parametrize("word", [0, 17, 399])
def test_sampled_frequencies_follow_the_rows_integers(tem, word):
    drawn = tem.sample(np.full(200_000, word), RunKey.from_seed(word).record(0))
    row = tem.row(tem.space.words[word])
    assert chi_square(np.bincount(drawn, minlength=400), row.weights) > CONFIDENCE


def test_draws_in_the_tail_follow_the_rows_integers_too(space, monkeypatch):
    monkeypatch.setattr("sfumato.mechanism.rowstore.HEAD_BITS", 7)  # heads of a few cells, so tails are drawn
    tem = sfumato.compile("tem", space, epsilon=0.06, tuning="published")
    row = tem.row("w3")
    in_tail = row.weights < (row.total >> 7)
    drawn = tem.sample(np.full(200_000, 3), RunKey.from_seed(1).record(0))
    counts = np.bincount(drawn, minlength=400)
    assert counts[in_tail].sum() > 5_000
    assert chi_square(counts, row.weights) > CONFIDENCE


@pytest.mark.parametrize("kind", ["integer", "float"])
def test_a_block_computed_alone_is_the_block_of_the_row(kind):
    """Large spaces compute 16 cells of a row again, not the row: they must be the same integers."""
    vectors = np.random.default_rng(7).integers(-40, 40, (1203, 8)).astype(np.int8)
    vectors[600:700] = vectors[:100]
    if kind == "float":
        vectors = vectors * 0.37
    rng = np.random.default_rng(17)
    large = Space.from_arrays([f"w{i}" for i in range(1203)], vectors)
    for outputs in (None, [f"w{i}" for i in range(1203)[::-1] if i != 5]):
        mechanism = sfumato.compile("tem", large, epsilon=0.05, tuning="published", outputs=outputs)
        assert mechanism._pairs is not None
        ids, blocks = rng.integers(0, 1203, 500), rng.integers(0, 76, 500)
        whole = mechanism.compile_rows(ids)
        fast = mechanism.block_weights(ids, blocks, whole.norms)
        slow = super(type(mechanism), mechanism).block_weights(ids, blocks, whole.norms)
        assert np.array_equal(fast[1], slow[1])
        alone = [mechanism.compile_rows(ids[i : i + 1]) for i in range(40)]
        assert np.array_equal(np.concatenate([row.norms for row in alone]), whole.norms[:40])
        assert np.array_equal(np.concatenate([row.weights for row in alone]), whole.weights[:40])
        assert np.array_equal(fast[0][fast[1] > 0], slow[0][fast[1] > 0])
        drawn = mechanism.sample(np.full(100_000, 3), RunKey.from_seed(6).record(0))
        counts = np.bincount(drawn, minlength=1203)[mechanism.outputs]
        assert chi_square(counts, mechanism.row("w3").weights) > CONFIDENCE


def test_an_unknown_word_is_drawn_uniformly(tem):
    drawn = tem.sample(np.full(200_000, UNKNOWN), RunKey.from_seed(2).record(0))
    assert stats.chisquare(np.bincount(drawn, minlength=400)).pvalue > CONFIDENCE


def test_a_mixed_batch_draws_every_word_from_its_own_row(tem):
    ids = np.tile([5, UNKNOWN, 9], 60_000)
    drawn = tem.sample(ids, RunKey.from_seed(3).record(0))
    for word in (5, 9):
        counts = np.bincount(drawn[ids == word], minlength=400)
        assert chi_square(counts, tem.row(f"w{word}").weights) > CONFIDENCE


def test_equal_keys_draw_equal_words_whatever_is_in_memory(tem, space):
    ids = np.random.default_rng(0).integers(0, 400, 5000)
    once = tem.sample(ids, RunKey.from_seed(4).record(0))
    fresh = pickle.loads(pickle.dumps(tem))
    assert np.array_equal(fresh.sample(ids, RunKey.from_seed(4).record(0)), once)
    tight_memory = sfumato.compile(
        "tem", space, epsilon=0.06, tuning=tem.tuned.tuning if tem.tuned.tuning == "published" else "best", row_memory=1
    )
    again = [tight_memory.sample(ids, RunKey.from_seed(4).record(0)) for _ in range(2)]
    assert np.array_equal(again[0], once)
    assert np.array_equal(again[1], once)


def test_the_system_source_never_repeats_itself(tem):
    ids = np.zeros(300, dtype=int)
    assert not np.array_equal(tem.sample(ids, SystemSource()), tem.sample(ids, SystemSource()))


def test_threads_share_a_mechanism(tem):
    def work(seed):
        ids = np.random.default_rng(seed).integers(0, 400, 2000)
        return tem.sample(ids, RunKey.from_seed(seed).record(0))

    alone = [work(seed) for seed in range(12)]
    cold = pickle.loads(pickle.dumps(tem))

    def cold_work(seed):
        ids = np.random.default_rng(seed).integers(0, 400, 2000)
        return cold.sample(ids, RunKey.from_seed(seed).record(0))

    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(cold_work, range(12)))
    assert all(np.array_equal(a, b) for a, b in zip(alone, together, strict=True))


def test_a_pickle_holds_no_trace_of_the_words_that_occurred(tem):
    fresh = pickle.loads(pickle.dumps(tem))
    before = len(pickle.dumps(fresh))
    fresh.sample(np.arange(300), SystemSource())
    assert len(pickle.dumps(fresh)) == before


def test_nothing_to_draw(tem):
    assert len(tem.sample(np.empty(0, dtype=np.intp), SystemSource())) == 0


def test_a_word_outside_the_inputs_is_treated_as_unknown(space):
    # Without truncation at this epsilon an input stays as it is, but for a chance of 400 least weights in 2**63.
    part = sfumato.compile("tem", space, epsilon=50.0, gamma=1000.0, tuning="published", inputs=list(space.words[:200]))
    assert (part.sample(np.full(50, 3), RunKey.from_seed(1).record(0)) == 3).all()
    drawn = part.sample(np.full(20_000, 300), RunKey.from_seed(0).record(0))
    assert stats.chisquare(np.bincount(drawn, minlength=400)).pvalue > CONFIDENCE
    with pytest.raises(ParameterError, match="inputs"):
        part.row("w300")


@pytest.mark.parametrize("memory", [None, 0, -1, 1.5, float("nan"), "1", True])
@pytest.mark.parametrize(
    "entry", [one for one in sfumato.mechanisms() if "row_memory" in one.options], ids=lambda one: one.name
)
def test_a_memory_that_is_no_number_of_bytes_is_refused_when_compiling(entry, memory):
    space = Space.from_arrays(["a", "b", "c"], [[0.0], [1.0], [2.0]])
    with pytest.raises(ParameterError, match="row_memory must be a whole number"):
        sfumato.compile(entry.name, space, epsilon=1.0, row_memory=memory)
    made = sfumato.compile(entry.name, space, epsilon=1.0, row_memory=2.0**20)
    assert len(made.sample(np.arange(3), SystemSource())) == 3
    with pytest.raises(ParameterError, match="row_memory"):
        TableMechanism.__init__(made, space, made.inputs, made.outputs, made.guarantee, memory)
