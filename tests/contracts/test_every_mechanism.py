"""One suite that every registered mechanism passes."""

import dataclasses
import functools
import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import sfumato
from sfumato.foundation.errors import CertificationError, ParameterError, SfumatoError, SpaceError
from sfumato.foundation.guarantee import Guarantee, guarantee_from_json
from sfumato.foundation.randomness import RunKey, SystemSource
from sfumato.foundation.registry import entry as entry_of
from sfumato.mechanism import artifact, rowstore
from sfumato.mechanism.base import UNKNOWN, Mechanism, TableMechanism
from sfumato.mechanism.gumbel import least_epsilon
from sfumato.space import Space

EPSILONS = (0.01, 0.5, 3.0, 40.0)
CONFIDENCE = 1e-6
"""Chance that right draws fail one chi-square test; the keys are fixed, so a pass stays a pass."""
BAD_EPSILONS = (0, -1, float("nan"), float("inf"), 1e9, None, "2")


def words(count):
    return [f"w{i}" for i in range(count)]


def cloud(count=40, dimension=5, seed=3, metric="euclidean"):
    vectors = np.random.default_rng(seed).normal(size=(count, dimension))
    return Space.from_arrays(words(count), vectors, metric=metric)


def with_duplicates():
    vectors = np.random.default_rng(4).integers(-9, 9, size=(20, 3)).astype(np.int8)
    return Space.from_arrays(words(40), np.vstack([vectors, vectors]))


SPACES = {
    "float": cloud(),
    "integer": Space.from_arrays(words(40), np.random.default_rng(1).integers(-50, 50, (40, 4)).astype(np.int8)),
    "angle": cloud(metric="angle"),
    "duplicates": with_duplicates(),
    "one word": Space.from_arrays(["only"], [[1.0, 2.0]]),
    "two words": Space.from_arrays(["one", "two"], [[0.0], [1e-2]]),
}


OTHER_SETTINGS = {
    "custext": [
        *({"tuning": tuning, "k": k} for tuning in ("published", "calibrated", "lp") for k in (7, 20)),
        *({"mapping": mapping, "k": 4} for mapping in ("aggressive", "balanced")),
        *({"mapping": mapping, "k": 4, "semantics": "literal"} for mapping in ("balanced", "conservative")),
        {"mapping": "balanced", "k": 4, "tuning": "lp"},
        {"k": 1},
        {"similarity": "cosine", "tuning": "calibrated"},
        *({"global_mix": 0.1, "k": 7, "tuning": tuning} for tuning in ("published", "lp")),
    ],
    "santext-plus": [
        *({"tuning": tuning} for tuning in ("published", "calibrated", "filled", "floored", "best")),
        {"p": 1.0},
        {"p": 0.9},
        {"p": 0.02, "protected_share": 0.1},
    ],
}


def settings_of(entry):
    """Every named choice of a mechanism's options, one at a time."""
    from sfumato.mechanism.tuning import TUNINGS

    if entry.name in OTHER_SETTINGS:
        return OTHER_SETTINGS[entry.name]
    return [{"tuning": tuning} for tuning in TUNINGS] if "tuning" in entry.options else [{}]


def usable(entry, space, epsilon):
    """The same epsilon, or one as much above the least that the published truncated Gumbel noise exists for."""
    if entry.name != "truncated-gumbel":
        return epsilon
    least = least_epsilon(space)
    return least * (1 + epsilon / 10) if np.isfinite(least) else epsilon


NOISY_VECTORS = ("laplace", "mahalanobis", "vickrey")
"""These are no tables: test_vector_mechanisms.py is their suite."""

CASES = [
    pytest.param(entry, options, id="-".join([entry.name, *map(str, options.values())]))
    for entry in sfumato.mechanisms()
    if entry.name not in NOISY_VECTORS
    for options in settings_of(entry)
]


