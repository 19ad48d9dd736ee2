"""A function for ``Dataset.map`` has one fingerprint: before and after draws, and in every process.

Where it changed, the library would not find its stored result and draw again: a second release.  Run as a program, this
file prints the fingerprints of one process.
"""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato
from sfumato import policies
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism.digits import digits
from sfumato.policy import Policy
from sfumato.sanitize.adapters.datasets import DatasetFunction, for_datasets
from sfumato.sanitize.adapters.settled import settled
from sfumato.sanitize.identifiers import IdentifierReplacer
from sfumato.space import Space

WORDS = ["the", "rain", "snow", "wind", "storm", "sun", "sky", "hail", "ice", "restaurant"]
SPACE = Space.from_arrays(WORDS, np.random.default_rng(0).normal(size=(10, 3)))
LISTED = ["the", "of", "and", "in", "to", "with", "sun", "under", "over", "between"]
TEXTS = ["the rain of wind, resturant bob@work.example 0171 2345678 1990 Smith and snow"] * 8


def entities() -> Policy:
    import spacy

    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns(
        [{"label": label, "pattern": "Smith"} for label in ("PERSON", "ORG", "GPE")]
    )
    return policies.named_entities(nlp)


POLICIES: dict[str, Callable[[], Policy]] = {
    "everything": policies.everything,
    "keep_words": lambda: policies.keep_words(LISTED),
    "protect_words": lambda: policies.protect_words(LISTED),
    "stop_words": policies.stop_words,
    "identifiers or numbers": lambda: policies.identifiers() | policies.numbers(),
    "not kept": lambda: ~(policies.keep_words(LISTED) & policies.keep_words(["rain", "snow", "sky"])),
    "pattern": lambda: policies.protect_pattern(r"\w+ing", r"\d+"),
    "entities": entities,
}
OOV = ("draw", "spell", "mask", "keep")
NEEDS_SPACY = ("stop_words", "entities")
COMPILED = {entry.name: entry for entry in sfumato.mechanisms()}


def function_of(policy: str, oov: str) -> DatasetFunction:
    mechanism = sfumato.compile("tem", SPACE, epsilon=0.1)
    return for_datasets(sfumato.Sanitizer(mechanism, policy=POLICIES[policy](), oov=oov), "text")


def with_parts(mechanism: str) -> DatasetFunction:
    given = {"epsilon": 40.0} if COMPILED[mechanism].takes_epsilon else {}
    options = {"tuning": "lp"} if mechanism == "custext" else {}
    sanitizer = sfumato.Sanitizer(
        sfumato.compile(mechanism, SPACE, **given, **options),
        oov="spell",
        digits=digits(epsilon=1.0, kind="exponential"),
        identifiers=IdentifierReplacer(["email", "url", "phone"]),
        public_length=9,
    )
    return for_datasets(sanitizer, ["text"], key=RunKey.from_seed(1))


def fingerprints(function: DatasetFunction) -> list[str]:
    """Return the fingerprint of a new function, after draws, after other uses and after a journey."""
    from datasets.fingerprint import Hasher

    found = [Hasher.hash(function)]
    function({"text": TEXTS}, list(range(8)))
    found.append(Hasher.hash(function))
    space = function.sanitizer.mechanism.space
    assert all([space.digest, space.statistics, space.index, function.guarantee])
    found.append(Hasher.hash(function))
    away = pickle.loads(pickle.dumps(function))
    away({"text": TEXTS}, list(range(8)))
    return [*found, Hasher.hash(away), Hasher.hash(copy.copy(function)), Hasher.hash(copy.deepcopy(function))]


def every_fingerprint(with_spacy: bool) -> dict[str, list[str]]:
    found = {
        f"{policy}/{oov}": fingerprints(function_of(policy, oov))
        for policy in POLICIES
        for oov in OOV
        if with_spacy or policy not in NEEDS_SPACY
    }
    return found | {name: fingerprints(with_parts(name)) for name in COMPILED}


def has_spacy() -> bool:
    try:
        import spacy  # noqa: F401
    except ImportError:
        return False
    return True


def program(*arguments: str, seed: int) -> Any:
    """Run this file in a process of its own and return what it prints."""
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    done = subprocess.run(
        [sys.executable, __file__, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def found() -> list[dict[str, list[str]]]:
    pytest.importorskip("datasets")
    return [program(seed=seed) for seed in (1, 2)]


@pytest.mark.parametrize("oov", OOV)
@pytest.mark.parametrize("policy", POLICIES)
def test_the_fingerprint_stays_whatever_was_drawn_and_in_every_process(
    found: list[dict[str, list[str]]], policy: str, oov: str
) -> None:
    if policy in NEEDS_SPACY:
        pytest.importorskip("spacy")
    here, there = (one[f"{policy}/{oov}"] for one in found)
    assert set(here) == set(there)
    assert len(set(here)) == 1


@pytest.mark.parametrize("mechanism", COMPILED)
def test_the_fingerprint_of_every_mechanism_stays(found: list[dict[str, list[str]]], mechanism: str) -> None:
    here, there = (one[mechanism] for one in found)
    assert set(here) == set(there)
    assert len(set(here)) == 1


def test_what_draws_otherwise_has_another_fingerprint(found: list[dict[str, list[str]]]) -> None:
    every = [prints[0] for prints in found[0].values()]
    assert len(set(every)) == len(every)


def test_another_process_finds_what_was_drawn_and_draws_nothing(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_dict({"text": TEXTS}).save_to_disk(tmp_path / "data")
    one, other = (program(str(tmp_path / "data"), seed=seed) for seed in (1, 2))
    assert one == other
    assert len(set(map(tuple, one))) == len(one)


def test_a_settled_sanitizer_does_the_same() -> None:
    function = with_parts("tem")
    same = settled(function.sanitizer)
    key = RunKey.from_seed(4)
    assert same.batch(TEXTS, key=key).texts == function.sanitizer.batch(TEXTS, key=key).texts
    assert copy.copy(function)({"text": TEXTS}, list(range(8))) == function({"text": TEXTS}, list(range(8)))


def test_a_misspelled_word_is_taken_for_the_same_word_in_another_process() -> None:
    assert program("spelled", seed=2) == program("spelled", seed=1) == WORDS.index("restaurant")


def spelled() -> int:
    """Pickle a sanitizer that has looked a misspelled word up, and look it up where hashes of words are others."""
    sanitizer = sfumato.Sanitizer(sfumato.compile("random", SPACE), oov="spell")
    sanitizer("resturant")
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).position_of('resturant'))"
    environment = {**os.environ, "PYTHONHASHSEED": "3"}
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(sanitizer), env=environment, stdout=subprocess.PIPE, check=True
    )
    return int(done.stdout)


def mapped(folder: str) -> list[list[str]]:
    import datasets

    datasets.disable_progress_bars()
    dataset = datasets.load_from_disk(folder)
    results = []
    for policy, oov in (("keep_words", "draw"), ("identifiers or numbers", "draw"), ("everything", "spell")):
        function = function_of(policy, oov)
        done = [dataset.map(function, batched=True, with_indices=True)["text"][:] for _ in range(2)]
        assert done[0] == done[1]
        results.append(done[0])
    return results


if __name__ == "__main__":
    if sys.argv[1:] == ["spelled"]:
        answer: Any = spelled()
    elif sys.argv[1:]:
        answer = mapped(sys.argv[1])
    else:
        answer = every_fingerprint(has_spacy())
    sys.stdout.write("\n" + json.dumps(answer) + "\n")
