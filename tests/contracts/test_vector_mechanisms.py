"""One suite that every mechanism made of noise on vectors passes."""

import dataclasses
import json
import math
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import stats

import sfumato
from sfumato.foundation.errors import CertificationError, MissingExtraError, ParameterError
from sfumato.foundation.guarantee import MetricGuarantee, guarantee_from_json
from sfumato.foundation.randomness import RunKey, SystemSource
from sfumato.mechanism.base import UNKNOWN, Mechanism
from sfumato.mechanism.transforms import TRANSFORMS
from sfumato.mechanism.vector import DECODINGS, MAPPINGS, NOISES, VectorMechanism
from sfumato.space import Space

NAMES = ("laplace", "mahalanobis", "vickrey")
CONFIDENCE = 1e-6
"""Chance that the confidence bounds of one statistical test do not all hold; keys are fixed, so a pass stays a pass.

It is the chance that a right mechanism fails where a *lower* bound is compared with a promise.  What is said of upper bounds
is explained where they are used.
"""


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
    "duplicates": with_duplicates(),
    "one word": Space.from_arrays(["only"], [[1.0, 2.0]]),
    "two words": Space.from_arrays(["one", "two"], [[0.0, 1.0], [1e-2, 1.0]]),
}


def settings_of(entry):
    """Every named choice of a mechanism's options, one at a time."""
    choices = {"transform": TRANSFORMS, "noise": NOISES, "mapping": MAPPINGS, "decoding": DECODINGS}
    for option, values in choices.items():
        for value in values if option in entry.options else ():
            more = {"jl_beta": 3.0, "jl_dimension": 2} if value == "jl" else {}
            yield {option: value, **more}
            if option == "transform":
                yield {option: value, "noise": "plain", **more}


ENTRIES = [entry for entry in sfumato.mechanisms() if entry.name in NAMES]
CASES = [
    pytest.param(entry, options, id="-".join([entry.name, *(str(v) for v in options.values() if isinstance(v, str))]))
    for entry in ENTRIES
    for options in settings_of(entry)
]
WORD_CASES = [case for case in CASES if case.values[1].get("mapping") != "none"]


def compiled(entry, space, epsilon, options):
    try:
        return sfumato.compile(entry.name, space, epsilon=epsilon, **options)
    except MissingExtraError as missing:
        return pytest.skip(str(missing))


def key(seed=0):
    return RunKey.from_seed(seed).record(0)


@pytest.mark.parametrize(("entry", "options"), WORD_CASES)
def test_known_and_unknown_words_have_the_same_outputs(entry, options):
    """Noise reaches every place from every other, so an output that is possible for some word is possible for all."""
    mechanism = compiled(entry, SPACES["float"], 500.0, options)
    known = mechanism.sample(np.tile(np.arange(40), 50), key())
    unknown = mechanism.sample(np.full(4000, UNKNOWN), key())  # a miss has probability below 40 exp(-100)
    assert set(known.tolist()) == set(unknown.tolist()) == set(range(40))


def test_these_are_all_mechanisms_of_their_kind():
    found = [
        entry.name for entry in sfumato.mechanisms()
        if isinstance(entry.compiler(SPACES["float"], **({"epsilon": 50.0} if entry.takes_epsilon else {})), VectorMechanism)
    ]  # fmt: skip
    assert tuple(found) == NAMES