def compiled(entry, space, epsilon, options):
    """Compile, or skip a combination that the mechanism refuses with a reason of its own."""
    given = {"epsilon": usable(entry, space, epsilon)} if entry.takes_epsilon else {}
    try:
        return sfumato.compile(entry.name, space, **given, **options)
    except (CertificationError, SpaceError) as refusal:
        reason = str(refusal)
    assert len(reason) > 40
    return None


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("entry", "options"), CASES)
def test_rows_are_whole_and_the_claim_holds_on_the_integers(entry, options, epsilon, space):
    mechanism = compiled(entry, space, epsilon, options)
    if mechanism is None:
        return
    assert isinstance(mechanism, Mechanism)
    assert isinstance(mechanism, TableMechanism)
    for word in space.words[:5]:
        row = mechanism.row(word)
        assert row.total == sum(map(int, row.weights)) <= 2**63
        assert (row.weights > 0).all()
        assert sum(row.probability(int(cell)) for cell in row.cells) == 1
    if entry.guarantee_kind == "none":
        with pytest.raises(CertificationError, match="promises nothing"):
            sfumato.verify(mechanism)
        return
    result = sfumato.verify(mechanism)
    assert result.exhaustive
    if entry.sound:
        assert result.passed, result
        assert result.realised <= mechanism.guarantee.certified <= mechanism.guarantee.epsilon
    else:
        assert "UNSOUND" in mechanism.guarantee.statement()
        assert result.realised <= mechanism.guarantee.certified


@pytest.mark.parametrize(("entry", "options"), CASES)
def test_guarantee_fields_are_complete(entry, options):
    guarantee = compiled(entry, SPACES["float"], 3.0, options).guarantee
    assert isinstance(guarantee, Guarantee)
    assert guarantee.kind == entry.guarantee_kind
    assert guarantee.sound == entry.sound
    assert guarantee.mechanism == entry.name
    assert guarantee.arithmetic in ("integer", "float64")
    assert len(guarantee.statement()) > 40
    if not guarantee.sound:
        assert guarantee.unsound_because
    assert guarantee_from_json(json.loads(json.dumps(guarantee.to_json()))) == guarantee
    with pytest.raises(dataclasses.FrozenInstanceError):
        guarantee.epsilon = 0.0


@pytest.mark.parametrize(("entry", "options"), CASES)
def test_words_with_the_same_vector_have_the_same_row(entry, options):
    if entry.guarantee_kind in ("none", "utility-optimised"):
        return  # there, being released as one is makes a word's row its own, and is declared
    mechanism = compiled(entry, SPACES["duplicates"], 3.0, options)
    for word in range(20):
        one, other = mechanism.row(f"w{word}"), mechanism.row(f"w{word + 20}")
        assert np.array_equal(one.weights, other.weights)
        assert np.array_equal(one.cells, other.cells)


@pytest.mark.parametrize("epsilon", BAD_EPSILONS)
@pytest.mark.parametrize("entry", [e for e in sfumato.mechanisms() if e.takes_epsilon], ids=lambda e: e.name)
def test_epsilons_outside_the_domain_are_refused(entry, epsilon):
    with pytest.raises(ParameterError, match="epsilon"):
        entry.compiler(SPACES["float"], epsilon=epsilon)


@pytest.mark.parametrize("entry", sfumato.mechanisms(), ids=lambda e: e.name)
def test_unknown_options_are_refused_by_name(entry):
    given = {"epsilon": 1.0} if entry.takes_epsilon else {}
    with pytest.raises(ParameterError, match="colour"):
        sfumato.compile(entry.name, SPACES["float"], colour="blue", **given)


@pytest.mark.parametrize(("entry", "options"), CASES)
def test_equal_run_keys_give_equal_results_and_others_do_not(entry, options):
    mechanism = compiled(entry, SPACES["float"], 3.0, options)
    ids = np.tile(np.arange(40), 10)
    first = mechanism.sample(ids, RunKey.from_seed(1).record(0))
    assert np.array_equal(first, mechanism.sample(ids, RunKey.from_seed(1).record(0)))
    thawed = pickle.loads(pickle.dumps(mechanism))
    assert np.array_equal(first, thawed.sample(ids, RunKey.from_seed(1).record(0)))
    if entry.guarantee_kind == "none" or options.get("k") == 1:
        return  # nothing is random
    assert not np.array_equal(first, mechanism.sample(ids, RunKey.from_seed(2).record(0)))
    assert not np.array_equal(first, mechanism.sample(ids, RunKey.from_seed(1).record(1)))


