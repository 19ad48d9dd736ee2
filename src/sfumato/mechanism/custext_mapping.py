"""CusText's mapping: which words share which set of outputs.

The words are gone through in a public order, that of the vocabulary.  A word that has no outputs yet takes its K nearest
output words L, and

* ``aggressive`` gives L to that word alone,
* ``balanced`` gives L to every word of L that has no outputs yet, too,
* ``conservative`` does the same and removes L from the outputs that are left.

That is the mapping as CusText is understood (``published``).  Read to the letter, the pseudo-code forgets after every
word which words have outputs already, so that no word is ever skipped and later words overwrite what earlier ones gave:
``literal``.  Words with the same vector are always mapped alike.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sfumato.foundation.errors import ParameterError
from sfumato.mechanism.nearest import nearest, nearest_outputs
from sfumato.space import Space, cache
from sfumato.space.metric import BLOCK_CELLS, FloatArray, IndexArray

MAPPINGS = ("aggressive", "balanced", "conservative")
SEMANTICS = ("literal", "published")
_FORMAT = 1
_SMALLEST_WORTH_KEEPING = 2000
Tick = Callable[[int], None]


@dataclass(frozen=True, eq=False)
class Mapping:
    """The groups of words that share an output set; groups are numbered by their first word."""

    inputs: IndexArray = field(repr=False)
    """Positions of the mapped words."""
    group_numbers: IndexArray = field(repr=False)
    """The group of every mapped word."""
    output_sets: IndexArray = field(repr=False)
    """Positions of every group's outputs in vocabulary order, one row each, filled up with -1."""

    def __len__(self) -> int:
        return len(self.output_sets)

    @cached_property
    def sizes(self) -> IndexArray:
        """Number of words in each group."""
        return np.bincount(self.group_numbers, minlength=len(self))

    @cached_property
    def output_counts(self) -> IndexArray:
        """Number of outputs of each group."""
        return np.asarray((self.output_sets >= 0).sum(axis=1))

    @cached_property
    def order(self) -> IndexArray:
        """Places of the words, group by group."""
        return np.argsort(self.group_numbers, kind="stable")

    @cached_property
    def starts(self) -> IndexArray:
        """Where each group begins in :attr:`order`."""
        return np.asarray(np.cumsum(self.sizes) - self.sizes)

    def members(self, group: int) -> IndexArray:
        """Return the places (in :attr:`inputs`) of a group's words."""
        start = self.starts[group]
        return self.order[start : start + self.sizes[group]]

    def outputs_of(self, group: int) -> IndexArray:
        """Return the positions of a group's outputs."""
        return self.output_sets[group, : self.output_counts[group]]


@dataclass
class _Progress:
    """Output sets given so far, and what is left to give."""

    space: Space
    outputs: IndexArray
    seeds: IndexArray
    """Points of the mapped words, by their first word."""
    owner: IndexArray
    """For every point of the space the number of its output set, -1 where it has none."""
    is_input: npt.NDArray[np.bool_]
    available: IndexArray
    """Places of the outputs that are left."""
    sets: list[IndexArray] = field(default_factory=list)

    def give(self, seed: int, chosen: IndexArray, share: bool, overwrite: bool) -> None:
        """Give the chosen outputs (places) to a point, and, if shared, to the mapped words among them."""
        number = len(self.sets)
        self.sets.append(np.sort(self.outputs[chosen]))
        if share:
            members = self.space.points[self.outputs[chosen]]
            members = members[self.is_input[members]]
            self.owner[members if overwrite else members[self.owner[members] < 0]] = number
        self.owner[seed] = number


def build_mapping(
    space: Space,
    inputs: IndexArray,
    outputs: IndexArray,
    mapping: str,
    semantics: str,
    k: int,
    threads: int | None = None,
    tick: Tick | None = None,
) -> Mapping:
    """Map every input word to a set of at most ``k`` output words.

    >>> line = Space.from_arrays(list("abcdef"), [[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]])
    >>> every = np.arange(6)
    >>> build_mapping(line, every, every, "conservative", "published", 2).output_sets.tolist()
    [[0, 1], [2, 3], [4, 5]]
    >>> build_mapping(line, every, every, "balanced", "published", 2).output_sets.tolist()
    [[0, 1], [1, 2], [3, 4], [4, 5]]
    """
    k = min(k, len(outputs))
    name = _cache_name(space, inputs, outputs, (mapping, semantics, k))
    known = _load(space, name, inputs)
    if known is not None:
        return known
    progress = _begin(space, inputs, outputs)
    literal = semantics == "literal"
    if mapping == "aggressive" or (mapping == "balanced" and literal):
        places, _ = nearest_outputs(space, progress.seeds, outputs, k, threads)
        for seed, chosen in zip(progress.seeds.tolist(), places, strict=True):
            progress.give(seed, chosen, share=mapping == "balanced", overwrite=True)
    else:
        _walk(progress, k, removes=mapping == "conservative", literal=literal, tick=tick)
    found = _finish(progress, inputs)
    _store(space, name, found)
    return found