@pytest.mark.parametrize(("entry", "options"), CASES)
def test_guarantee_fields_are_complete(entry, options):
    mechanism = compiled(entry, SPACES["float"], 3.0, options)
    assert isinstance(mechanism, Mechanism)
    guarantee = mechanism.guarantee
    assert isinstance(guarantee, MetricGuarantee)
    assert guarantee.kind == entry.guarantee_kind
    assert guarantee.sound
    assert entry.sound
    assert guarantee.mechanism == entry.name
    assert guarantee.arithmetic == "float64"
    assert guarantee.metric == "euclidean"
    assert 0 < guarantee.certified <= guarantee.epsilon
    if options.get("noise") != "plain":
        assert guarantee.epsilon == 3.0
    assert guarantee.radius == SPACES["float"].statistics.diameter
    assert "mean length" in guarantee.statement()
    assert guarantee_from_json(json.loads(json.dumps(guarantee.to_json()))) == guarantee
    with pytest.raises(dataclasses.FrozenInstanceError):
        guarantee.epsilon = 0.0


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("epsilon", [0.01, 3.0, 40.0])
@pytest.mark.parametrize(("entry", "options"), WORD_CASES)
def test_every_space_and_epsilon_gives_words_of_the_outputs(entry, options, epsilon, space):
    if options.get("transform") == "jl" and len(space) == 2:
        pytest.skip("one pair: another matrix is tested by its own tests")
    if options.get("transform") == "jl" and space.dimension == 2:
        options = {**options, "jl_dimension": 1}
    mechanism = compiled(entry, space, epsilon, options)
    ids = np.concatenate([np.arange(len(space)), [UNKNOWN]])
    drawn = mechanism.sample(ids, key())
    assert ((drawn >= 0) & (drawn < len(space))).all()
    vectors = mechanism.vectors(ids, key())
    assert vectors.shape == (len(ids), mechanism.field.dimension)
    assert np.isfinite(vectors).all()
    assert mechanism.guarantee.certified <= mechanism.guarantee.epsilon


@pytest.mark.parametrize(("entry", "options"), WORD_CASES)
def test_words_with_the_same_vector_come_out_alike(entry, options):
    mechanism = compiled(entry, SPACES["duplicates"], 0.3, options)
    ids = np.tile(np.arange(20), 50)
    assert np.array_equal(mechanism.sample(ids, key()), mechanism.sample(ids + 20, key()))


@pytest.mark.parametrize(("entry", "options"), WORD_CASES)
def test_equal_run_keys_give_equal_results_and_others_do_not(entry, options):
    mechanism = compiled(entry, SPACES["float"], 3.0, options)
    ids = np.tile(np.arange(40), 10)
    first = mechanism.sample(ids, key(1))
    assert np.array_equal(first, mechanism.sample(ids, key(1)))
    assert not np.array_equal(first, mechanism.sample(ids, key(2)))
    assert not np.array_equal(first, mechanism.sample(ids, RunKey.from_seed(1).record(1)))
    again = compiled(entry, SPACES["float"], 3.0, options)
    assert np.array_equal(first, again.sample(ids, key(1)))
    thawed = pickle.loads(pickle.dumps(mechanism))
    assert np.array_equal(first, thawed.sample(ids, key(1)))
    parts = [mechanism.sample(ids[i : i + 1], RunKey.from_seed(1).record(i)) for i in range(100)]
    batch = mechanism.sample(ids[:100], RunKey.from_seed(1).records(range(100), [1] * 100))
    assert np.array_equal(np.concatenate(parts), batch)


@pytest.mark.parametrize(("entry", "options"), WORD_CASES)
def test_threads_agree_with_a_single_one(entry, options):
    mechanism = compiled(entry, SPACES["float"], 3.0, options)

    def draw(seed):
        return mechanism.sample(np.arange(40), key(seed)).tolist()

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(draw, range(8)))
    assert together == [draw(seed) for seed in range(8)]


@pytest.mark.parametrize(("entry", "options"), WORD_CASES)
def test_an_unknown_word_is_drawn_from_the_outputs_whatever_it_was(entry, options):
    mechanism = compiled(entry, SPACES["float"], 40.0, options)
    drawn = mechanism.sample(np.full(4000, UNKNOWN), key())
    assert set(drawn.tolist()) == set(range(40))  # a miss has probability below 40 exp(-100)
    some = compiled(entry, SPACES["float"], 40.0, {**options, "inputs": words(20), "outputs": words(40)[10:]})
    drawn = some.sample(np.tile([UNKNOWN, 30], 2000), key())
    assert set(drawn.tolist()) == set(range(10, 40))


@pytest.mark.parametrize(("entry", "options"), WORD_CASES)
def test_a_greater_epsilon_gives_less_noise(entry, options):
    stays = []
    ids = np.tile(np.arange(40), 100)
    for epsilon in (0.1, 2.0, 10.0, 100.0):
        mechanism = compiled(entry, SPACES["float"], epsilon, options)
        stays.append(np.mean(mechanism.sample(ids, key()) == ids))
    assert stays == sorted(stays)
    assert stays[-1] > stays[0] + 0.1


