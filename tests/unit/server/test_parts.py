"""Keys, repeatable noise, rate limits and restoring, each by itself."""

from __future__ import annotations

import os
import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pydantic", reason="the extra 'server' is not installed")
pytest.importorskip("fastapi", reason="the extra 'server' is not installed")

import itertools

from sfumato.foundation.errors import ParameterError
from sfumato.server.buckets import Buckets, new_file
from sfumato.server.keys import Keyring, new_key
from sfumato.server.noise import NoiseKey
from sfumato.server.restoring import Restorer
from sfumato.server.settings import AnonymousSettings, KeySettings
from sfumato.text import pieces


def test_only_the_right_key_finds_its_caller() -> None:
    one, other = new_key("one"), new_key("other")
    ring = Keyring(
        [
            KeySettings(id="one", hash=one.hash, scopes=["privatize"]),
            KeySettings(id="other", hash=other.hash, scopes=[]),
        ],
        AnonymousSettings(),
    )
    found = ring.find(one.key)
    assert found is not None
    assert found.id == "one"
    wrong = (one.key[:-1] + ("A" if one.key[-1] != "A" else "B"), one.key + "A", one.key.replace("one", "other"),
             one.key.replace("one", "nobody"), "", "sfu__", one.hash, one.key + "\n")  # fmt: skip
    assert [ring.find(key) for key in wrong] == [None] * len(wrong)


def test_a_hash_holds_nothing_of_its_key() -> None:
    made = new_key("app")
    assert made.key not in made.hash
    assert made.key not in repr(made)
    assert new_key("app").hash != made.hash
    with pytest.raises(ParameterError):
        new_key("with space")


def test_noise_repeats_for_the_same_request_only() -> None:
    noise = NoiseKey(b"k" * 32)
    first = noise.repeatable("app", "1", ["text", "everyday"])
    assert first == noise.repeatable("app", "1", ["text", "everyday"])
    others = [
        noise.repeatable("app", "1", ["other", "everyday"]),
        noise.repeatable("app", "2", ["text", "everyday"]),
        noise.repeatable("app2", "1", ["text", "everyday"]),
        noise.repeatable("app", "1", ["text", "everyday", ""]),
        noise.repeatable("app", "1", ["texte", "veryday"]),
        NoiseKey(b"l" * 32).repeatable("app", "1", ["text", "everyday"]),
    ]
    assert len({one.run_key.secret for one in [first, *others]}) == 1 + len(others)
    assert "text" not in repr(first)


def test_buckets_are_shared_between_processes() -> None:
    file = new_file(1)
    here = Buckets({"app": 60.0}, burst=50, descriptor=file)
    child = os.fork()
    if child == 0:
        there = Buckets({"app": 60.0}, burst=50, descriptor=file)
        taken = sum(there.take("app", now=5.0) == 0 for _ in range(40))
        os._exit(taken)
    taken = sum(here.take("app", now=5.0) == 0 for _ in range(40))
    _, status = os.waitpid(child, 0)
    assert taken + os.waitstatus_to_exitcode(status) == 50


def test_a_bucket_fills_up_to_its_burst() -> None:
    bucket = Buckets({"app": 6.0}, burst=3, descriptor=new_file(1))
    assert [bucket.take("app", now=0.0) for _ in range(3)] == [0, 0, 0]
    assert bucket.take("app", now=0.0) == pytest.approx(10.0)
    assert bucket.take("app", now=10.0) == 0
    assert bucket.take("app", now=10.0) > 0
    assert [bucket.take("app", now=1e6) == 0 for _ in range(4)] == [True, True, True, False]


def test_only_words_that_stand_for_one_word_are_put_back() -> None:
    pairs = [(pieces("Ada met Bob and Carl"), pieces("Eva met Tom or Tom"))]
    assert Restorer(pairs).whole("EVA saw Tom and met eva.") == "Ada saw Tom and met Ada."
    assert Restorer([*pairs, (pieces("or Eva"), pieces("or Eva"))]).whole("Eva") == "Eva"
    assert Restorer([(pieces("red"), pieces("blue"))]).whole("Blue, BLUE, blue") == "Red, RED, red"


@given(st.text(string.ascii_letters + " .,-'é/<](\n", max_size=80), st.lists(st.integers(0, 80), max_size=8))
def test_restoring_in_parts_is_restoring_the_whole(text: str, cuts: list[int]) -> None:
    words = pieces(text)
    pairs = [(words, ["x" * (place + 1) if place % 2 else piece for place, piece in enumerate(words)])]
    answer = "".join(pairs[0][1])
    ends = sorted({min(cut, len(answer)) for cut in cuts} | {0, len(answer)})
    restorer = Restorer(pairs)
    streamed = "".join(restorer.feed(answer[a:b]) for a, b in itertools.pairwise(ends)) + restorer.finish()
    assert streamed == Restorer(pairs).whole(answer)


def test_nothing_is_put_back_into_an_address_or_markup() -> None:
    restorer = Restorer([(["", "Ada", ""], ["", "eva", ""])])
    for begin in ("//x/?q=", "https:x/", "HTTP:", "www.x.org/", "[a](", "[a]: ", "<img src=", "\\\\x\\", "/\\x/"):
        assert restorer.whole(f"eva {begin}eva, eva\neva\n\neva") == f"Ada {begin}eva, eva\neva\n\nAda"
    assert restorer.whole("eva/eva (eva) [eva] a: eva\neva") == "Ada/Ada (Ada) [Ada] a: Ada\nAda"


def test_restoring_changes_nothing_without_a_mapping() -> None:
    rng = np.random.default_rng(1)
    text = "".join(rng.choice(list("ab .\n"), 200))
    restorer = Restorer([])
    assert "".join(restorer.feed(character) for character in text) + restorer.finish() == text
