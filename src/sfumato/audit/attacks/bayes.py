"""The Bayes-optimal attacker: who knows the mechanism and how frequent words are, and guesses the word behind an output.

No attacker that sees one output and has the same prior guesses better (Alvim et al. 2012: the posterior Bayes
vulnerability of the channel).  The chance is

    sum over outputs y of  max over words x of  prior(x) P(y | x),

which is computed from the rows of a table, block by block, so that a table never has to be in memory.  An attacker who
sees several draws of the same word does better; :func:`success_of_draws` says how much.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sfumato.foundation.checks import gather, require_count
from sfumato.foundation.errors import ParameterError

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]
_EXACT_OUTCOMES = 200_000
_TRIALS_AT_ONCE = 500


@dataclass(frozen=True)
class Rows:
    """Some rows of a channel: what comes out, for some words, and how probably."""

    words: Places
    """Places of the words in the prior."""
    outputs: Places
    """Columns of the probabilities: one list for all rows, or one row of outputs for each word."""
    probabilities: Floats = field(repr=False)


@dataclass(frozen=True)
class BayesAttack:
    """The best guess for every output, and how often such guesses are right."""

    success: float
    """The chance that the guess is right, for a word drawn from the prior."""
    blind: float
    """The chance of a guess without any output: that of the most frequent word."""
    guesses: Places = field(repr=False)
    """The best guess (a place in the prior) for every output; -1 where the output cannot occur."""

    def recovered(self, words: Places, outputs: Places) -> float:
        """Return the share of released words (places in the prior) that the attacker guesses from their outputs."""
        return float(np.mean(self.guesses[outputs] == words)) if len(words) else 0.0


def checked_prior(prior: npt.ArrayLike) -> Floats:
    """Return a prior that sums to one, or say what is wrong with it."""
    weights = np.asarray(prior, dtype=np.float64)
    if weights.ndim != 1 or len(weights) == 0 or not np.isfinite(weights).all() or (weights < 0).any():
        raise ParameterError("a prior is a list of finite numbers, 0 or greater, one for each word")
    total = float(weights.sum())
    if total <= 0:
        raise ParameterError("a prior needs at least one word with a chance above 0")
    return weights / total


def bayes_attack(prior: npt.ArrayLike, rows: Iterable[Rows], outputs: int) -> BayesAttack:
    """Return the optimal attack on a channel given by its rows; ``outputs`` is how many outputs there are.

    >>> every = np.arange(2)
    >>> coin = Rows(every, every, np.array([[0.75, 0.25], [0.25, 0.75]]))
    >>> bayes_attack([0.5, 0.5], [coin], 2).success
    0.75
    >>> bayes_attack([0.9, 0.1], [coin], 2).success
    0.9
    """
    chances = checked_prior(prior)
    best = np.zeros(outputs)
    guesses = np.full(outputs, -1, dtype=np.intp)
    for block in rows:
        joint = block.probabilities * chances[block.words][:, None]
        if block.outputs.ndim == 1:
            row = joint.argmax(axis=0)
            values, columns, words = joint[row, np.arange(joint.shape[1])], block.outputs, block.words[row]
        else:
            values, columns, words = _best_of_cells(joint, block)
        better = values > best[columns]
        best[columns[better]] = values[better]
        guesses[columns[better]] = words[better]
    return BayesAttack(min(float(best.sum()), 1.0), float(chances.max()), guesses)


def _best_of_cells(joint: Floats, block: Rows) -> tuple[Floats, Places, Places]:
    """Return the greatest joint chance of each output that occurs in rows with outputs of their own."""
    values, columns = joint.ravel(), block.outputs.ravel()
    words = np.repeat(block.words, joint.shape[1])
    order = np.lexsort((values, columns))
    last = np.flatnonzero(np.append(columns[order][1:] != columns[order][:-1], True))
    chosen = order[last]
    return values[chosen], columns[chosen], words[chosen]


@dataclass(frozen=True)
class SuccessOfDraws:
    """How often the optimal attacker is right who sees several independent draws of one word."""

    draws: int
    success: float
    low: float
    """End of a 95 % interval; the success itself where it is exact."""
    high: float
    exact: bool


def success_of_draws(
    prior: npt.ArrayLike, table: npt.ArrayLike, draws: int, *, trials: int = 4000, seed: int = 0
) -> SuccessOfDraws:
    """Return the success of the attacker who sees ``draws`` independent outputs of the same word.

    Exact where the outcomes can be enumerated, otherwise the mean of the greatest posterior over ``trials`` simulated
    words (its expectation is exactly the success).

    >>> coin = [[0.75, 0.25], [0.25, 0.75]]
    >>> [round(success_of_draws([0.5, 0.5], coin, n).success, 4) for n in (1, 2, 3)]
    [0.75, 0.75, 0.8438]
    """
    gather(lambda: require_count(draws=draws, trials=trials))
    chances = checked_prior(prior)
    channel = np.asarray(table, dtype=np.float64)
    if channel.ndim != 2 or len(channel) != len(chances):
        raise ParameterError(f"the table needs one row for each of the {len(chances)} words of the prior")
    channel = channel / channel.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        logs, log_prior = np.log(channel), np.log(chances)
    if math.comb(channel.shape[1] + draws - 1, draws) <= _EXACT_OUTCOMES:
        success = _exact(log_prior, logs, draws)
        return SuccessOfDraws(draws, success, success, success, True)
    values = _simulated(chances, channel, log_prior, logs, draws, trials, seed)
    mean, error = float(values.mean()), 1.96 * float(values.std(ddof=1)) / math.sqrt(trials)
    return SuccessOfDraws(draws, mean, max(mean - error, 0.0), min(mean + error, 1.0), False)


def _exact(log_prior: Floats, logs: Floats, draws: int) -> float:
    total = 0.0
    for outcome in itertools.combinations_with_replacement(range(logs.shape[1]), draws):
        counts = np.bincount(outcome)
        orders = math.factorial(draws) / math.prod(math.factorial(int(count)) for count in counts)
        total += orders * float(np.exp((log_prior + logs[:, list(outcome)].sum(axis=1)).max()))
    return min(total, 1.0)


def _simulated(
    chances: Floats, channel: Floats, log_prior: Floats, logs: Floats, draws: int, trials: int, seed: int
) -> Floats:
    from scipy.special import logsumexp

    rng = np.random.default_rng(seed)
    words = rng.choice(len(chances), trials, p=chances)
    steps = channel.cumsum(axis=1)
    values = np.empty(trials)
    for start in range(0, trials, _TRIALS_AT_ONCE):
        batch = words[start : start + _TRIALS_AT_ONCE]
        uniform = rng.random((len(batch), draws)) * steps[batch, -1:]
        seen = (steps[batch][:, None, :] <= uniform[:, :, None]).sum(axis=2)
        posterior = log_prior[:, None] + sum(logs[:, seen[:, place]] for place in range(draws))
        posterior -= logsumexp(posterior, axis=0)
        values[start : start + len(batch)] = np.exp(posterior.max(axis=0))
    return values
