"""Attributes and authors: what the words say is found, and random words leave the prior."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sfumato
from sfumato.audit.attacks.attributes import (
    attribute_inference,
    reidentification,
    windows,
    word_attribute_inference,
)
from sfumato.foundation.errors import ParameterError
from sfumato.foundation.randomness import RunKey
from sfumato.sanitize import Sanitizer

WORDS = [f"w{number}" for number in range(60)]
SPACE = sfumato.Space.from_arrays(WORDS, np.random.default_rng(0).normal(size=(60, 5)))
AUTHORS = 6


def posts(count: int, seed: int) -> tuple[list[str], np.ndarray]:
    """Posts of authors who have three words of their own among twelve that all share."""
    rng = np.random.default_rng(seed)
    authors = rng.integers(0, AUTHORS, count)
    texts = []
    for author in authors.tolist():
        words = [*rng.choice(WORDS[:12], 5), *rng.choice(WORDS[12 + 3 * author : 15 + 3 * author], 2)]
        texts.append(" ".join(words))
    return texts, authors


def through(name: str, texts: list[str], **options: float) -> list[str]:
    return Sanitizer(sfumato.compile(name, SPACE, **options)).batch(texts, key=RunKey.from_seed(7)).texts


def test_the_identity_gives_the_attribute_away_and_random_words_do_not() -> None:
    known, attributes = posts(600, 1)
    seen, truth = posts(600, 2)
    assert (
        attribute_inference(through("identity", known), attributes, through("identity", seen), truth).right.share > 0.99
    )
    found = attribute_inference(through("random", known), attributes, through("random", seen), truth)
    assert found.right.share == pytest.approx(1 / AUTHORS, abs=4 * math.sqrt(5 / 36 / 600))
    assert found.empirical_privacy == 1 - found.f1


def test_less_noise_gives_more_away() -> None:
    known, attributes = posts(400, 1)
    seen, truth = posts(400, 2)
    shares = [
        attribute_inference(
            through("tem", known, epsilon=e), attributes, through("tem", seen, epsilon=e), truth
        ).right.share
        for e in (0.1, 4.0, 100.0)
    ]
    assert shares[0] < shares[1] <= shares[2]
    assert shares[2] > 0.99


def test_several_documents_name_the_author_better_than_one() -> None:
    known, authors = posts(300, 1)
    seen, truth = posts(600, 2)
    noisy = [through("tem", texts, epsilon=2.5) for texts in (known, seen)]
    shares = [
        reidentification(noisy[0], authors, noisy[1], truth, documents=documents).right.share for documents in (1, 20)
    ]
    assert shares[0] < shares[1]
    plain = reidentification(known, authors, seen, truth, documents=5)
    assert plain.right.share == plain.among_five.share == 1
    assert plain.authors == AUTHORS


def test_authors_of_random_words_are_named_as_often_as_by_chance() -> None:
    known, authors = posts(600, 1)
    seen, truth = posts(3000, 2)
    found = reidentification(through("random", known), authors, through("random", seen), truth, documents=3)
    low, high = found.right.interval(0.9999)
    assert low <= 1 / AUTHORS <= high
    low, high = found.among_five.interval(0.9999)
    assert low <= 5 / AUTHORS <= high


def test_an_author_without_known_texts_is_refused() -> None:
    with pytest.raises(ParameterError, match="1 of the authors"):
        reidentification(["a"], np.array([0]), ["b"], np.array([1]), documents=1)


def test_names_are_found_by_their_surroundings_although_they_were_replaced() -> None:
    """Whoever "said" something is a name, whatever was put there."""
    rng = np.random.default_rng(3)

    def tokens(count: int) -> tuple[list[list[str]], list[np.ndarray]]:
        texts = [
            [*rng.choice(WORDS[:20], 3), str(rng.choice(WORDS)), "said", *rng.choice(WORDS[:20], 2)]
            for _ in range(count)
        ]
        return texts, [np.array([0, 0, 0, 1, 0, 0, 0])] * count

    known, truth = tokens(300)
    seen, wanted = tokens(100)
    found = word_attribute_inference(known, truth, seen, wanted)
    assert found.right.share > 0.99
    assert found.blind.share == pytest.approx(6 / 7)
    plain = [[str(rng.choice(WORDS)) for _ in text] for text in known]
    blind = word_attribute_inference(plain[:200], truth[:200], plain[200:], truth[200:])
    assert blind.right.share <= blind.blind.share + 0.02


def test_windows_stay_within_the_text() -> None:
    assert windows(["a", "B"], 2) == [
        ["0 a", "0 case aa", "1 b", "1 case AA"],
        ["-1 a", "-1 case aa", "0 b", "0 case AA"],
    ]


def test_nothing_to_learn_from_is_refused() -> None:
    with pytest.raises(ParameterError, match="to learn from"):
        attribute_inference([], np.array([], dtype=int), ["a"], np.array([0]))