@pytest.mark.parametrize(("entry", "options"), CASES)
def test_threads_agree_with_a_single_one(entry, options):
    mechanism = compiled(entry, SPACES["float"], 3.0, options)

    def draw(seed):
        return mechanism.sample(np.arange(40), RunKey.from_seed(seed).record(0)).tolist()

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(draw, range(8)))
    assert together == [draw(seed) for seed in range(8)]


@pytest.mark.parametrize(("entry", "options"), CASES)
def test_an_unknown_word_is_drawn_from_the_outputs_whatever_it_was(entry, options):
    mechanism = compiled(entry, SPACES["float"], 40.0, options)
    drawn = mechanism.sample(np.full(4000, UNKNOWN), RunKey.from_seed(0).record(0))
    assert set(drawn.tolist()) == set(mechanism.outputs.tolist())  # a miss has probability below 40 exp(-100)


@pytest.mark.parametrize("space", [SPACES[name] for name in ("float", "integer", "duplicates")], ids=str)
@pytest.mark.parametrize(("entry", "options"), CASES)
def test_a_known_word_has_the_outputs_of_an_unknown_one_or_the_guarantee_declares_otherwise(entry, options, space):
    """Else an output tells for certain what stood there: unknown words are drawn from all outputs (see above)."""
    mechanism = compiled(entry, space, 3.0, options)
    if mechanism is None:
        return
    guarantee = mechanism.guarantee
    unknown = set(mechanism.outputs.tolist())
    for place, word in enumerate(space.words):
        row = mechanism.row(word)
        known = set(row.cells[row.weights > 0].tolist())
        if known == unknown:
            continue
        assert known - {place} <= unknown
        if guarantee.kind == "group":
            assert "the group of every protected word" in guarantee.public
            assert known == set(mechanism.mapping.outputs_of(mechanism.group_numbers[place]).tolist())
        elif guarantee.kind == "utility-optimised":
            assert place not in mechanism.protected
            assert known == unknown | {place}
            assert "outside the protected set that appears in the output is revealed" in guarantee.statement()
        elif guarantee.kind == "none":
            assert known == {place}
            assert "RELEASED AS IT IS" in guarantee.statement()
        else:
            assert not guarantee.sound
            assert guarantee.certified == np.inf


@pytest.mark.parametrize(("entry", "options"), CASES)
def test_a_greater_epsilon_does_not_give_more_noise(entry, options):
    """The chance to stay grows with epsilon (a smaller epsilon once gave less noise elsewhere)."""
    stays = []
    for epsilon in (0.05, 0.5, 2.0, 8.0):
        mechanism = compiled(entry, SPACES["float"], epsilon, options)
        if mechanism is not None:
            stays.append(np.mean([float(mechanism.row(w).probability(i)) for i, w in enumerate(words(40))]))
    assert stays == sorted(stays)


@pytest.mark.parametrize(("entry", "options"), CASES)
def test_any_text_goes_through_and_comes_out_of_the_vocabulary(entry, options):
    mechanism = compiled(entry, SPACES["float"], 3.0, options)
    sanitizer = sfumato.Sanitizer(mechanism)
    for text in ("Smith\x00 w1 😀 w2\u202e 42, w3!", "", " ", "w1" * 1000, "\ud800 lone surrogate"):
        out = sanitizer(text).text
        assert "Smith" not in out
        assert "42" not in out
        assert "😀" not in out
        assert out.count(",") == text.count(",")


@pytest.mark.parametrize("entry", sfumato.mechanisms(), ids=lambda e: e.name)
def test_only_sfumato_errors_leave_a_compiler(entry):
    given = {"epsilon": 1.0} if entry.takes_epsilon else {}
    for bad in ({"inputs": ["nowhere"]}, {"inputs": []}, {"outputs": []}):
        with pytest.raises(SfumatoError) as caught:
            sfumato.compile(entry.name, SPACES["float"], **given, **bad)
        assert "nowhere" not in str(caught.value)