def _begin(space: Space, inputs: IndexArray, outputs: IndexArray) -> _Progress:
    points, first = np.unique(space.points[inputs], return_index=True)
    is_input = np.zeros(len(space.geometry), dtype=bool)
    is_input[points] = True
    owner = np.full(len(space.geometry), -1, dtype=np.intp)
    return _Progress(space, outputs, points[np.argsort(first)], owner, is_input, np.arange(len(outputs)))


def _batches(progress: _Progress, literal: bool) -> Iterator[IndexArray]:
    """Yield the points that come next: all of them, or those that have no outputs yet."""
    start = 0
    while start < len(progress.seeds) and len(progress.available):
        ahead = np.arange(start, len(progress.seeds))
        if not literal:
            ahead = ahead[progress.owner[progress.seeds[ahead]] < 0]
        batch = ahead[: max(1, BLOCK_CELLS // len(progress.available))]
        if len(batch) == 0:
            return
        start = int(batch[-1]) + 1
        yield progress.seeds[batch]


def _walk(progress: _Progress, k: int, removes: bool, literal: bool, tick: Tick | None) -> None:
    space = progress.space
    for batch in _batches(progress, literal):
        available = progress.available
        block = space.geometry.block(batch, space.points[progress.outputs[available]])
        left = np.ones(len(available), dtype=bool)
        for seed, distances in zip(batch.tolist(), block, strict=True):
            remaining = int(left.sum()) if removes else len(available)
            if remaining == 0 or (progress.owner[seed] >= 0 and not literal):
                continue
            chosen = _chosen(distances, left, min(k, remaining), removes)
            progress.give(seed, available[chosen], share=True, overwrite=literal)
            if removes:
                left[chosen] = False
        progress.available = available[left]
        if tick:
            tick(len(batch))


def _chosen(distances: FloatArray, left: npt.NDArray[np.bool_], count: int, removes: bool) -> IndexArray:
    if removes:
        distances[~left] = np.inf
    return nearest(distances, count)


def _finish(progress: _Progress, inputs: IndexArray) -> Mapping:
    """Number the groups of words whose output sets are equal."""
    owner = progress.owner[progress.space.points[inputs]]
    missing = int((owner < 0).sum())
    if missing:
        raise ParameterError(
            f"the conservative mapping ran out of outputs: {missing} of {len(inputs)} inputs are left without any; give "
            "outputs that contain the inputs, or use mapping='balanced'"
        )
    used, which = np.unique(owner, return_inverse=True)
    none = len(progress.space)
    sets = np.full((len(used), max(len(progress.sets[number]) for number in used.tolist())), none, dtype=np.intp)
    for row, number in enumerate(used.tolist()):
        sets[row, : len(progress.sets[number])] = progress.sets[number]
    distinct, same = np.unique(sets, axis=0, return_inverse=True)
    numbers = same.ravel()[which.ravel()]
    present, first = np.unique(numbers, return_index=True)
    order = np.argsort(first)
    rank = np.empty(len(present), dtype=np.intp)
    rank[order] = np.arange(len(present))
    distinct = distinct[order]
    return Mapping(inputs, rank[numbers], np.where(distinct == none, -1, distinct))


def _cache_name(space: Space, inputs: IndexArray, outputs: IndexArray, choices: tuple[str, str, int]) -> str | None:
    if space.metric_function is not None or len(space) < _SMALLEST_WORTH_KEEPING:
        return None
    hasher = hashlib.sha256(json.dumps([_FORMAT, space.digest, *choices]).encode())
    for positions in (inputs, outputs):
        hasher.update(np.ascontiguousarray(positions, dtype="<i8").data)
        hasher.update(b";")
    return f"mapping-{hasher.hexdigest()}.npz"


def _load(space: Space, name: str | None, inputs: IndexArray) -> Mapping | None:
    """Return the mapping found before for exactly these public things, or None."""
    content = None if name is None else cache.read_bytes(name)
    if content is None:
        return None
    try:
        with np.load(io.BytesIO(content)) as data:
            numbers, sets = data["group_numbers"].astype(np.intp), data["output_sets"].astype(np.intp)
    except (ValueError, KeyError, OSError, zipfile.BadZipFile):
        return None
    if len(numbers) != len(inputs) or sets.max() >= len(space):
        return None
    return Mapping(inputs, numbers, sets)


def _store(space: Space, name: str | None, mapping: Mapping) -> None:
    if name is None:
        return
    buffer = io.BytesIO()
    np.savez(
        buffer, group_numbers=mapping.group_numbers.astype(np.int32), output_sets=mapping.output_sets.astype(np.int32)
    )
    cache.write_bytes(name, buffer.getvalue())
