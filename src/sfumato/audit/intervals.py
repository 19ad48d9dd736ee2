"""Exact intervals for probabilities (Clopper and Pearson 1934)."""

from __future__ import annotations


def share_at_least(successes: int, trials: int, confidence: float) -> float:
    """Return Clopper and Pearson's lower bound on a probability.

    >>> round(share_at_least(50, 100, 0.975), 4)
    0.3983
    """
    from scipy.special import betaincinv

    return 0.0 if successes == 0 else float(betaincinv(successes, trials - successes + 1, 1 - confidence))


def share_at_most(successes: int, trials: int, confidence: float) -> float:
    """Return Clopper and Pearson's upper bound on a probability.

    >>> round(share_at_most(50, 100, 0.975), 4), round(share_at_most(0, 100, 0.975), 4)
    (0.6017, 0.0362)
    """
    from scipy.special import betaincinv

    return 1.0 if successes >= trials else float(betaincinv(successes + 1, trials - successes, confidence))
