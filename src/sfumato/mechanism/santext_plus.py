"""SanText+: protected words go through SanText, the others mostly stay.

Theorem (Yue et al. 2021, restated).  Let S be the protected words, the only outputs.  A word of S is always replaced by a draw
from P, a word outside S with probability p, and otherwise kept.  If P is epsilon d-private over all words, then for y in S the
log-ratio of two words is at most epsilon d(x, x'), with ln(1/p) more where one of them is outside S; a word outside S that comes
out has been kept, which reveals it.  The certificate of P is computed over all pairs, protected or not.
Measured by ``tests/contracts`` and by :func:`sfumato.verify`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from sfumato.foundation.checks import gather, require_epsilon, require_one_of, require_positive, require_share
from sfumato.foundation.errors import CertificationError
from sfumato.foundation.guarantee import UtilityOptimisedGuarantee
from sfumato.foundation.randomness import UInt64Array
from sfumato.foundation.registry import mechanism
from sfumato.mechanism import tuned_cache
from sfumato.mechanism.base import Row, TableMechanism
from sfumato.mechanism.exponential import ExponentialMechanism
from sfumato.mechanism.integers import rounding_loss, to_weights
from sfumato.mechanism.kernel import Certificate, Ground, Tick, loss_allowance, require_apart
from sfumato.mechanism.rowstore import BLOCK, CompiledRows
from sfumato.mechanism.tuning import TUNINGS, Effort, Tuned, tune
from sfumato.mechanism.vocabulary import positions_of
from sfumato.space import Space
from sfumato.space.metric import FloatArray, IndexArray


class SanTextPlus(ExponentialMechanism):
    """A certified kernel over the protected words, with a last cell for keeping the others; see :func:`santext_plus`."""

    _may_have_short_rows = False

    def __init__(
        self,
        ground: Ground,
        tuned: Tuned,
        guarantee: UtilityOptimisedGuarantee,
        replaced: float,
        row_memory: int = 2**29,
    ) -> None:
        super().__init__(ground, tuned, guarantee, row_memory)
        self.share = replaced
        """How probable it is that a word outside the protected ones is replaced."""
        # A little more than p, so that rounding to integers cannot take a ratio above 1/p between words at distance 0.
        self._replaced = min(1.0, replaced * math.exp(2 * rounding_loss(len(ground.outputs) + 1)))
        self._is_protected = np.zeros(len(ground.space), dtype=bool)
        self._is_protected[ground.outputs] = True

    @property
    def protected(self) -> IndexArray:
        """Positions of the protected words, which are the outputs."""
        return self.outputs

    def row(self, word: str) -> Row:
        """Return the exact distribution of one input word; a protected word has no cell for keeping it."""
        row = super().row(word)
        real = row.weights > 0
        return Row(row.cells[real], row.weights[real], row.total)

    def cells(self, ids: IndexArray) -> IndexArray:
        """Return the protected words and, last, the word itself."""
        ids = np.asarray(ids, dtype=np.intp)
        outputs = np.broadcast_to(self.outputs, (len(ids), len(self.outputs)))
        return np.hstack([outputs, ids[:, None]])

    def weights(self, ids: IndexArray) -> UInt64Array:
        """Return the integer weights of some rows; the last is that of keeping the word."""
        return self.compile_rows(ids).weights

    def compile_rows(self, ids: IndexArray) -> CompiledRows:
        """Return whole rows, with the sums they were divided by."""
        kernel = self._kernel_rows(ids)
        norms = kernel.sum(axis=1) / self._shares(ids)
        weights = to_weights(kernel, norms, len(self.outputs) + 1)
        return CompiledRows(self.cells(ids), np.hstack([weights, self._keeping(ids)[:, None]]), norms)

    def block_weights(self, ids: IndexArray, blocks: IndexArray, norms: FloatArray) -> tuple[IndexArray, UInt64Array]:
        """Return one block of each row, without the rest of the row where the geometry allows it."""
        if self._pairs is None:
            return TableMechanism.block_weights(self, ids, blocks, norms)
        last = len(self.outputs)
        columns = blocks[:, None] * BLOCK + np.arange(BLOCK)
        sampled = np.minimum(columns, last - 1)
        # The blocks of the kernel end where the outputs do; one that holds nothing but the last cell has none.
        kernel = self._kernel_blocks(ids, np.minimum(blocks, (last - 1) // BLOCK), sampled)
        weights = to_weights(kernel, norms, last + 1)
        weights = np.where(columns < last, weights, np.uint64(0))
        weights = np.where(columns == last, self._keeping(ids)[:, None], weights)
        return np.where(columns < last, self.outputs[sampled], ids[:, None]), weights

    def _shares(self, ids: IndexArray) -> FloatArray:
        """Return how probable it is that each word is replaced."""
        return np.where(self._is_protected[ids], 1.0, self._replaced)

    def _keeping(self, ids: IndexArray) -> UInt64Array:
        """Return the weight of keeping each word."""
        if self._replaced == 1.0:
            return np.zeros(len(ids), dtype=np.uint64)
        weight = to_weights(np.array([[1.0 - self._replaced]]), np.ones(1), len(self.outputs) + 1)[0, 0]
        return np.where(self._is_protected[ids], np.uint64(0), weight)


def _protected_words(space: Space, protected: Sequence[str] | None, share: float) -> IndexArray:
    if protected is not None:
        return positions_of(space, protected)
    return np.arange(len(space) - math.ceil(share * len(space)), len(space))


def _target(ground: Ground, epsilon: float) -> float:
    """Return the epsilon to tune for: a protected and an outside word can need all of it, and rounding comes on top."""
    if len(ground.input_points) == 1:
        return epsilon
    require_apart(ground)
    margin = 1.1 * loss_allowance(ground, epsilon) / ground.space.statistics.least_distance
    if margin >= epsilon:
        raise CertificationError(
            f"the two nearest words are too close for integer weights to tell them apart within epsilon {epsilon:g}; use "
            "a larger epsilon, or merge words with nearly equal vectors"
        )
    return epsilon - margin


def certified_epsilon(ground: Ground, certificate: Certificate) -> float:
    """Return what a kernel's certificate is worth for rows that are one cell longer than the kernel's."""
    if len(ground.input_points) == 1:
        return 0.0
    cells = len(ground.outputs)
    longer = rounding_loss(cells + 1) - rounding_loss(cells)
    return certificate.epsilon + longer / ground.space.statistics.least_distance


def _digest_of(words: Sequence[str]) -> str:
    """Return a digest of a list of words, written as JSON so that no two lists look the same."""
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()


def _guarantee(
    ground: Ground, epsilon: float, tuned: Tuned, replaced: float, is_protected: npt.NDArray[np.bool_]
) -> UtilityOptimisedGuarantee:
    space = ground.space
    certified = certified_epsilon(ground, tuned.certificate)
    if not certified <= epsilon:
        raise CertificationError(
            f"the rows certify for {certified:.6g} only, not for epsilon {epsilon:g}; use tuning='calibrated' or a larger "
            "epsilon"
        )
    notes = [f"Protected are {int(is_protected.sum())} of the {len(space)} words of the space"]
    if tuned.note:
        notes.append(tuned.note)
    if not space.triangle_checked:
        notes.append("The triangle inequality of the user's metric was checked on sampled words only")
    return UtilityOptimisedGuarantee(
        mechanism="santext-plus",
        epsilon=epsilon,
        certified=certified,
        metric=space.metric,
        space=space.name,
        space_digest=space.digest,
        radius=ground.reach,
        neighbour_distance=space.statistics.median_neighbour_distance or None,
        keep_probability=1.0 - replaced,
        protected_digest=_digest_of([space.words[place] for place in np.flatnonzero(is_protected)]),
        public=("which words are protected",),
        notes=tuple(notes),
    )


@mechanism("santext-plus", kind="utility-optimised")
def santext_plus(
    space: Space,
    *,
    epsilon: float,
    p: float = 0.2,
    protected: Sequence[str] | None = None,
    protected_share: float = 0.5,
    tuning: str = "published",
    threads: int | None = None,
    row_memory: int = 2**29,
    tick: Tick | None = None,
    say: Callable[[str], None] | None = None,
) -> SanTextPlus:
    """SanText+: protected words are always replaced by protected ones, others only with probability p.

    ``protected`` must be a public list.  Where none is given it is the last ``protected_share`` of the vocabulary, in whose
    published order the rarest words come last.

    >>> line = Space.from_arrays(list("abcd"), [[0.0], [1.0], [2.0], [3.0]])
    >>> mechanism = santext_plus(line, epsilon=1.0, p=0.25, protected=["c", "d"])
    >>> round(float(mechanism.row("a").probability(0)), 6), float(mechanism.row("c").probability(0))
    (0.75, 0.0)
    """
    gather(
        lambda: require_epsilon(epsilon=epsilon),
        lambda: require_positive(p=p),
        lambda: require_share(p=p),
        lambda: require_positive(protected_share=protected_share),
        lambda: require_share(protected_share=protected_share),
        lambda: require_one_of(TUNINGS, tuning=tuning),
    )
    outputs = _protected_words(space, protected, protected_share)
    ground = Ground(space, np.arange(len(space)), outputs, math.inf)
    target = _target(ground, epsilon)
    tuned = tuned_cache.load(ground, target, tuning)
    if tuned is None:
        tuned = tune(ground, target, tuning, Effort(threads, tick, say))
        tuned_cache.store(ground, target, tuning, tuned)
    is_protected = np.zeros(len(space), dtype=bool)
    is_protected[outputs] = True
    guarantee = _guarantee(ground, epsilon, tuned, float(p), is_protected)
    return SanTextPlus(ground, tuned, guarantee, float(p), row_memory)
