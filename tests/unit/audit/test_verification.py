import math

import numpy as np
import pytest

import sfumato
from sfumato.audit.verification import verify
from sfumato.foundation.errors import CertificationError
from sfumato.foundation.guarantee import GaussianGuarantee, GroupGuarantee, MetricGuarantee, NoGuarantee, PureGuarantee
from sfumato.mechanism.exponential import ExponentialMechanism, tem
from sfumato.mechanism.table import DenseTable
from sfumato.space import Space


def space_of(count, seed=0, dimension=3):
    vectors = np.random.default_rng(seed).normal(size=(count, dimension))
    return Space.from_arrays([f"w{i}" for i in range(count)], vectors)


def claim(epsilon, **fields):
    return MetricGuarantee(mechanism="table", epsilon=epsilon, certified=epsilon, metric="euclidean", **fields)


def test_a_wrong_bottom_element_is_found_out():
    """Bottom scores with ln(|W| / |L|) in place of ln|W \\ L| leak several times the epsilon they promise."""
    epsilon, gamma, count = 2.0, 1.5, 80
    space = space_of(count, seed=8)
    distances = space.distances(np.arange(count))
    table = np.zeros((count, count))
    for word in range(count):
        inside = distances[word] <= gamma
        outside = np.flatnonzero(~inside)
        table[word, inside] = np.exp(-epsilon / 2 * distances[word, inside])
        bottom = math.exp(epsilon / 2 * (-gamma + 2 / epsilon * math.log(count / inside.sum())))
        table[word, outside] = bottom / max(len(outside), 1)
    result = verify(DenseTable.from_probabilities(space, table, claim(epsilon, radius=gamma)))
    assert not result.passed
    assert result.realised > 1.5 * epsilon


def test_a_bottom_branch_that_returns_the_input_is_found_out():
    epsilon, gamma, count = 2.0, 1.5, 60
    space = space_of(count, seed=9)
    distances = space.distances(np.arange(count))
    table = np.exp(-epsilon / 2 * np.minimum(distances, gamma))
    tail = np.where(distances > gamma, table, 0)
    table -= tail
    table[np.arange(count), np.arange(count)] += tail.sum(axis=1)
    assert not verify(DenseTable.from_probabilities(space, table, claim(epsilon, radius=gamma))).passed


def test_an_excluded_input_word_is_found_out():
    space = space_of(30)
    table = np.exp(-space.distances(np.arange(30)) / 2)
    np.fill_diagonal(table, 0.0)
    assert not verify(DenseTable.from_probabilities(space, table, claim(1.0))).passed


def test_an_empty_cell_is_an_infinite_loss():
    space = space_of(3)
    weights = np.full((3, 3), 2**40, dtype=np.uint64)
    weights[1, 2] = 0
    result = verify(DenseTable(space, weights, claim(100.0)))
    assert not result.passed
    assert math.isinf(result.bound)


def test_unequal_rows_of_words_at_distance_zero_are_an_infinite_loss():
    space = Space.from_arrays(["a", "b"], [[0.0], [0.0]])
    weights = np.array([[5, 6], [6, 5]], dtype=np.uint64) << np.uint64(40)
    assert math.isinf(verify(DenseTable(space, weights, claim(1.0))).bound)
    weights[1] = weights[0]
    assert verify(DenseTable(space, weights, claim(1.0))).passed


def test_a_pure_claim_is_checked_without_distances():
    space = space_of(2)
    weights = np.array([[3, 1], [1, 3]], dtype=np.uint64) << np.uint64(40)
    for epsilon, holds in ((math.log(3) + 1e-9, True), (math.log(3) - 1e-9, False)):
        claimed = PureGuarantee(mechanism="coin", epsilon=epsilon, certified=epsilon)
        result = verify(DenseTable(space, weights, claimed))
        assert result.passed is holds
        assert result.realised == pytest.approx(math.log(3), rel=1e-14)


@pytest.mark.parametrize("tuning", ["published", "calibrated", "tight", "filled", "floored", "best"])
def test_the_certificate_bounds_what_every_ratio_shows(tuning):
    space = space_of(120, dimension=20)
    for epsilon in (0.3, 1.0, 3.0):
        try:
            mechanism = tem(space, epsilon=epsilon, tuning=tuning)
        except CertificationError:
            assert tuning == "tight"
            continue
        result = verify(mechanism)
        assert result.exhaustive
        assert result.realised <= mechanism.certificate.epsilon <= epsilon
        # ... and not by much: the closed form is exact but for the allowance for rounding, and for a fill.
        room = 1e-5 if mechanism.tuned.fill is None else 0.02 * epsilon
        assert mechanism.certificate.epsilon - result.realised < room


@pytest.mark.parametrize("tuning", ["published", "calibrated", "best"])
def test_a_large_kernel_is_verified_without_every_ratio(tuning, monkeypatch):
    monkeypatch.setattr("sfumato.audit.verification.EXHAUSTIVE_CELLS", 1000)
    space = space_of(900, dimension=4)
    mechanism = tem(space, epsilon=2.0, tuning=tuning)
    result = verify(mechanism)
    assert result.passed
    assert not result.exhaustive
    room = 1e-5 if mechanism.tuned.fill is None else 1e-2
    assert result.bound - room < result.realised <= result.bound
    assert result.pairs == 900 * 899 // 2


