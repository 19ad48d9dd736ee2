"""CusText: every word has a small set of output words, and shares it with a group of other words.

Inside a group the exponential mechanism gives local differential privacy (McSherry and Talwar 2007, for a score between 0 and
1).  Words of unlike groups have unlike outputs, so the group of a word is revealed: that is the price of replacements that
are all near.  ``global_mix`` pays for a bound between groups with a share of uniformly random words.
Measured by ``tests/contracts`` and by :func:`sfumato.verify`, group by group.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sfumato.foundation.checks import gather, require_count, require_epsilon, require_one_of, require_probability
from sfumato.foundation.errors import CertificationError
from sfumato.foundation.guarantee import GroupGuarantee
from sfumato.foundation.randomness import UInt64Array
from sfumato.foundation.registry import mechanism
from sfumato.mechanism.base import Row, TableMechanism
from sfumato.mechanism.custext_mapping import MAPPINGS, SEMANTICS, Mapping, Tick, build_mapping
from sfumato.mechanism.custext_tuning import (
    LOG_ERROR,
    TUNINGS,
    Scores,
    calibrated_weights,
    exponential_weights,
    group_losses,
    least_cost_weights,
    scores_of,
)
from sfumato.mechanism.integers import rounding_loss, to_weights
from sfumato.mechanism.vocabulary import positions_of
from sfumato.space import Space
from sfumato.space.metric import FloatArray, IndexArray

SIMILARITIES = ("cosine", "euclidean")
_SAFETY = 1e-9
"""Share of epsilon that is left unused, so that a certificate can be checked with other roundings."""


@dataclass(frozen=True, eq=False)
class GroupReport:
    """How the words of a CusText mapping are grouped, and what each group loses."""

    words: int
    many_to_many: int
    """Words that share more than one output with other words: the ones with protection and choice."""
    many_to_one: int
    """Words that share a single output with other words: they are indistinguishable."""
    one_to_many: int
    """Words alone in their group with several outputs: no protection."""
    one_to_one: int
    """Words alone in their group with a single output: always replaced by the same word, and no protection."""
    sizes: IndexArray = field(repr=False)
    """Words in each group."""
    output_counts: IndexArray = field(repr=False)
    """Outputs of each group."""
    realised: FloatArray = field(repr=False)
    """The realised epsilon of each group, on the integers that run (0 for a word alone)."""

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.sizes)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        names = ("words", "groups", "many_to_many", "many_to_one", "one_to_many", "one_to_one")
        arrays = {name: getattr(self, name).tolist() for name in ("sizes", "output_counts", "realised")}
        return {**{name: getattr(self, name) for name in names}, **arrays}


class CusText(TableMechanism):
    """A certified CusText mechanism; see :func:`custext`."""

    def __init__(
        self,
        space: Space,
        outputs: IndexArray,
        mapping: Mapping,
        guarantee: GroupGuarantee,
        table: UInt64Array,
        *,
        costs: FloatArray | None = None,
        points: IndexArray | None = None,
        target: float = math.inf,
        global_mix: float = 0.0,
        row_memory: int = 2**29,
    ) -> None:
        super().__init__(space, mapping.inputs, outputs, guarantee, row_memory)
        self.mapping = mapping
        self.global_mix = global_mix
        self._table = table
        self._costs = costs
        self._points = points
        self._target = target
        self._solved: dict[int, UInt64Array] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the groups that were solved: which ones is a trace of the text."""
        return {**super().__getstate__(), "_solved": {}}

    @property
    def group_numbers(self) -> IndexArray:
        """The group of every input word, in the order of :attr:`inputs`."""
        return self.mapping.group_numbers

    def row(self, word: str) -> Row:
        """Return the exact distribution of one input word over the outputs of its group."""
        row = super().row(word)
        real = row.weights > 0
        return Row(row.cells[real], row.weights[real], row.total)

    def cells(self, ids: IndexArray) -> IndexArray | None:
        """Return the outputs of each word's group; the columns that fill up a smaller set repeat its first output."""
        if self.global_mix:
            return None
        sets = self.mapping.output_sets[self.group_numbers[self._places(ids)]]
        return np.where(sets >= 0, sets, sets[:, :1])

    def weights(self, ids: IndexArray) -> UInt64Array:
        """Return the integer weights of some rows."""
        places = self._places(ids)
        weights = self._unmixed(places)
        return self._mixed(places, weights) if self.global_mix else weights

    def _places(self, ids: IndexArray) -> IndexArray:
        return np.searchsorted(self.inputs, ids)

    def _unmixed(self, places: IndexArray) -> UInt64Array:
        weights = self._table[places]
        if self._costs is not None:
            for number, place in enumerate(places.tolist()):
                self._fill_in(weights[number], place)
        return weights

    def _fill_in(self, weights: UInt64Array, place: int) -> None:
        """Replace a published row by the one with the least cost, solving its group when it first occurs."""
        group = int(self.group_numbers[place])
        if self.mapping.sizes[group] == 1:
            return
        members = self.mapping.members(group)
        outputs = int(self.mapping.output_counts[group])
        if group not in self._solved:
            assert self._costs is not None
            assert self._points is not None
            costs = self._costs[members, :outputs]
            self._solved[group] = least_cost_weights(costs, self._points[members], self._target)
        weights[:outputs] = self._solved[group][np.searchsorted(members, place)]

    def _mixed(self, places: IndexArray, weights: UInt64Array) -> UInt64Array:
        """Return rows over all outputs: a share of a uniform one, the rest as the group has it."""
        kernel = np.full((len(places), len(self.outputs)), self.global_mix / len(self.outputs))
        sets = self.mapping.output_sets[self.group_numbers[places]]
        rows, columns = np.nonzero(sets >= 0)
        shares = _probabilities(weights)[rows, columns] * (1.0 - self.global_mix)
        np.add.at(kernel, (rows, np.searchsorted(self.outputs, sets[rows, columns])), shares)
        return to_weights(kernel)

    def report(self, tick: Tick | None = None) -> GroupReport:
        """Return how the words are grouped and what each group realises (with ``lp``, this solves every group)."""
        sizes, outputs = self.mapping.sizes, self.mapping.output_counts
        alone, single = sizes == 1, outputs == 1
        weights = self._table.copy()
        if self._costs is not None:
            for place in range(len(weights)):
                self._fill_in(weights[place], place)
                if tick:
                    tick(1)
        return GroupReport(
            words=len(self.inputs),
            many_to_many=int(sizes[~alone & ~single].sum()),
            many_to_one=int(sizes[~alone & single].sum()),
            one_to_many=int(sizes[alone & ~single].sum()),
            one_to_one=int(sizes[alone & single].sum()),
            sizes=sizes,
            output_counts=outputs,
            realised=_mixed_losses(weights, self.mapping, self.global_mix, len(self.outputs)),
        )


