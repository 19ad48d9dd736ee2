"""What can be told of a privatized text by whoever holds the original: how much of it is left, and whether the claim holds.

Tokens are compared place by place.  The test of the claim pools them: a protected word x stays as it is with some probability p,
and another one, x', turns into x with probability q; a promise of loss L for all pairs that are looked at says that the
mean of p is at most exp(L) times the mean of q.  Every token is used in one pair only, so that the draws are independent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sfumato.audit.lower_bounds import AuditResult, loss_bound
from sfumato.foundation.errors import DataError
from sfumato.foundation.guarantee import Guarantee, MetricGuarantee, PureGuarantee, UtilityOptimisedGuarantee
from sfumato.policy import Document, Policy
from sfumato.space import Space
from sfumato.space.metric import IndexArray

_MOST_TYPES = 4000
_FEWEST_PAIRS = 30


@dataclass(frozen=True)
class Aligned:
    """The protected tokens of a text that could be compared, with what became of them."""

    before: IndexArray = field(repr=False)
    """Positions in the vocabulary."""
    after: IndexArray = field(repr=False)
    """Positions in the vocabulary; -1 for what is not in it."""


@dataclass(frozen=True)
class TextFigures:
    """Counts over the records of an original and what was made of them.  For the owner of the text only."""

    records: int
    not_comparable: int
    """Records with another number of tokens than their original, which are left out of everything else."""
    tokens: int
    kept: int
    """Tokens that the policy releases as they are."""
    protected: int
    out_of_vocabulary: int
    """Protected tokens that are not in the vocabulary."""
    unchanged: int
    """Protected tokens that came out as they were, letter case aside."""
    out_of_vocabulary_unchanged: int
    altered_although_kept: int
    """Tokens that the policy should have kept but that came out changed: a sign that it is not the policy used."""
    longest_record: int
    aligned: Aligned = field(repr=False)

    @property
    def unchanged_share(self) -> float:
        """Share of the protected tokens that came out as they were."""
        return self.unchanged / self.protected if self.protected else 0.0

    def to_json(self) -> dict[str, float]:
        """Return plain data, without any token."""
        data = {name: value for name, value in self.__dict__.items() if name != "aligned"}
        return {**data, "unchanged_share": self.unchanged_share}


def compare_texts(originals: Sequence[str], privatized: Sequence[str], policy: Policy, space: Space) -> TextFigures:
    """Compare texts with their originals, token by token.

    >>> from sfumato.policy import everything
    >>> space = Space.from_arrays(["cold", "cool", "hot"], [[0.0], [1.0], [4.0]])
    >>> figures = compare_texts(["Cold rain", "hot"], ["Cool rain", "hot"], everything(), space)
    >>> figures.protected, figures.out_of_vocabulary, figures.unchanged
    (3, 1, 2)
    """
    if len(originals) != len(privatized):
        raise DataError(
            f"the original has {len(originals)} records and the other {len(privatized)}: give the file that was made from it"
        )
    counts: Counter[str] = Counter()
    before: list[int] = []
    after: list[int] = []
    longest = 0
    documents = [Document(text) for text in originals]
    masks = policy.protects_many(documents)
    for document, mask, text in zip(documents, masks, privatized, strict=True):
        old, new = document.tokens, Document(text).tokens
        if len(old) != len(new):
            counts["not_comparable"] += 1
            continue
        longest = max(longest, int(mask.sum()))
        counts["tokens"] += len(old)
        for one, other, protected in zip(old, new, mask.tolist(), strict=True):
            same = one.lower() == other.lower()
            if not protected:
                counts["kept"] += 1
                counts["altered_although_kept"] += not same
                continue
            counts["protected"] += 1
            counts["unchanged"] += same
            place = _place(space, one)
            if place < 0:
                counts["out_of_vocabulary"] += 1
                counts["out_of_vocabulary_unchanged"] += same
                continue
            before.append(place)
            after.append(_place(space, other))
    names = (
        "not_comparable", "tokens", "kept", "protected", "out_of_vocabulary", "unchanged", "out_of_vocabulary_unchanged",
        "altered_although_kept",
    )  # fmt: skip
    figures = {name: counts[name] for name in names}
    aligned = Aligned(np.array(before, dtype=np.intp), np.array(after, dtype=np.intp))
    return TextFigures(records=len(originals), **figures, longest_record=longest, aligned=aligned)


def _place(space: Space, token: str) -> int:
    lower = token.lower()
    place = space.index.get(lower, -1)
    return space.index.get(token, -1) if place < 0 else place


def audit_aligned(
    aligned: Aligned,
    space: Space,
    guarantee: Guarantee,
    *,
    confidence: float = 0.99,
    one_for_each_word: bool = False,
    seed: int = 0,
) -> list[AuditResult]:
    """Return lower bounds on the loss over pairs of tokens: near ones, and random ones; empty where nothing can be tested.

    ``one_for_each_word`` takes one token for each distinct word: where equal words share a draw, more would not be
    independent.
    """
    if not isinstance(guarantee, (MetricGuarantee, PureGuarantee)) or isinstance(guarantee, UtilityOptimisedGuarantee):
        return []
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(aligned.before))
    if one_for_each_word:
        chosen = chosen[np.unique(aligned.before[chosen], return_index=True)[1]]
        chosen = rng.permutation(chosen)
    results = []
    for pairs in (_random_pairs(aligned, chosen), _near_pairs(aligned, chosen, space)):
        if len(pairs) < _FEWEST_PAIRS:
            continue
        results.append(_pooled(aligned, pairs, space, guarantee, 1 - (1 - confidence) / 2, confidence))
    return results


def _random_pairs(aligned: Aligned, chosen: IndexArray) -> IndexArray:
    half = len(chosen) // 2
    pairs = np.stack([chosen[:half], chosen[half : 2 * half]], axis=1)
    unlike = aligned.before[pairs[:, 0]] != aligned.before[pairs[:, 1]]
    return np.asarray(pairs[unlike])


def _near_pairs(aligned: Aligned, chosen: IndexArray, space: Space) -> IndexArray:
    """Pair tokens with tokens of the nearest other word of the text, each once, the half of the pairs that are nearest."""
    order = chosen[np.argsort(aligned.before[chosen], kind="stable")]
    words, starts, counts = np.unique(aligned.before[order], return_index=True, return_counts=True)
    frequent = np.sort(np.argsort(-counts, kind="stable")[:_MOST_TYPES])
    if len(frequent) < 2:
        return np.empty((0, 2), dtype=np.intp)
    distances = space.distances(words[frequent], words[frequent])
    np.fill_diagonal(distances, np.inf)
    nearest, far = distances.argmin(axis=1), distances.min(axis=1)
    left = {int(place): order[starts[place] : starts[place] + counts[place]].tolist() for place in frequent.tolist()}
    pairs, reach = [], []
    for place in np.argsort(far, kind="stable").tolist():
        one, other = left[int(frequent[place])], left[int(frequent[nearest[place]])]
        while one and other:
            pairs.append((one.pop(), other.pop()))
            reach.append(far[place])
    near = np.array(reach) <= np.median(reach) if pairs else np.empty(0, dtype=bool)
    return np.asarray(np.array(pairs, dtype=np.intp).reshape(-1, 2)[near])


def _pooled(
    aligned: Aligned,
    pairs: IndexArray,
    space: Space,
    guarantee: MetricGuarantee | PureGuarantee,
    each: float,
    confidence: float,
) -> AuditResult:
    first, second = pairs[:, 0], pairs[:, 1]
    hits: npt.NDArray[np.bool_] = aligned.after[first] == aligned.before[first]
    others = aligned.after[second] == aligned.before[first]
    bound = loss_bound(int(hits.sum()), len(pairs), int(others.sum()), len(pairs), each)
    claimed = guarantee.epsilon
    if isinstance(guarantee, MetricGuarantee):
        gaps = _distances(space, aligned.before[first], aligned.before[second])
        claimed *= min(float(gaps.max()), guarantee.radius)
    return AuditResult(claimed, bound, confidence, -1, -1, len(pairs))


def _distances(space: Space, ones: IndexArray, others: IndexArray) -> npt.NDArray[np.float64]:
    """Return the distances of pairs of words, a few at a time."""
    found = np.empty(len(ones))
    for start in range(0, len(ones), 500):
        part = slice(start, start + 500)
        found[part] = np.diagonal(space.distances(ones[part], others[part]))
    return found
