"""Files beside their originals: what is counted, and which claims do not survive."""

from __future__ import annotations

import numpy as np
import pytest

import sfumato
from sfumato.audit import audit_texts
from sfumato.audit.deniability import deniability
from sfumato.audit.texts import compare_texts
from sfumato.foundation.errors import DataError
from sfumato.foundation.randomness import RunKey
from sfumato.policy import everything, keep_words

RNG = np.random.default_rng(0)
SPACE = sfumato.Space.from_arrays([f"w{i}" for i in range(60)], RNG.normal(size=(60, 5)))
TEXTS = [" ".join(SPACE.words[i] for i in RNG.integers(0, 60, 20)) for _ in range(150)]
MECHANISM = sfumato.compile("tem", SPACE, epsilon=1.0)


def test_an_honest_file_holds_and_a_copy_is_refuted() -> None:
    honest = sfumato.Sanitizer(MECHANISM).batch(TEXTS, key=RunKey.from_seed(1)).texts
    report = audit_texts(TEXTS, honest, MECHANISM.guarantee, everything(), SPACE)
    assert report.outcome == "holds", report.verdict()
    copied = audit_texts(TEXTS, TEXTS, MECHANISM.guarantee, everything(), SPACE)
    assert copied.outcome == "refuted"
    assert copied.texts is not None
    assert copied.texts.unchanged_share == 1.0
    shared = audit_texts(TEXTS, honest, MECHANISM.guarantee, everything(), SPACE, shared_draws=True)
    assert shared.outcome == "holds"


def test_frequent_words_of_a_text_show_the_mechanisms_own_deniability() -> None:
    many = TEXTS * 10
    honest = sfumato.Sanitizer(MECHANISM).batch(many, key=RunKey.from_seed(4)).texts
    seen = audit_texts(many, honest, MECHANISM.guarantee, everything(), SPACE).deniability
    assert seen is not None
    exact = deniability(MECHANISM)
    assert seen.words == len(SPACE)
    # Thirty thousand occurrences: four standard deviations of a share are below 0.012.
    assert seen.unchanged == pytest.approx(exact.unchanged, abs=0.012)
    assert seen.distance == pytest.approx(exact.distance, rel=0.05)
    assert 0.8 * exact.spread < seen.spread <= exact.spread + 1
    copied = audit_texts(many, many, MECHANISM.guarantee, everything(), SPACE).deniability
    assert copied is not None
    assert (copied.unchanged, copied.spread, copied.distance) == (1.0, 1.0, 0.0)
    assert audit_texts(TEXTS[:3], TEXTS[:3], MECHANISM.guarantee, everything(), SPACE).deniability is None


def test_noise_for_half_of_the_words_is_refuted() -> None:
    honest = sfumato.Sanitizer(MECHANISM).batch(TEXTS, key=RunKey.from_seed(2)).texts
    mixed = honest[:75] + TEXTS[75:]
    assert audit_texts(TEXTS, mixed, MECHANISM.guarantee, everything(), SPACE).outcome == "refuted"


def test_what_the_policy_keeps_is_not_held_against_the_claim() -> None:
    policy = everything() & keep_words(SPACE.words[:30])
    kept = sfumato.Sanitizer(MECHANISM, policy=policy).batch(TEXTS, key=RunKey.from_seed(3)).texts
    report = audit_texts(TEXTS, kept, MECHANISM.guarantee, policy, SPACE)
    assert report.outcome == "holds"
    assert report.texts is not None
    assert report.texts.kept > 1000
    assert report.texts.altered_although_kept == 0
    assert audit_texts(TEXTS, kept, MECHANISM.guarantee, everything(), SPACE).outcome == "refuted"


def test_counts() -> None:
    figures = compare_texts(["W1 zzz", "w2 w3", "w4"], ["w1 w5", "w2", "w5"], everything(), SPACE)
    assert (figures.records, figures.not_comparable, figures.protected) == (3, 1, 3)
    assert (figures.unchanged, figures.out_of_vocabulary, figures.out_of_vocabulary_unchanged) == (1, 1, 0)
    assert "zzz" not in str(figures.to_json())
    with pytest.raises(DataError, match="has 1 records"):
        compare_texts(["a"], [], everything(), SPACE)


def test_unlike_promises_are_not_tested() -> None:
    guarantee = sfumato.compile("custext", SPACE, epsilon=1.0).guarantee
    assert audit_texts(TEXTS, TEXTS, guarantee, everything(), SPACE).outcome == "not tested"