@pytest.mark.parametrize(("entry", "options"), WORD_CASES)
def test_any_text_goes_through_and_comes_out_of_the_vocabulary(entry, options):
    sanitizer = sfumato.Sanitizer(compiled(entry, SPACES["float"], 3.0, options))
    for text in ("Smith\x00 w1 😀 w2\u202e 42, w3!", "", " ", "w1" * 1000, "\ud800 lone surrogate"):
        out = sanitizer(text).text
        assert "Smith" not in out
        assert "😀" not in out
        assert out.count(",") == text.count(",")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_other_metrics_are_refused(entry):
    with pytest.raises(ParameterError, match="euclidean"):
        sfumato.compile(entry.name, cloud(metric="angle"), epsilon=1.0)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_only_tables_are_verified_exactly(entry):
    with pytest.raises(CertificationError, match="table"):
        sfumato.verify(sfumato.compile(entry.name, SPACES["float"], epsilon=1.0))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_system_draws_are_not_repeatable(entry):
    mechanism = sfumato.compile(entry.name, SPACES["float"], epsilon=0.1)
    ids = np.tile(np.arange(40), 10)
    assert not np.array_equal(mechanism.sample(ids, SystemSource()), mechanism.sample(ids, SystemSource()))
    assert not (mechanism.vectors(ids, SystemSource()) == mechanism.vectors(ids, SystemSource())).any()


def log_ratio_bounds(counts, others, comparisons):
    """Clopper-Pearson bounds of ln(p / p') for every output, all of them right with the stated confidence."""
    share = CONFIDENCE / (4 * comparisons)

    def bounds(found):
        total = found.sum()
        low = np.where(found > 0, stats.beta.ppf(share, np.maximum(found, 1), total - found + 1), 0.0)
        return low, stats.beta.isf(share, found + 1, np.maximum(total - found, 1))

    with np.errstate(divide="ignore"):
        (low, high), (other_low, other_high) = bounds(counts), bounds(others)
        return np.log(low / other_high), np.log(high) - np.log(other_low)


TRIANGLE = Space.from_arrays(words(4), [[0.0, 0.0, 1.0], [1.0, 0.2, 0.0], [0.1, 1.2, 0.2], [0.9, 1.1, 1.3]])
"""Few words, so that none is rare, in enough dimensions that no whole cell has the worst ratio of a single vector."""
TWINS = Space.from_arrays(words(6), np.vstack([TRIANGLE.vectors, TRIANGLE.vectors[[0, 2]]]))
"""The same places, two of them with two words."""
DRAWS = 100_000


@dataclasses.dataclass(frozen=True)
class Loss:
    """What was seen of a pair of inputs, at the output where it is greatest."""

    lower: float
    """Lower confidence bound of the log-ratio."""
    upper: float
    """Upper confidence bound of the log-ratio."""
    again: float
    """What the upper bound stays below where the same is drawn again; see :func:`losses`."""
    promised: float


def losses(mechanism, draws=DRAWS):
    """What is seen of every pair of inputs.

    All confidence bounds hold together but for a chance of CONFIDENCE.  Once they do, the true log-ratio is at most the
    upper bound of this time.  Another time the lower bound is at most the true log-ratio, and the upper bound is as far above
    the lower one as now (the counts are large, so that this hardly changes): it is at most ``again``.
    """
    count = len(mechanism.space)
    counts = [np.bincount(mechanism.sample(np.full(draws, word), key(word)), minlength=count) for word in range(count)]
    seen = np.sum(counts, axis=0) > 0  # of words on one place some never come out, for any input
    promised = mechanism.guarantee.certified * mechanism.space.distances(np.arange(count))
    comparisons = count * (count - 1) * count
    for one in range(count):
        for other in range(count):
            if one != other:
                lower, upper = log_ratio_bounds(counts[one][seen], counts[other][seen], comparisons)
                again = upper + (upper - lower)
                yield Loss(lower.max(), upper.max(), again.max(), promised[one, other])


