"""What privatized text still says about who wrote it, or about what its words were.

The adversary is trained on privatized text with the attribute beside it, so it has seen what the mechanism does; one
trained on originals is weaker.  Whatever the attribute is (an author's age group or gender, a topic, whether a word was a
name), the same function serves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.audit.attacks.learners import Labels, features, hashed, macro_f1, train_classifier
from sfumato.audit.attacks.scores import Share
from sfumato.foundation.checks import require_count
from sfumato.foundation.errors import ParameterError


@dataclass(frozen=True)
class AttributeInference:
    """How well an attribute was guessed."""

    right: Share
    f1: float
    """Mean over the values of the attribute of the harmonic mean of precision and recall."""
    blind: Share
    """What is right where the most frequent value is always guessed."""

    @property
    def empirical_privacy(self) -> float:
        """One minus the mean F1, as Riecker (2023) measures privacy."""
        return 1.0 - self.f1


def attribute_inference(
    known: Sequence[str], attributes: Labels, seen: Sequence[str], truth: Labels, *, pairs: bool = True
) -> AttributeInference:
    """Return how well an adversary trained on ``known`` texts guesses the attribute of the texts it has ``seen``.

    >>> found = attribute_inference(["a x", "b x", "a y", "b y"] * 5, np.array([0, 1, 0, 1] * 5), ["a", "b"], np.array([0, 1]))
    >>> found.right
    Share(hits=2, of=2)
    """
    return _inference(features(known, pairs=pairs), attributes, features(seen, pairs=pairs), truth)


def word_attribute_inference(
    known: Sequence[Sequence[str]],
    attributes: Sequence[Labels],
    seen: Sequence[Sequence[str]],
    truth: Sequence[Labels],
    *,
    reach: int = 2,
) -> AttributeInference:
    """Return how well an adversary guesses an attribute of every original token, such as whether it was a name.

    Texts are given as privatized tokens; what is looked at are the token and its neighbours up to ``reach`` places away.
    """
    rows = hashed([window for tokens in known for window in windows(tokens, reach)])
    tests = hashed([window for tokens in seen for window in windows(tokens, reach)])
    return _inference(rows, np.concatenate(attributes), tests, np.concatenate(truth))


def windows(tokens: Sequence[str], reach: int) -> list[list[str]]:
    """Return for every token the features of its surroundings: words with their place, and letter case.

    >>> windows(["Ann", "ran"], 1)[0]
    ['0 ann', '0 case Aa', '1 ran', '1 case aa']
    """
    require_count(reach=reach)
    found = []
    for place in range(len(tokens)):
        names = []
        for step in range(-reach, reach + 1):
            if 0 <= place + step < len(tokens):
                token = tokens[place + step]
                names += [f"{step} {token.lower()}", f"{step} case {_case(token)}"]
        found.append(names)
    return found


def _case(token: str) -> str:
    if token.isupper():
        return "AA"
    return "Aa" if token[:1].isupper() else "aa"


def _inference(rows: object, attributes: Labels, tests: object, truth: Labels) -> AttributeInference:
    if not len(attributes) or not len(truth):
        raise ParameterError("an adversary needs texts to learn from, and texts to be tried on")
    values = int(max(attributes.max(), truth.max())) + 1
    guessed = train_classifier(rows, attributes, values).predict(tests)
    commonest = int(np.bincount(attributes).argmax())
    return AttributeInference(
        Share(int((guessed == truth).sum()), len(truth)),
        macro_f1(guessed, truth, values),
        Share(int((truth == commonest).sum()), len(truth)),
    )


@dataclass(frozen=True)
class Reidentification:
    """How often the author of several documents was named."""

    right: Share
    among_five: Share
    authors: int
    documents: int
    """How many documents of one author the attacker sees together."""


def reidentification(
    known: Sequence[str],
    authors: Labels,
    seen: Sequence[str],
    truth: Labels,
    *,
    documents: int = 5,
    pairs: bool = False,
) -> Reidentification:
    """Return how often an attacker who has texts of every author names who wrote ``documents`` new ones.

    The documents of an author are looked at in groups, in their order; what a classifier says of each is added up.  Groups
    that are not full are left out.

    >>> found = reidentification(["a b", "c d"] * 3, np.array([0, 1] * 3), ["a", "b", "c", "d"], np.array([0, 0, 1, 1]),
    ...                          documents=2)
    >>> found.right, found.authors
    (Share(hits=2, of=2), 2)
    """
    require_count(documents=documents)
    everyone, numbers = np.unique(authors, return_inverse=True)
    place = {author: number for number, author in enumerate(everyone.tolist())}
    unknown = sum(author not in place for author in set(truth.tolist()))
    if unknown:
        raise ParameterError(f"{unknown} of the authors to be named have no known text; leave their documents out")
    model = train_classifier(features(known, pairs=pairs), numbers, len(everyone), penalty=1e-6)
    logs = model.log_probabilities(features(seen, pairs=pairs))
    right = five = groups = 0
    for author in np.unique(truth).tolist():
        own = np.flatnonzero(truth == author)
        for start in range(0, len(own) - documents + 1, documents):
            total = logs[own[start : start + documents]].sum(axis=0)
            rank = int((total > total[place[author]]).sum())
            groups += 1
            right += rank == 0
            five += rank < 5
    return Reidentification(Share(right, groups), Share(five, groups), len(everyone), documents)
