"""The rows of a mechanism as the channel that attacks are about: attacks themselves know no mechanism."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from sfumato.audit.attacks.bayes import BayesAttack, Rows, bayes_attack
from sfumato.audit.prior import Prior
from sfumato.foundation.errors import CertificationError, ParameterError
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism.base import Mechanism, TableMechanism
from sfumato.space.metric import FloatArray, IndexArray

Tick = Callable[[int], None]
_BATCH_CELLS = 4_000_000


def input_words(mechanism: Mechanism) -> list[str]:
    """Return the words a mechanism takes, in the order of its inputs."""
    words = mechanism.space.words
    return [words[place] for place in inputs_of(mechanism).tolist()]


def inputs_of(mechanism: Mechanism) -> IndexArray:
    """Return the positions of a mechanism's input words."""
    return np.asarray(getattr(mechanism, "inputs", np.arange(len(mechanism.space))))


def channel_rows(mechanism: TableMechanism, tick: Tick | None = None) -> Iterator[Rows]:
    """Yield the rows of a table, a few at a time; words are places in its inputs, outputs positions in the space."""
    inputs = mechanism.inputs
    step = max(1, _BATCH_CELLS // max(len(mechanism.outputs), 1))
    for start in range(0, len(inputs), step):
        ids = inputs[start : start + step]
        weights = mechanism.weights(ids).astype(np.float64)
        weights /= weights.sum(axis=1, keepdims=True)
        cells = mechanism.cells(ids)
        outputs = mechanism.outputs if cells is None else np.asarray(cells)
        yield Rows(np.arange(start, start + len(ids)), outputs, weights)
        if tick:
            tick(len(ids))


def attack_mechanism(mechanism: Mechanism, prior: Prior, tick: Tick | None = None) -> BayesAttack:
    """Return the optimal attack on a table mechanism, exactly.

    >>> import sfumato
    >>> from sfumato.audit.prior import uniform_prior
    >>> line = sfumato.Space.from_arrays(list("abcd"), [[0.0], [1.0], [2.0], [3.0]])
    >>> attack_mechanism(sfumato.compile("identity", line), uniform_prior(line.words)).success
    1.0
    >>> attack_mechanism(sfumato.compile("random", line), uniform_prior(line.words)).success
    0.25
    """
    if not isinstance(mechanism, TableMechanism):
        raise CertificationError(
            "the optimal attack is computed from a table of probabilities, which this mechanism does not have; estimate "
            "it from draws (sfumato.audit.channel.sampled_table), or choose a mechanism with a table such as tem"
        )
    if len(prior.chances) != len(mechanism.inputs):
        raise ParameterError(f"the prior has {len(prior.chances)} words, the mechanism {len(mechanism.inputs)}")
    return bayes_attack(prior.chances, channel_rows(mechanism, tick), len(mechanism.space))


def dense_table(mechanism: TableMechanism) -> FloatArray:
    """Return the whole table: one row for each input, one column for each word of the space."""
    table = np.zeros((len(mechanism.inputs), len(mechanism.space)))
    for block in channel_rows(mechanism):
        if block.outputs.ndim == 1:
            table[np.ix_(block.words, block.outputs)] = block.probabilities
        else:
            np.add.at(table, (block.words[:, None], block.outputs), block.probabilities)
    return table


def sampled_table(mechanism: Mechanism, draws: int, key: RunKey) -> FloatArray:
    """Return the shares of outputs among ``draws`` draws of every input word, for mechanisms without a table.

    A best guess made from such shares and tried on the same draws looks better than it is: draw twice, once to choose
    guesses and once to count how many are right.
    """
    inputs = inputs_of(mechanism)
    table = np.zeros((len(inputs), len(mechanism.space)))
    for place, word in enumerate(inputs.tolist()):
        drawn = mechanism.sample(np.full(draws, word), key.record(place, "sampled table"))
        table[place] = np.bincount(drawn, minlength=len(mechanism.space)) / draws
    return table


def sampled_attack(mechanism: Mechanism, prior: Prior, *, draws: int = 200, seed: int = 0) -> BayesAttack:
    """Return an attack whose guesses come from sampled shares, with its success on fresh draws.

    The success is that of one attacker, so a lower bound for the optimal one, up to the sampling error of
    ``draws`` per word.
    """
    every = np.arange(len(mechanism.space))
    learnt = sampled_table(mechanism, draws, RunKey.from_seed(2 * seed))
    fresh = sampled_table(mechanism, draws, RunKey.from_seed(2 * seed + 1))
    words = np.arange(len(learnt))
    attack = bayes_attack(prior.chances, [Rows(words, every, learnt)], len(every))
    guessed = np.maximum(attack.guesses, 0)
    right = prior.chances[guessed] * fresh[guessed, every]
    unseen = attack.guesses < 0
    # An output that was never drawn while learning is answered with the most frequent word.
    commonest = int(prior.chances.argmax())
    right[unseen] = prior.chances[commonest] * fresh[commonest, unseen]
    return BayesAttack(float(right.sum()), attack.blind, np.where(unseen, commonest, attack.guesses))