def test_system_draws_are_not_repeatable():
    mechanism = sfumato.compile("tem", SPACES["float"], epsilon=0.01)
    ids = np.tile(np.arange(40), 10)
    assert not np.array_equal(mechanism.sample(ids, SystemSource()), mechanism.sample(ids, SystemSource()))


def require_draws_of(row, drawn, words):
    """Draws lie in a row's support, and their frequencies follow its integers (rare cells are pooled)."""
    chances = np.zeros(words)
    np.add.at(chances, row.cells, row.probabilities)
    counts = np.bincount(drawn, minlength=words)
    assert counts[chances == 0].sum() == 0
    expected = chances * len(drawn)
    rare = expected < 10
    counts, expected = np.append(counts[~rare], counts[rare].sum()), np.append(expected[~rare], expected[rare].sum())
    counts, expected = counts[expected > 0], expected[expected > 0]
    if len(counts) > 1:
        assert stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > CONFIDENCE


@pytest.fixture
def many_in_tails(monkeypatch):
    """Heads of the likeliest cells only: nearly every draw looks for its cell behind them."""
    monkeypatch.setattr(rowstore, "HEAD_BITS", 2)


@pytest.mark.usefixtures("many_in_tails")
@pytest.mark.parametrize(("entry", "options"), CASES)
def test_every_word_is_drawn_from_its_own_row_whichever_was_drawn_first(entry, options):
    """A batch of one row was once taken for one whose cells all words share."""
    mechanism = compiled(entry, SPACES["float"], 3.0, options)
    key = RunKey.from_seed(5)
    for first in (0, 39):
        mechanism.sample(np.array([first]), key.record(0))
    for word in (17, 0, 30, 39):
        drawn = mechanism.sample(np.full(20_000, word), key.record(1 + word))
        require_draws_of(mechanism.row(f"w{word}"), drawn, 40)


@pytest.mark.usefixtures("many_in_tails")
@pytest.mark.parametrize(("entry", "options"), CASES)
def test_every_word_is_drawn_from_its_own_row_where_one_is_left_for_the_last_batch(entry, options, monkeypatch):
    monkeypatch.setattr(rowstore, "_BATCH_CELLS", 1)
    monkeypatch.setattr(rowstore, "_LEAST_ROWS", 13)
    mechanism = compiled(entry, SPACES["float"], 3.0, options)
    assert [len(batch) for batch in rowstore.batches(mechanism.inputs, mechanism)] == [13, 13, 13, 1]
    ids = np.tile(np.arange(40), 3000)
    drawn = mechanism.sample(ids, RunKey.from_seed(6).record(0))
    for word in range(40):
        require_draws_of(mechanism.row(f"w{word}"), drawn[ids == word], 40)


@pytest.mark.usefixtures("many_in_tails")
@pytest.mark.parametrize("count", [1, 65])
@pytest.mark.parametrize(("entry", "options"), CASES)
def test_a_file_whose_last_part_has_a_single_row_gives_the_same_draws(entry, options, count, tmp_path):
    space = Space.from_arrays(words(count), np.random.default_rng(2).normal(size=(count, 3)))
    mechanism = compiled(entry, space, 3.0, options)
    if mechanism is None:
        return
    loaded = artifact.load(tmp_path / "m.sfm", artifact.save(mechanism, tmp_path / "m.sfm"))
    ids = np.repeat(np.arange(count), 100)
    drawn = loaded.sample(ids, RunKey.from_seed(7).record(0))
    assert np.array_equal(drawn, mechanism.sample(ids, RunKey.from_seed(7).record(0)))
    require_draws_of(mechanism.row("w0"), loaded.sample(np.full(5_000, 0), RunKey.from_seed(7).record(1)), count)


@functools.cache
def integer_cloud(count):
    """Whole numbers, so that blocks of rows are computed alone, with some words at distance 0."""
    vectors = np.random.default_rng(11).integers(-40, 40, (count, 6)).astype(np.int8)
    vectors[-9:] = vectors[:9]
    return Space.from_arrays(words(count), vectors, scale=0.1)


