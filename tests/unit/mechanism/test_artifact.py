"""A mechanism in a file is the mechanism: the same integers, the same draws, and no file that was altered."""

import pickle
import struct

import numpy as np
import pytest

import sfumato
from sfumato.foundation.errors import DataError, ParameterError
from sfumato.foundation.guarantee import PureGuarantee
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism import artifact, container
from sfumato.mechanism.base import TableMechanism
from sfumato.mechanism.gumbel import least_epsilon
from sfumato.mechanism.table import DenseTable
from sfumato.space import Space

WORDS = 260


def space_of(kind):
    rng = np.random.default_rng(8)
    words = [f"w{i}" for i in range(WORDS)]
    if kind == "float":
        return Space.from_arrays(words, rng.normal(size=(WORDS, 5)))
    if kind == "angle":
        return Space.from_arrays(words, rng.normal(size=(WORDS, 5)), metric="angle")
    vectors = rng.integers(-60, 60, (WORDS, 6)).astype(np.int8)
    vectors[-20:] = vectors[:20]
    return Space.from_arrays(words, vectors, scale=0.05)


SPACES = {kind: space_of(kind) for kind in ("integer", "float", "angle")}
SETTINGS = {
    "tem": [{"tuning": tuning} for tuning in ("published", "best", "calibrated")] + [{"gamma": 1.0}],
    "santext": [{"tuning": "published"}],
    "santext-plus": [{"p": 0.4}],
    "custext": [{"k": 7}, {"k": 7, "tuning": "lp"}, {"mapping": "balanced", "k": 5}, {"global_mix": 0.2, "k": 6}],
    "truncated-gumbel": [{}],
}
NAMES = [(name, number) for name, options in SETTINGS.items() for number in range(len(options))]


def compiled(name, number, space):
    epsilon = 1.1 * least_epsilon(space) if name == "truncated-gumbel" else 3.0
    return sfumato.compile(name, space, epsilon=epsilon, **SETTINGS[name][number])


def test_every_mechanism_with_a_table_and_an_epsilon_is_here():
    small = Space.from_arrays(["a", "b", "c"], [[0.0], [1.0], [2.5]])
    for entry in sfumato.mechanisms():
        options = {"epsilon": 60.0} if entry.takes_epsilon else {}
        if isinstance(entry.compiler(small, **options), TableMechanism) and entry.takes_epsilon:
            assert entry.name in SETTINGS


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize(("name", "number"), NAMES)
def test_the_file_holds_the_very_integers_and_gives_the_very_draws(tmp_path, name, number, kind):
    mechanism = compiled(name, number, SPACES[kind])
    path = tmp_path / "mechanism.sfm"
    digest = artifact.save(mechanism, path, settings={"epsilon": 3.0})
    loaded = artifact.load(path, digest)
    assert loaded.guarantee == mechanism.guarantee
    assert loaded.space.words == mechanism.space.words
    assert loaded.space.digest == mechanism.space.digest
    assert np.array_equal(loaded.inputs, mechanism.inputs)
    assert np.array_equal(loaded.outputs, mechanism.outputs)
    for word in ("w0", "w19", f"w{WORDS - 1}"):
        one, other = mechanism.row(word), loaded.row(word)
        assert one.total == other.total
        assert {int(c): int(w) for c, w in zip(one.cells, one.weights, strict=True) if w} == {
            int(c): int(w) for c, w in zip(other.cells, other.weights, strict=True) if w
        }
    ids = np.random.default_rng(1).integers(-1, WORDS, 4000)
    key = RunKey.from_seed(3)
    drawn = mechanism.sample(ids, key.record(0))
    assert np.array_equal(loaded.sample(ids, key.record(0)), drawn)
    again = pickle.loads(pickle.dumps(loaded))
    assert again.origin == loaded.origin
    assert np.array_equal(again.sample(ids, key.record(0)), drawn)


@pytest.mark.parametrize("row_bytes", [1, 40_000, 2**30])
def test_rows_beyond_the_limit_are_compiled_to_the_same_draws(tmp_path, row_bytes):
    mechanism = compiled("tem", 0, SPACES["integer"])
    artifact.save(mechanism, tmp_path / "m.sfm", row_bytes=row_bytes)
    loaded = artifact.load(tmp_path / "m.sfm")
    stored = artifact.describe(tmp_path / "m.sfm").stored_rows
    assert stored == WORDS if row_bytes == 2**30 else 0 < stored < WORDS
    ids = np.random.default_rng(1).integers(-1, WORDS, 4000)
    one, other = (m.sample(ids, RunKey.from_seed(3).record(0)) for m in (mechanism, loaded))
    assert np.array_equal(one, other)