LOSS_CASES = [
    pytest.param(name, space, options, id="-".join([name, *(str(v) for v in options.values() if v != 3.0)]) + more)
    for name, space, options, more in [
        *(("laplace", TRIANGLE, {"transform": transform}, "") for transform in TRANSFORMS if transform != "jl"),
        ("laplace", TRIANGLE, {"transform": "jl", "jl_beta": 3.0, "jl_dimension": 2}, ""),
        ("laplace", TRIANGLE, {"transform": "min-max", "noise": "plain"}, ""),
        ("laplace", TRIANGLE, {"decoding": "approximate", "probes": 1}, ""),
        ("laplace", TWINS, {}, "-twins"),
        ("vickrey", TRIANGLE, {}, ""),
        ("vickrey", TRIANGLE, {"t": 0.2}, ""),
        ("vickrey", TRIANGLE, {"t": 0.9}, ""),
        ("vickrey", TRIANGLE, {"t": 0.9, "decoding": "approximate", "probes": 1}, ""),
        ("vickrey", TWINS, {"t": 0.3}, "-twins"),
        ("mahalanobis", TRIANGLE, {}, ""),
        ("mahalanobis", TRIANGLE, {"noise": "plain", "lam": 0.9}, ""),
        ("mahalanobis", TWINS, {"mapping": "vickrey", "t": 0.7}, "-twins"),
    ]
]


@pytest.mark.parametrize(("name", "space", "options"), LOSS_CASES)
def test_the_loss_measured_on_draws_is_within_the_guarantee(name, space, options):
    """No lower bound of a log-ratio is above what is promised for the distance: of a right mechanism that fails with a
    chance of at most CONFIDENCE, and it finds out noise that is too small (below).

    Here the upper bounds are not above it either, which says more: that the promise is kept on these cells, with
    1 - CONFIDENCE.  A right mechanism need not pass that, only one that keeps well within its promise on whole cells, and
    these do: what the upper bounds would be in another run is within it as well, so that passing is no matter of keys.
    """
    epsilon = 0.8 if options.get("noise") != "plain" else 0.5
    mechanism = compiled(sfumato_entry(name), space, epsilon, options)
    for loss in losses(mechanism):
        assert loss.lower <= loss.promised
        if loss.promised > 0:  # words on one place have the same law, which no upper bound of a sample can be below
            assert loss.upper <= loss.again <= loss.promised


def sfumato_entry(name):
    return next(entry for entry in ENTRIES if entry.name == name)


@pytest.mark.parametrize("mapping", ["nearest", "vickrey"])
def test_decoding_that_often_misses_keeps_the_promise(mapping):
    options = {"mapping": mapping, "t": 0.7, "decoding": "approximate", "probes": 1}
    mechanism = compiled(sfumato_entry("laplace"), cloud(30, 3), 0.5, options)
    assert mechanism.recall < 0.9
    assert all(loss.lower <= loss.promised for loss in losses(mechanism, 20_000))


def test_noise_that_is_too_small_is_found_out():
    """The same measurement exposes a mechanism whose noise is half of what its guarantee needs.

    On a line the outermost words reach the promise exactly, so nothing is hidden by slack.
    """
    line = Space.from_arrays(words(3), [[0.0], [1.0], [2.0]])
    right = sfumato.compile("laplace", line, epsilon=1.0)
    assert all(loss.lower <= loss.promised for loss in losses(right))
    assert max(loss.lower / loss.promised for loss in losses(right)) > 0.9
    wrong = dataclasses.replace(right, rate=2 * right.rate)
    assert any(loss.lower > loss.promised for loss in losses(wrong))


@pytest.mark.parametrize("name", NAMES)
def test_the_loss_measured_on_vectors_is_within_the_guarantee(name):
    """For half-spaces and balls of noisy vectors, which decoding does not coarsen."""
    mechanism = sfumato.compile(name, TRIANGLE, epsilon=2.0)
    vectors = [mechanism.vectors(np.full(DRAWS, word), key(word)) for word in range(4)]
    start = TRIANGLE.vectors
    reached = []
    for one in range(4):
        for other in range(4):
            if one == other:
                continue
            towards = start[one] - start[other]
            edges = [start[one] @ towards, (start[one] + start[other]) @ towards / 2]
            counts = [
                np.array([int((v @ towards > edge).sum()) for edge in edges]) for v in (vectors[one], vectors[other])
            ]
            share = CONFIDENCE / (2 * 12 * 2)
            low = stats.beta.ppf(share, counts[0], DRAWS - counts[0] + 1)
            high = stats.beta.isf(share, counts[1] + 1, DRAWS - counts[1])
            promised = mechanism.guarantee.certified * math.dist(start[one], start[other])
            assert np.log(low / high).max() <= promised
            reached.append(np.log(low / high).max() / promised)
    assert max(reached) > 0.3  # the comparison is not an idle one
