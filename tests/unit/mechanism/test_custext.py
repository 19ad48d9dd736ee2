import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import linprog

import sfumato
from sfumato.foundation.errors import CertificationError, ParameterError, SpaceError
from sfumato.foundation.randomness import RunKey, SystemSource
from sfumato.mechanism import custext_mapping
from sfumato.mechanism.base import UNKNOWN
from sfumato.mechanism.custext import custext
from sfumato.mechanism.custext_mapping import MAPPINGS, SEMANTICS, build_mapping
from sfumato.mechanism.nearest import nearest, nearest_outputs
from sfumato.space import Space

CONFIDENCE = 1e-6
"""Chance that a right sampler fails one chi-square test; the seeds are fixed, so a pass stays a pass."""


def words(count):
    return [f"w{i}" for i in range(count)]


def space_of(count, seed=0, dimension=3, **options):
    return Space.from_arrays(words(count), np.random.default_rng(seed).normal(size=(count, dimension)), **options)


def glove_like(count=600, dimension=50):
    """Vectors with many near neighbours and a spread of lengths, as word vectors have."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(count // 10, dimension)) * 0.4
    vectors = centres[rng.integers(0, len(centres), count)] + rng.normal(size=(count, dimension)) * 0.25
    return Space.from_arrays(words(count), vectors)


def as_written(space, inputs, outputs, mapping, semantics, k):
    """The mapping word by word, as the text describes it; None where the outputs do not suffice."""
    distances = space.distances(np.arange(len(space)))
    given, left = {}, list(outputs)
    for word in inputs:
        if word in given and semantics == "published":
            continue
        near = sorted(left, key=lambda y: (distances[word, y], y))[:k]
        if not near:
            continue
        share = [y for y in near if y in inputs and (semantics == "literal" or y not in given)]
        for one in [word] if mapping == "aggressive" else [word, *share]:
            given[one] = frozenset(near)
        if mapping == "conservative":
            left = [y for y in left if y not in near]
    return None if any(word not in given for word in inputs) else given


@settings(max_examples=60)
@given(st.data())
def test_the_mapping_is_the_one_that_is_described(data):
    count = data.draw(st.integers(2, 25))
    space = space_of(count, seed=data.draw(st.integers(0, 10**6)), dimension=2)
    subsets = st.one_of(st.just(list(range(count))), st.sets(st.integers(0, count - 1), min_size=1).map(sorted))
    inputs, outputs = data.draw(subsets), data.draw(subsets)
    choices = (
        data.draw(st.sampled_from(MAPPINGS)),
        data.draw(st.sampled_from(SEMANTICS)),
        data.draw(st.integers(1, 30)),
    )
    expected = as_written(space, inputs, outputs, *choices)
    if expected is None:
        with pytest.raises(ParameterError, match="ran out of outputs"):
            build_mapping(space, np.array(inputs), np.array(outputs), *choices)
        return
    found = build_mapping(space, np.array(inputs), np.array(outputs), *choices)
    for word, group in zip(inputs, found.group_numbers.tolist(), strict=True):
        assert set(found.outputs_of(group).tolist()) == expected[word]
    assert len(found) == len(set(expected.values()))
    assert found.group_numbers[0] == 0  # groups are numbered by their first word
    assert sum(found.sizes) == len(inputs)


def test_the_conservative_mapping_is_a_partition_and_its_remainder_reuses_nothing():
    found = build_mapping(space_of(43), np.arange(43), np.arange(43), "conservative", "published", 20)
    assert sorted(found.sizes.tolist()) == [3, 20, 20]
    outputs = np.concatenate([found.outputs_of(group) for group in range(3)])
    assert sorted(outputs.tolist()) == list(range(43))


def test_the_blocks_in_which_distances_are_computed_do_not_matter(monkeypatch):
    space, every = space_of(150), np.arange(150)
    for mapping in MAPPINGS:
        for semantics in SEMANTICS:
            whole = build_mapping(space, every, every, mapping, semantics, 6)
            with monkeypatch.context() as patch:
                patch.setattr(custext_mapping, "BLOCK_CELLS", 700)
                parts = build_mapping(space, every, every, mapping, semantics, 6)
            assert np.array_equal(whole.group_numbers, parts.group_numbers)
            assert np.array_equal(whole.output_sets, parts.output_sets)


def test_a_mapping_is_kept_on_disk_and_a_damaged_file_is_not_believed(monkeypatch, cache_dir):
    monkeypatch.setattr(custext_mapping, "_SMALLEST_WORTH_KEEPING", 10)
    space, every = space_of(60, seed=77), np.arange(60)
    first = build_mapping(space, every, every, "balanced", "published", 5)
    (file,) = cache_dir.glob("mapping-*.npz")
    with monkeypatch.context() as patch:
        patch.setattr(custext_mapping, "_walk", None)  # would fail if it were called
        again = build_mapping(space, every, every, "balanced", "published", 5)
    assert np.array_equal(first.output_sets, again.output_sets)
    file.write_bytes(b"damaged")
    once_more = build_mapping(space, every, every, "balanced", "published", 5)
    assert np.array_equal(first.group_numbers, once_more.group_numbers)
    other = build_mapping(space, every, every, "balanced", "published", 6)
    assert len(other) != len(first)
    for one in cache_dir.glob("mapping-*.npz"):
        one.unlink()


def test_nearest_breaks_ties_by_place():
    assert nearest(np.array([1.0, 0.0, 1.0, 1.0]), 3).tolist() == [1, 0, 2]
    assert nearest(np.array([1.0, 1.0]), 5).tolist() == [0, 1]
    space = Space.from_arrays(words(5), [[0.0], [1.0], [-1.0], [2.0], [-2.0]])
    places, distances = nearest_outputs(space, space.points[[0]], np.arange(5), 4)
    assert places.tolist() == [[0, 1, 2, 3]]
    assert distances.tolist() == [[0.0, 1.0, 1.0, 2.0]]


def test_scores_are_normalised_over_each_row_and_equal_ones_give_a_uniform_row():
    triangle = Space.from_arrays(words(3), np.eye(3))
    without_self = custext(triangle, epsilon=3.0, k=2, inputs=["w0"], outputs=["w1", "w2"])
    assert without_self.row("w0").probabilities == pytest.approx([0.5, 0.5], rel=1e-12)
    line = Space.from_arrays(words(3), [[0.0], [1.0], [100.0]])
    row = custext(line, epsilon=2.0, k=3).row("w0").probabilities
    expected = np.exp([1.0, 0.99, 0.0])
    assert row == pytest.approx(expected / expected.sum(), rel=1e-6)


def test_cosine_is_measured_on_directions():
    vectors = np.array([[1.0, 0.0], [10.0, 1.0], [1.0, 1.0], [0.0, 2.0]])
    space = Space.from_arrays(words(4), vectors)
    row = custext(space, epsilon=2.0, k=4, similarity="cosine").row("w0").probabilities
    cosines = vectors[:, 0] / np.linalg.norm(vectors, axis=1)
    expected = np.exp((cosines - cosines.min()) / (cosines.max() - cosines.min()))
    assert row == pytest.approx(expected / expected.sum(), rel=1e-6)
    angles = Space.from_arrays(words(4), vectors, metric="angle")
    assert custext(angles, epsilon=2.0, k=4).row("w0").probabilities == pytest.approx(row, rel=1e-9)
    euclidean = custext(space, epsilon=2.0, k=4).row("w0").probabilities
    assert custext(angles, epsilon=2.0, k=4, similarity="euclidean").row("w0").probabilities == pytest.approx(euclidean)
    with pytest.raises(SpaceError, match="zero"):
        custext(Space.from_arrays(words(2), [[0.0], [1.0]]), epsilon=1.0, similarity="cosine")


def test_a_users_own_metric_is_the_similarity():
    def taxi(a, b):
        return np.abs(a[:, None, :] - b[None, :, :]).sum(axis=2)

    space = Space.from_arrays(words(3), [[0.0, 0.0], [1.5, 1.5], [2.5, 0.0]], metric=taxi)
    sets = custext(space, epsilon=1.0, k=2, mapping="aggressive").mapping
    assert sets.outputs_of(sets.group_numbers[0]).tolist() == [0, 2]
    assert sfumato.verify(custext(space, epsilon=1.0, k=2)).passed


def expected_distance(mechanism):
    space = mechanism.space
    rows = ((i, mechanism.row(space.words[i])) for i in mechanism.inputs.tolist())
    return np.mean([row.probabilities @ space.distances(np.array([i]), row.cells)[0] for i, row in rows])


@pytest.mark.parametrize("mapping", ["conservative", "balanced"])
def test_each_tuning_moves_words_less_than_the_one_before(mapping):
    """The order of the reference setting (epsilon 5, K 20: 3.318, 1.282, 0.552)."""
    space = glove_like()
    found = [
        expected_distance(custext(space, epsilon=5.0, mapping=mapping, tuning=tuning))
        for tuning in ("published", "calibrated", "lp")
    ]
    assert found[0] > 1.5 * found[1] > 2 * found[2]


@pytest.mark.parametrize("tuning", ["published", "calibrated", "lp"])
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 8.0, 60.0])
def test_every_group_is_within_epsilon_on_exact_rationals(tuning, epsilon):
    mechanism = custext(space_of(90), epsilon=epsilon, k=8, mapping="balanced", tuning=tuning)
    result = sfumato.verify(mechanism)
    assert result.passed
    assert len(result.per_group) == mechanism.guarantee.groups
    assert max(result.per_group) == result.realised <= mechanism.guarantee.certified <= epsilon
    report = mechanism.report()
    assert report.realised == pytest.approx(result.per_group, abs=2e-13)
    if tuning != "published" and epsilon < 20:
        assert result.realised == pytest.approx(epsilon, rel=1e-6)  # the tunings waste nothing


def test_the_linear_program_finds_the_optimum():
    """The same optimum as the program with a constraint for every pair of words, written down naively."""
    space, epsilon, k = space_of(6, seed=4), 1.3, 6
    mechanism = custext(space, epsilon=epsilon, k=k, tuning="lp")
    costs = space.distances(np.arange(6))
    limits = []
    for x in range(6):
        for other in range(6):
            for y in range(k) if x != other else ():
                line = np.zeros((6, k))
                line[x, y], line[other, y] = 1.0, -np.exp(epsilon)
                limits.append(line.ravel())
    sums = np.kron(np.eye(6), np.ones(k))
    naive = linprog(costs.ravel(), A_ub=np.array(limits), b_ub=np.zeros(len(limits)), A_eq=sums, b_eq=np.ones(6))
    assert 6 * expected_distance(mechanism) == pytest.approx(naive.fun, rel=1e-5)


def test_what_the_solver_gets_wrong_is_repaired_on_the_integers(monkeypatch):
    class Wrong:
        x = np.concatenate([np.eye(5).ravel(), np.ones(5)])  # no privacy at all

    monkeypatch.setattr("scipy.optimize.linprog", lambda *_, **__: Wrong())
    mechanism = custext(space_of(5), epsilon=0.7, k=5, tuning="lp")
    assert sfumato.verify(mechanism).passed
    Wrong.x = None
    mechanism = custext(space_of(5), epsilon=0.7, k=5, tuning="lp")
    assert mechanism.row("w0").probabilities == pytest.approx([0.2] * 5, rel=1e-9)


def test_groups_are_solved_when_they_occur_and_a_pickle_does_not_tell_which():
    mechanism = custext(space_of(60), epsilon=2.0, k=6, tuning="lp")
    _ = mechanism.space.index
    before = pickle.dumps(mechanism)
    row = mechanism.row("w7")
    mechanism.sample(np.arange(20), SystemSource())
    assert 1 <= len(mechanism._solved) < mechanism.guarantee.groups
    assert len(pickle.dumps(mechanism)) == len(before)
    thawed = pickle.loads(pickle.dumps(mechanism))
    assert not thawed._solved
    assert np.array_equal(thawed.row("w7").weights, row.weights)


def test_words_alone_keep_their_published_row_under_every_tuning():
    space = space_of(50)
    rows = {}
    for tuning in ("published", "calibrated", "lp"):
        mechanism = custext(space, epsilon=3.0, k=5, mapping="aggressive", tuning=tuning)
        assert mechanism.guarantee.words_alone == (mechanism.mapping.sizes == 1).sum() > 25
        assert "have no protection" in mechanism.guarantee.statement()
        alone = np.flatnonzero(mechanism.mapping.sizes[mechanism.group_numbers] == 1)[0]
        rows[tuning] = mechanism.row(space.words[alone])
    assert np.array_equal(rows["published"].weights, rows["lp"].weights)
    assert np.array_equal(rows["published"].weights, rows["calibrated"].weights)


def test_the_report_counts_every_word_once():
    report = custext(space_of(50), epsilon=3.0, k=4, mapping="balanced").report()
    assert report.words == report.many_to_many + report.many_to_one + report.one_to_many + report.one_to_one == 50
    assert report.one_to_many == (report.sizes == 1).sum() > 0
    assert report.realised[report.sizes == 1].max() == 0.0
    assert report.to_json()["groups"] == report.groups == len(report.output_counts)
    single = custext(space_of(50), epsilon=3.0, k=1).report()
    assert single.one_to_one == 50
    shared = custext(space_of(50), epsilon=3.0, k=1, outputs=["w3"], mapping="balanced").report()
    assert shared.many_to_one == 50


def test_a_smaller_group_never_draws_what_only_fills_up_its_row():
    space = space_of(43)
    mechanism = custext(space, epsilon=0.5, k=20)
    small = int(np.flatnonzero(mechanism.mapping.sizes == 3)[0])
    (word, *_) = mechanism.mapping.members(small).tolist()
    outputs = mechanism.mapping.outputs_of(small)
    row = mechanism.row(space.words[word])
    assert row.cells.tolist() == outputs.tolist()
    drawn = mechanism.sample(np.full(100_000, word), RunKey.from_seed(0).record(0))
    counts = np.bincount(drawn, minlength=43)
    assert counts.sum() == counts[outputs].sum()
    assert stats.chisquare(counts[outputs], row.probabilities * counts.sum()).pvalue > CONFIDENCE


@pytest.mark.parametrize("options", [{"tuning": "calibrated"}, {"tuning": "lp"}, {"global_mix": 0.3}])
def test_draws_follow_the_rows(options):
    space = space_of(40)
    mechanism = custext(space, epsilon=2.0, k=10, **options)
    row = mechanism.row("w5")
    drawn = mechanism.sample(np.full(100_000, 5), RunKey.from_seed(1).record(0))
    likely = row.probabilities > 1e-4
    counts = np.bincount(drawn, minlength=40)[row.cells]
    observed = np.append(counts[likely], counts[~likely].sum())
    expected = np.append(row.probabilities[likely], row.probabilities[~likely].sum()) * 100_000
    if expected[-1] < 5:
        observed, expected = observed[:-1], expected[:-1] * observed[:-1].sum() / expected[:-1].sum()
    assert stats.chisquare(observed, expected).pvalue > CONFIDENCE


def test_a_global_mix_bounds_the_loss_between_unlike_groups():
    space = space_of(60)
    plain = custext(space, epsilon=1.0, k=6)
    assert plain.guarantee.global_epsilon == np.inf
    assert "The group is not protected" in plain.guarantee.statement()
    mixed = custext(space, epsilon=1.0, k=6, global_mix=0.05)
    assert mixed.guarantee.global_epsilon == pytest.approx(np.log1p(0.95 * 60 / 0.05), abs=1e-6)
    assert "not protected" not in mixed.guarantee.statement()
    result = sfumato.verify(mixed)
    assert result.passed
    assert 1.0 < result.global_bound <= result.global_claimed == mixed.guarantee.global_epsilon
    assert mixed.guarantee.repeated(3).global_epsilon == pytest.approx(3 * mixed.guarantee.global_epsilon)
    tampered = custext(space, epsilon=1.0, k=6, global_mix=0.0005)
    tampered.guarantee = mixed.guarantee
    assert not sfumato.verify(tampered).passed


def test_words_of_unlike_groups_are_told_apart_and_the_verifier_says_which_groups_hold():
    space = space_of(20)
    mechanism = custext(space, epsilon=1.0, k=5)
    other = custext(space, epsilon=1.0, k=4)
    mechanism.mapping, mechanism.guarantee = other.mapping, mechanism.guarantee
    with pytest.raises(CertificationError, match="groups"):
        sfumato.verify(mechanism)


def test_epsilon_too_small_for_integers_is_refused():
    with pytest.raises(CertificationError, match="rounding"):
        custext(space_of(30), epsilon=1e-14, k=5)
    assert sfumato.verify(custext(space_of(30), epsilon=1e-14, k=5, tuning="calibrated")).passed


def test_options_outside_their_domain_are_refused_together():
    with pytest.raises(ParameterError) as caught:
        custext(
            space_of(3), epsilon=-1, mapping="wild", semantics="x", tuning="best", similarity="dot", k=0, global_mix=1.0
        )
    for name in ("epsilon", "mapping", "semantics", "tuning", "similarity", "k must", "global_mix"):
        assert name in str(caught.value)
    with pytest.raises(ParameterError, match="lists of words"):
        custext(space_of(3), epsilon=1.0, inputs="w0")


def test_unknown_words_are_drawn_from_all_outputs():
    mechanism = custext(space_of(30), epsilon=9.0, k=3, outputs=words(30)[:12], mapping="balanced")
    drawn = mechanism.sample(np.full(3000, UNKNOWN), RunKey.from_seed(0).record(0))
    assert set(drawn.tolist()) == set(range(12))