def _probabilities(weights: UInt64Array) -> FloatArray:
    totals = weights.sum(axis=1, dtype=np.uint64).astype(np.float64)
    return np.asarray(weights.astype(np.float64) / totals[:, None])


def _mixed_losses(weights: UInt64Array, mapping: Mapping, global_mix: float, outputs: int) -> FloatArray:
    """Return what each group loses, with the mix and the rounding of the mixed rows."""
    losses = group_losses(weights, mapping)
    if not global_mix:
        return losses
    uniform = global_mix / outputs
    logs = np.log((1.0 - global_mix) * _probabilities(weights) + uniform)[mapping.order]
    gaps = np.maximum.reduceat(logs, mapping.starts, axis=0) - np.minimum.reduceat(logs, mapping.starts, axis=0)
    return np.where(losses > 0, gaps.max(axis=1) + rounding_loss(outputs) + LOG_ERROR, 0.0)


def _measure_of(space: Space, similarity: str | None) -> tuple[Space, bool]:
    """Return the space that measures similarity, and whether that is the cosine."""
    if similarity is None:
        return space, space.metric == "angle" and space.metric_function is None
    metric = "angle" if similarity == "cosine" else "euclidean"
    if space.metric == metric and space.metric_function is None:
        return space, similarity == "cosine"
    return replace(space, metric=metric, metric_function=None), similarity == "cosine"


def _grouping(space: Space, mapping: Mapping) -> str:
    """Return a digest of which words form a group."""
    hasher = hashlib.sha256("\n".join(space.words[place] for place in mapping.inputs).encode("utf-8", "surrogatepass"))
    hasher.update(b"\0" + mapping.group_numbers.astype("<i8").tobytes())
    return hasher.hexdigest()


