"""One suite that every registered mechanism passes."""

import dataclasses
import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import sfumato
from sfumato.foundation.errors import CertificationError, ParameterError, SfumatoError, SpaceError
from sfumato.foundation.guarantee import Guarantee, guarantee_from_json
from sfumato.foundation.randomness import RunKey, SystemSource
from sfumato.mechanism.base import UNKNOWN, Mechanism, TableMechanism
from sfumato.mechanism.gumbel import least_epsilon
from sfumato.space import Space

EPSILONS = (0.01, 0.5, 3.0, 40.0)
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
        *({"tuning": tuning} for tuning in ("published", "calibrated", "floored", "best")),
        {"p": 1.0},
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
