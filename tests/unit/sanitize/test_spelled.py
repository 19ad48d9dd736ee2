import numpy as np
import pytest

import sfumato
from sfumato.foundation.randomness import RunKey

SPACE = sfumato.Space.from_arrays(
    ["water", "waiter", "house", "horse"], [[0.0, 0.0], [2.0, 0.0], [0.0, 3.0], [2.0, 3.0]]
)


def test_a_misspelled_word_draws_what_the_word_it_is_taken_for_draws():
    """The same key gives the same noise, so the outputs are equal one by one: nothing else of the spelling is used."""
    sanitizer = sfumato.Sanitizer(sfumato.compile("tem", SPACE, epsilon=0.5), oov="spell")
    key = RunKey.from_seed(3)
    right = sanitizer.batch(["waiter house"] * 300, key=key).texts
    for spelled in ("wwaiter huose", "waitter hause", "aiter house"):
        assert sanitizer.batch([spelled] * 300, key=key).texts == right


def test_other_unknown_words_are_drawn_uniformly():
    sanitizer = sfumato.Sanitizer(sfumato.compile("tem", SPACE, epsilon=200.0), oov="spell")
    batch = sanitizer.batch(["xzyvqa"] * 4000, key=RunKey.from_seed(4))
    shares = np.array([batch.texts.count(word) for word in SPACE.words]) / 4000
    # five standard errors of a share of 1/4, so a right sampler fails with a chance below 1e-5; the key is fixed
    assert np.abs(shares - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / 4000)
    assert batch.counts.out_of_vocabulary == 4000


@pytest.mark.parametrize("oov", ["draw", "mask"])
def test_nothing_is_taken_for_another_word_unless_asked_for(oov):
    sanitizer = sfumato.Sanitizer(sfumato.compile("tem", SPACE, epsilon=200.0), oov=oov)
    texts = sanitizer.batch(["huose"] * 200, key=RunKey.from_seed(5)).texts
    assert texts != ["house"] * 200
    assert sanitizer("huose").counts.out_of_vocabulary == 1


def test_the_guarantee_says_what_it_means():
    sanitizer = sfumato.Sanitizer(sfumato.compile("tem", SPACE, epsilon=1.0), oov="spell")
    assert any("one letter away" in note for note in sanitizer.guarantee.notes)
    assert sanitizer("huose").counts.out_of_vocabulary == 0
