"""Epsilon chosen by what the best attacker recovers."""

from __future__ import annotations

import numpy as np
import pytest

import sfumato
from sfumato.audit.attacker_success import epsilon_for_attacker_success
from sfumato.audit.channel import attack_mechanism, input_words
from sfumato.audit.prior import Prior, frequency_prior, uniform_prior
from sfumato.foundation.errors import CertificationError, ParameterError
from sfumato.foundation.randomness import RunKey

SPACE = sfumato.Space.from_arrays([f"w{i}" for i in range(50)], np.random.default_rng(0).normal(size=(50, 4)))


def zipf(words: list[str]) -> Prior:
    chances = 1 / np.arange(1, len(words) + 1)
    return Prior(chances / chances.sum(), "Zipf's law")


@pytest.mark.parametrize("target", [0.3, 0.6, 0.95])
@pytest.mark.parametrize("name", ["tem", "santext"])
def test_the_share_is_met_from_below_and_found_in_draws(name: str, target: float) -> None:
    found = epsilon_for_attacker_success(lambda e: sfumato.compile(name, SPACE, epsilon=e), target, zipf)
    assert 0.98 * target <= found.success <= target
    assert found.mechanism.guarantee.epsilon == found.epsilon
    attack = attack_mechanism(found.mechanism, zipf(input_words(found.mechanism)))
    assert attack.success == found.success
    words = np.random.default_rng(0).choice(50, 20_000, p=zipf(list(SPACE.words)).chances)
    share = attack.recovered(words, found.mechanism.sample(words, RunKey.from_seed(0).record(0)))
    # Five standard deviations of 20,000 coin flips.
    assert share <= target + 5 * np.sqrt(0.25 / 20_000)
    assert f"at most {target:.1%}" in found.statement()


def test_impossible_shares_are_refused_with_the_least_possible() -> None:
    with pytest.raises(CertificationError, match=r"ask for more than 22\.2%"):
        epsilon_for_attacker_success(lambda e: sfumato.compile("tem", SPACE, epsilon=e), 0.1, zipf)
    with pytest.raises(CertificationError, match="reveals the group"):
        epsilon_for_attacker_success(
            lambda e: sfumato.compile("custext", SPACE, epsilon=e, k=2), 0.2, lambda words: uniform_prior(words)
        )
    with pytest.raises(ParameterError):
        epsilon_for_attacker_success(lambda e: sfumato.compile("tem", SPACE, epsilon=e), 1.5, zipf)


def test_frequencies_come_from_a_library() -> None:
    pytest.importorskip("wordfreq", reason="the extra 'experiments' is not installed")
    prior = frequency_prior(["the", "house", "xqzzzz"])
    assert prior.chances[0] > prior.chances[1] == prior.chances[2]
    assert prior.chances.sum() == pytest.approx(1)
    assert "wordfreq" in prior.source
    for words, language in ((["the"], "xx"), (["xqzzzz"], "en"), ([], "en")):
        with pytest.raises(ParameterError):
            frequency_prior(words, language)