def _group_guarantee(
    space: Space, mapping: Mapping, epsilon: float, certified: float, tuning: str, global_mix: float, outputs: int
) -> GroupGuarantee:
    if not certified <= epsilon:
        raise CertificationError(
            f"at epsilon {epsilon:g} the rounding to integers alone loses {certified:.3g} inside a group; use a larger "
            "epsilon, or tuning='calibrated'"
        )
    notes = ["Whoever sees the outputs learns the group of every word"]
    public: tuple[str, ...] = ("the group of every protected word",)
    bound = math.inf
    if global_mix:
        notes, public = [], ()
        bound = math.log1p((1.0 - global_mix) * outputs / global_mix) + rounding_loss(outputs)
    if tuning != "published" and (mapping.sizes == 1).any():
        notes.append("Words alone in their group keep their published distribution under every tuning")
    return GroupGuarantee(
        mechanism="custext",
        epsilon=epsilon,
        certified=certified,
        groups=len(mapping),
        smallest_group=int(mapping.sizes.min()),
        largest_group=int(mapping.sizes.max()),
        words_alone=int((mapping.sizes == 1).sum()),
        global_epsilon=bound,
        grouping=_grouping(space, mapping),
        public=public,
        notes=tuple(notes),
    )


def _filled(
    scores: Scores, mapping: Mapping, epsilon: float, target: float, tuning: str, global_mix: float, outputs: int
) -> tuple[UInt64Array, float]:
    """Return the table and what it is certified for; with ``lp`` the published rows, to be replaced group by group."""
    if tuning == "calibrated":
        table = calibrated_weights(scores, mapping, epsilon / 2, target)
    else:
        table = exponential_weights(scores, np.full(len(mapping.inputs), epsilon / 2))
    if tuning == "lp":
        return table, epsilon
    return table, float(_mixed_losses(table, mapping, global_mix, outputs).max())


@mechanism("custext", kind="group")
def custext(
    space: Space,
    *,
    epsilon: float,
    mapping: str = "conservative",
    semantics: str = "published",
    k: int = 20,
    similarity: str | None = None,
    tuning: str = "published",
    global_mix: float | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    threads: int | None = None,
    row_memory: int = 2**29,
    tick: Tick | None = None,
    say: Callable[[str], None] | None = None,
) -> CusText:
    """CusText: each word is replaced within a small set of near words that a group of words shares.

    ``k`` is the number of outputs of a group; ``similarity`` is ``euclidean`` or ``cosine`` (default: the space's metric).
    With ``tuning="lp"`` a group is solved when one of its words first occurs.

    >>> line = Space.from_arrays(list("abcd"), [[0.0], [1.0], [2.0], [3.0]])
    >>> one_group = custext(line, epsilon=1.0, k=4)
    >>> [round(float(p), 6) for p in one_group.row("a").probabilities]
    [0.315503, 0.267067, 0.226068, 0.191362]
    >>> round(one_group.guarantee.certified, 6)
    0.5
    """
    gather(
        lambda: require_epsilon(epsilon=epsilon),
        lambda: require_one_of(MAPPINGS, mapping=mapping),
        lambda: require_one_of(SEMANTICS, semantics=semantics),
        lambda: require_one_of(TUNINGS, tuning=tuning),
        lambda: require_one_of(SIMILARITIES, similarity=similarity) if similarity is not None else None,
        lambda: require_count(k=k),
        lambda: require_probability(global_mix=global_mix) if global_mix is not None else None,
    )
    input_ids, output_ids = positions_of(space, inputs), positions_of(space, outputs)
    measure, cosine = _measure_of(space, similarity)
    if say:
        say("mapping words to groups")
    groups = build_mapping(measure, input_ids, output_ids, mapping, semantics, int(k), threads, tick)
    if say:
        say("filling and certifying the groups")
    scores = scores_of(measure, groups, cosine)
    mix = global_mix or 0.0
    target = epsilon * (1 - _SAFETY) - (rounding_loss(len(output_ids)) + LOG_ERROR if mix else 0.0)
    table, certified = _filled(scores, groups, epsilon, target, tuning, mix, len(output_ids))
    guarantee = _group_guarantee(space, groups, epsilon, certified, tuning, mix, len(output_ids))
    solves = tuning == "lp"
    return CusText(
        space,
        output_ids,
        groups,
        guarantee,
        table,
        costs=scores.costs if solves else None,
        points=measure.points[input_ids] if solves else None,
        target=target,
        global_mix=mix,
        row_memory=row_memory,
    )
