import os
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sfumato.foundation.errors import ParameterError
from sfumato.foundation.randomness import RunKey, SystemSource, below

KEY = RunKey.from_seed(11)


@given(st.lists(st.integers(0, 700), max_size=8))
def test_how_a_stream_is_split_does_not_change_it(sizes):
    whole = KEY.record(3).uint64(sum(sizes))
    source = KEY.record(3)
    parts = [source.uint64(size) for size in sizes]
    assert np.array_equal(whole, np.concatenate([np.empty(0, np.uint64), *parts]))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 2**64 - 1))
def test_a_batch_draws_what_single_records_would(counts, bound):
    together = below(KEY.records(range(len(counts)), counts), np.full(sum(counts), bound, dtype=np.uint64))
    alone = [below(KEY.record(i), np.full(n, bound, dtype=np.uint64)) for i, n in enumerate(counts)]
    assert np.array_equal(together, np.concatenate(alone))


def test_rejected_numbers_are_replaced_the_same_way_in_a_batch():
    # A bound just above 2**63 rejects nearly half of all numbers, so replacement certainly takes place.
    bound = 2**63 + 1
    first = np.array([source.uint64(50) for source in (KEY.record(0), KEY.record(1))])
    assert (first >= bound).sum() > 20
    together = below(KEY.records([0, 1], [50, 50]), np.full(100, bound, dtype=np.uint64))
    alone = np.concatenate([below(KEY.record(i), np.full(50, bound, dtype=np.uint64)) for i in (0, 1)])
    assert np.array_equal(together, alone)
    assert (together < bound).all()


@given(st.lists(st.integers(1, 2**64 - 1), min_size=1, max_size=30))
def test_every_number_is_below_its_bound(bounds):
    bounds = np.array(bounds, dtype=np.uint64)
    assert (below(KEY.record(0), bounds) < bounds).all()


def test_uniform_below_a_bound_where_a_plain_remainder_would_be_biased():
    # 3 * 2**62: a plain remainder would give the lower third twice the weight. Chi-square at confidence 1 - 1e-6.
    bound = 3 * 2**62
    drawn = below(KEY.record(5), np.full(30_000, bound, dtype=np.uint64))
    observed = np.bincount((drawn // np.uint64(2**62)).astype(int), minlength=3)
    assert stats.chisquare(observed).pvalue > 1e-6


def test_records_purposes_and_keys_have_unlike_streams():
    streams = [
        KEY.record(0).uint64(4),
        KEY.record(1).uint64(4),
        KEY.record(0, "digit").uint64(4),
        RunKey.from_seed(12).record(0).uint64(4),
    ]
    assert len({tuple(s.tolist()) for s in streams}) == 4


def test_generated_keys_differ_and_are_not_shown():
    one, other = RunKey.generate(), RunKey.generate()
    assert one.secret != other.secret
    assert one.secret.hex() not in repr(one)
    assert str(one.secret) not in repr(one)
    assert one.secure
    assert not RunKey.from_seed(42).secure


def test_a_key_of_the_wrong_length_is_refused():
    with pytest.raises(ParameterError, match="32 bytes"):
        RunKey(b"short")


def test_a_bound_of_zero_is_refused():
    with pytest.raises(ParameterError):
        below(SystemSource(), np.array([3, 0], dtype=np.uint64))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_workers_do_not_share_a_random_state():
    read_end, write_end = os.pipe()
    source = SystemSource()
    source.uint64(1)
    children = []
    for _ in range(2):
        child = os.fork()
        if child == 0:
            os.write(write_end, source.uint64(2).tobytes())
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    seen = os.read(read_end, 64)
    assert seen[:16] != seen[16:32]


def test_the_system_source_serves_threads_with_unlike_numbers():
    source, drawn = SystemSource(), []
    threads = [threading.Thread(target=lambda: drawn.append(tuple(source.uint64(2).tolist()))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drawn)) == 16


def test_no_label_names_the_numbers_of_another_stream():
    """A word of a text is a label: none may lead to the numbers that another word draws again with."""
    key = RunKey.from_seed(3)
    redrawn = key.stream("unknown word", b"fig")
    redrawn.uint64(4)
    again = {int(redrawn.again(np.array([place]), attempt)[0]) for place in range(4) for attempt in (1, 2)}
    for attempt in (1, 2):
        for name in (
            b"fig" + b"again" + attempt.to_bytes(4, "little"),
            b"again" + attempt.to_bytes(4, "little") + b"fig",
        ):
            assert not again & set(key.stream("unknown word", name).uint64(8 * 1024).tolist())
    assert not again & set(key.stream("unknown word", b"fig").uint64(8 * 1024).tolist())