def test_a_table_of_ones_own_is_stored_whole(tmp_path):
    space = Space.from_arrays(["no", "yes"], [[0.0], [1.0]])
    claim = PureGuarantee(mechanism="coin", epsilon=1.1, certified=1.1)
    coin = DenseTable.from_probabilities(space, [[0.75, 0.25], [0.25, 0.75]], claim)
    artifact.save(coin, tmp_path / "coin.sfm")
    assert artifact.load(tmp_path / "coin.sfm").row("yes").probability(1) == coin.row("yes").probability(1)


def test_an_audit_reads_a_mechanism_from_a_file(tmp_path):
    mechanism = compiled("tem", 1, SPACES["integer"])
    artifact.save(mechanism, tmp_path / "m.sfm")
    assert sfumato.verify(artifact.load(tmp_path / "m.sfm")).passed == sfumato.verify(mechanism).passed


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "tem.sfm"
    mechanism = compiled("tem", 0, SPACES["integer"])
    return path, artifact.save(mechanism, path)


def read_whole(path, digest=None):
    """Load a file and use every row of it."""
    mechanism = artifact.load(path, digest)
    mechanism.sample(np.arange(len(mechanism.space)), RunKey.from_seed(0).record(0))


def test_a_file_that_was_cut_short_or_has_grown_is_refused(file):
    path, _ = file
    whole = path.read_bytes()
    for length in (0, 5, 63, 64, 200, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"cut short|not a compiled mechanism|damaged"):
            artifact.load(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(DataError, match="has grown"):
        artifact.load(path)


def test_every_altered_byte_is_found_before_it_is_used(file):
    path, _ = file
    whole = path.read_bytes()
    read_whole(path)
    start = container.read_header(path)[2]
    facts = container.read_header(path)[0]
    covered = np.zeros(len(whole), dtype=bool)
    covered[: start - 63] = True
    for entry in facts["sections"].values():
        size = int(np.prod(entry["shape"])) * np.dtype(entry["dtype"]).itemsize
        covered[start + entry["offset"] : start + entry["offset"] + size] = True
    places = np.flatnonzero(covered)
    chosen = np.random.default_rng(0).choice(places, 60, replace=False).tolist()
    first = [start + entry["offset"] for entry in facts["sections"].values()]
    for place in [0, 8, 16, 24, 40, 70, *first, *chosen]:
        if 12 <= place < 16:
            continue  # unused, and zero
        altered = bytearray(whole)
        altered[place] ^= 0x10
        path.write_bytes(altered)
        with pytest.raises(DataError):
            read_whole(path)


def test_a_file_of_another_version_is_refused(file):
    path, _ = file
    content = bytearray(path.read_bytes())
    content[8:12] = struct.pack("<I", container.VERSION + 1)
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"version {container.VERSION + 1}"):
        artifact.load(path)


def test_a_file_that_was_exchanged_is_refused_where_its_digest_is_known(file):
    path, digest = file
    artifact.save(compiled("tem", 1, SPACES["integer"]), path)
    artifact.load(path)
    with pytest.raises(DataError, match="another digest"):
        artifact.load(path, digest)


def test_rows_of_another_layout_are_refused(file, monkeypatch):
    path, _ = file
    monkeypatch.setattr(artifact, "_LAYOUT", [11, 16])
    with pytest.raises(DataError, match="another layout"):
        artifact.load(path)


def test_what_cannot_be_stored_is_refused_and_leaves_nothing(tmp_path):
    line = Space.from_arrays(["a", "b"], [[0.0], [1.0]])
    broken = Space.from_arrays(["a\nb", "c"], [[0.0], [1.0]])
    own = Space.from_arrays(["a", "b"], [[0.0], [1.0]], metric=lambda x, y: np.abs(x - y.T))
    refused = {
        "noise": sfumato.compile("laplace", line, epsilon=1.0),
        "metric of your own": sfumato.compile("tem", own, epsilon=1.0),
        "line break": sfumato.compile("tem", broken, epsilon=1.0),
    }
    for reason, mechanism in refused.items():
        with pytest.raises(ParameterError, match=reason):
            artifact.save(mechanism, tmp_path / "m.sfm")
    assert list(tmp_path.iterdir()) == []


def test_a_header_says_what_is_in_the_file(file):
    path, digest = file
    facts = artifact.describe(path)
    assert (facts.digest, facts.mechanism, facts.words, facts.stored_rows) == (digest, "tem", WORDS, WORDS)
    assert facts.bytes == path.stat().st_size
    assert facts.space_digest == SPACES["integer"].digest