LARGE = 700
LARGE_SETTINGS = [
    ("tem", {"tuning": "published"}),
    ("tem", {"tuning": "best"}),
    ("tem", {"tuning": "published", "gamma": 1.0}),  # short rows
    ("santext", {"inputs": words(300), "outputs": words(LARGE)[200:]}),
    ("santext-plus", {"p": 0.7, "protected_share": 0.4}),
    ("custext", {"k": 20}),
    ("custext", {"k": 40, "mapping": "balanced", "tuning": "calibrated"}),
    ("custext", {"k": 20, "global_mix": 0.2}),
    ("truncated-gumbel", {}),
    ("random", {}),
]
DIFFERENTIAL = [pytest.param(*case.values, 40, id=case.id) for case in CASES] + [
    pytest.param(entry_of(name), options, LARGE, id=f"{LARGE}-{name}-{'-'.join(map(str, options))}-{number}")
    for number, (name, options) in enumerate(LARGE_SETTINGS)
]


@functools.cache
def pickled(name, options, count):
    """A mechanism that holds no rows, to be thawed anew for every example."""
    return pickle.dumps(compiled(entry_of(name), integer_cloud(count), 3.0, json.loads(options)))


def thawed(frozen, row_memory):
    mechanism = pickle.loads(frozen)
    mechanism._row_memory = row_memory
    return pickle.loads(pickle.dumps(mechanism))


def calls_over(count):
    """Sequences of calls, each for some words: one, a few or many, known or not."""
    ids = st.one_of(
        st.lists(st.integers(-1, count - 1), min_size=1, max_size=4).map(np.array),
        st.tuples(st.integers(0, count - 1), st.integers(1, 80)).map(lambda at: np.arange(at[0], min(sum(at), count))),
        st.integers(0, count - 1).map(lambda word: np.full(300, word)),
        st.just(np.arange(0, count, -(-count // 80))),
    )
    return st.lists(ids, min_size=1, max_size=5)


@pytest.mark.parametrize(("entry", "options", "count"), DIFFERENTIAL)
@settings(max_examples=8)
@given(data=st.data())
def test_a_draw_does_not_depend_on_what_was_drawn_before(entry, options, count, data):
    """Whatever rows are in memory, in whatever batches they were compiled: a keyed source decides alone."""
    frozen = pickled(entry.name, json.dumps(options), count)
    calls = data.draw(calls_over(count))
    memory = data.draw(st.sampled_from([1, 3_000, 60_000, 2**29]))
    least_rows = data.draw(st.sampled_from([None, 1, 3]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rowstore, "HEAD_BITS", data.draw(st.sampled_from([2, 10])))
        alone = [
            thawed(frozen, 2**29).sample(ids, RunKey.from_seed(8).record(at)).tolist() for at, ids in enumerate(calls)
        ]
        if least_rows:
            patch.setattr(rowstore, "_BATCH_CELLS", 1)
            patch.setattr(rowstore, "_LEAST_ROWS", least_rows)
        one = thawed(frozen, memory)
        assert [one.sample(ids, RunKey.from_seed(8).record(at)).tolist() for at, ids in enumerate(calls)] == alone


@pytest.mark.parametrize("memory", [3_000, 60_000])
@pytest.mark.parametrize(("entry", "options", "count"), DIFFERENTIAL[len(CASES) :])
def test_threads_with_little_memory_agree_with_a_single_one(entry, options, count, memory, monkeypatch):
    """Rows go out of memory for one thread while another draws from them."""
    monkeypatch.setattr(rowstore, "HEAD_BITS", 2)
    frozen = pickled(entry.name, json.dumps(options), count)
    little, alone = thawed(frozen, memory), thawed(frozen, 2**29)

    def draw(mechanism, at):
        ids = np.random.default_rng(at).integers(0, count, (1, 3, 40, 300)[at % 4])
        return mechanism.sample(ids, RunKey.from_seed(9).record(at)).tolist()

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda at: draw(little, at), range(12)))
    assert together == [draw(alone, at) for at in range(12)]