def test_rows_that_are_not_what_the_certificate_is_about_are_found_out(monkeypatch):
    monkeypatch.setattr("sfumato.audit.verification.EXHAUSTIVE_CELLS", 1000)

    class Tampered(ExponentialMechanism):
        def weights(self, ids):
            return super().weights(ids) + np.where(ids[:, None] % 2, np.uint64(2**61), np.uint64(0)) * (
                np.arange(len(self.outputs)) == 7
            ).astype(np.uint64)

    honest = tem(space_of(300), epsilon=0.5)
    assert not verify(Tampered(honest.ground, honest.tuned, honest.guarantee)).passed


def test_a_certificate_above_the_claim_fails(monkeypatch):
    monkeypatch.setattr("sfumato.audit.verification.EXHAUSTIVE_CELLS", 1000)
    honest = tem(space_of(300), epsilon=2.0, tuning="calibrated")
    boasting = ExponentialMechanism(honest.ground, honest.tuned, claim(1.9, radius=honest.guarantee.radius))
    assert not verify(boasting).passed


def test_what_cannot_be_verified_is_said():
    table = DenseTable(space_of(2), np.full((2, 2), 2**40, dtype=np.uint64), NoGuarantee(mechanism="x"))
    with pytest.raises(CertificationError, match="promises nothing"):
        verify(table)
    with pytest.raises(CertificationError, match="no single epsilon"):
        verify(
            DenseTable(space_of(2), np.full((2, 2), 2**40, dtype=np.uint64), GaussianGuarantee(mechanism="x", mu=1.0))
        )
    with pytest.raises(CertificationError, match="only tables"):
        verify(object())


class Groups(DenseTable):
    """A table whose first half of words is one group and whose second half is another."""

    @property
    def group_numbers(self):
        return np.arange(len(self.inputs)) * 2 // len(self.inputs)


def in_groups(epsilon, **fields):
    declared = {"groups": 2, "smallest_group": 2, "largest_group": 2, "words_alone": 0, **fields}
    return GroupGuarantee(mechanism="groups", epsilon=epsilon, certified=epsilon, **declared)


def halves():
    """Words 0 and 1 share outputs 0 and 1 with a log-ratio of ln 3; words 2 and 3 outputs 2 and 3, with ln 2."""
    weights = np.array([[3, 1, 0, 0], [1, 3, 0, 0], [0, 0, 4, 2], [0, 0, 2, 4]], dtype=np.uint64)
    return weights << np.uint64(40)


def test_a_group_promise_is_checked_inside_groups_only():
    for epsilon, holds in ((math.log(3) + 1e-9, True), (math.log(3) - 1e-9, False)):
        result = verify(Groups(space_of(4), halves(), in_groups(epsilon)))
        assert result.passed is holds
        assert result.per_group == pytest.approx((math.log(3), math.log(2)), rel=1e-14)
        assert {result.first, result.second} == {0, 1}
        assert result.pairs == 2
        assert result.to_json()["groups"] == 2


def test_words_of_a_group_with_unlike_outputs_are_an_infinite_loss():
    weights = halves()
    weights[3, 3] = 0
    result = verify(Groups(space_of(4), weights, in_groups(50.0)))
    assert math.isinf(result.bound)
    assert not result.passed


def test_a_bound_between_groups_is_checked_too():
    weights = halves() + np.uint64(2**40)
    unlike = math.log((4 / 8) / (1 / 10))
    for bound, holds in ((unlike + 1e-9, True), (unlike - 1e-9, False)):
        result = verify(Groups(space_of(4), weights, in_groups(2.0, global_epsilon=bound)))
        assert result.passed is holds
        assert result.global_bound == pytest.approx(unlike, rel=1e-12)
    assert not verify(Groups(space_of(4), halves(), in_groups(2.0, global_epsilon=100.0))).passed


def test_the_groups_must_be_the_declared_ones():
    with pytest.raises(CertificationError, match="groups"):
        verify(Groups(space_of(4), halves(), in_groups(2.0, words_alone=1)))
    with pytest.raises(CertificationError, match="group_numbers"):
        verify(DenseTable(space_of(4), halves(), in_groups(2.0)))


def test_a_pure_claim_is_checked_in_parts(monkeypatch):
    table = np.random.default_rng(0).uniform(1, 2, size=(50, 30))
    space = space_of(50)
    claimed = PureGuarantee(mechanism="coin", epsilon=1.0, certified=1.0)
    outputs = list(space.words[:30])
    mechanism = DenseTable.from_probabilities(space, table, claimed, outputs=outputs)
    rows = table / table.sum(axis=1, keepdims=True)
    whole = verify(mechanism)
    assert whole.realised == pytest.approx(np.log(rows.max(axis=0) / rows.min(axis=0)).max(), rel=1e-9)
    monkeypatch.setattr("sfumato.audit.verification._BATCH_CELLS", 100)
    assert verify(mechanism) == whole


def test_results_are_plain_data():
    data = sfumato.verify(tem(space_of(5), epsilon=1.0)).to_json()
    assert data["passed"] is True
    assert set(data) >= {"claimed", "bound", "realised", "pairs"}
