"""Computes the figures of accounting.json with mpmath, from textbook formulas and without the library.

Run it to write the file anew: ``python tests/golden/accounting_reference.py``.
"""

from __future__ import annotations

import json
from pathlib import Path

import mpmath as mp

mp.mp.dps = 60
TARGET = Path(__file__).with_suffix("").with_name("accounting.json")


def _shown(value: mp.mpf) -> str:
    return mp.nstr(value, 20)


def _root(function, low, high):
    """Halve the interval until it is narrower than 40 digits; ``function`` falls from positive to negative."""
    low, high = mp.mpf(low), mp.mpf(high)
    for _ in range(160):
        middle = (low + high) / 2
        if function(middle) > 0:
            low = middle
        else:
            high = middle
    return high


def gaussian_delta(mu, epsilon):
    mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def gaussian_epsilon(mu, delta):
    # Near the root, digits cancel in proportion to how small delta is: work with more of them.
    with mp.workdps(60 - int(mp.log10(mp.mpf(delta)))):
        return _root(lambda epsilon: gaussian_delta(mu, epsilon) - mp.mpf(delta), 0, mp.mpf(mu) ** 2 + 60 * mp.mpf(mu))


def gaussian_sigma(epsilon, delta):
    return 1 / _root(lambda mu: mp.mpf(delta) - gaussian_delta(mu, epsilon), "1e-6", 1000)


def zcdp_epsilon(rho, delta):
    rho, delta = mp.mpf(rho), mp.mpf(delta)

    def slope(log_above_one):
        """Derivative of the bound by alpha, up to a positive factor, with its sign turned."""
        above = mp.exp(log_above_one)
        alpha = 1 + above
        return -(rho * above**2 - mp.log(1 / delta) + mp.log(alpha))

    above = mp.exp(_root(slope, -60, 60))
    alpha = 1 + above
    return alpha * rho + mp.log(1 / (alpha * delta)) / above + mp.log(1 - 1 / alpha)


def randomised_response_epsilon(epsilon, times, delta):
    epsilon = mp.mpf(epsilon)

    def curve(total):
        return mp.fsum(
            mp.binomial(times, heads)
            * mp.exp(heads * epsilon)
            / (1 + mp.exp(epsilon)) ** times
            * (1 - mp.exp(total - (2 * heads - times) * epsilon))
            for heads in range(times + 1)
            if (2 * heads - times) * epsilon > total
        )

    return _root(lambda total: curve(total) - mp.mpf(delta), 0, times * epsilon)


def sampled_delta(sigma, rate, epsilon):
    """Both directions of one sampled Gaussian release, by the half-lines on which they are largest."""
    sigma, rate, epsilon = mp.mpf(sigma), mp.mpf(rate), mp.mpf(epsilon)

    def place(level):
        return sigma**2 * mp.log((mp.exp(level) - 1 + rate) / rate) + mp.mpf(1) / 2

    above = place(epsilon)
    shifted = (
        rate * mp.ncdf((1 - above) / sigma)
        + (1 - rate) * mp.ncdf(-above / sigma)
        - mp.exp(epsilon) * mp.ncdf(-above / sigma)
    )
    if mp.exp(-epsilon) <= 1 - rate:
        return shifted
    below = place(-epsilon)
    mixed = rate * mp.ncdf((below - 1) / sigma) + (1 - rate) * mp.ncdf(below / sigma)
    return max(shifted, mp.ncdf(below / sigma) - mp.exp(epsilon) * mixed)


def sampled_divergence(sigma, rate, order):
    sigma, rate, order = mp.mpf(sigma), mp.mpf(rate), mp.mpf(order)

    def integrand(x):
        ratio = 1 - rate + rate * mp.exp((2 * x - 1) / (2 * sigma**2))
        return mp.npdf(x, 0, sigma) * ratio**order

    edges = mp.linspace(-12 * sigma, order + 12 * sigma, 40)
    return mp.log(mp.quad(integrand, edges)) / (order - 1)


def limit_epsilon(sigma, rate, steps, delta):
    mu = mp.mpf(rate) * mp.sqrt(steps * (mp.exp(1 / mp.mpf(sigma) ** 2) - 1))
    return gaussian_epsilon(mu, delta)


FIGURES = {
    "gaussian_delta": (
        gaussian_delta,
        [("1", "1"), ("0.01", "0.2"), ("5", "30"), ("100", "5500"), ("0.001", "0.03"), ("1", "36"), ("2", "0")],
    ),
    "gaussian_epsilon": (
        gaussian_epsilon,
        [("1", "1e-5"), ("0.1", "1e-9"), ("1", "1e-300"), ("50", "1e-6"), ("0.02", "1e-12"), ("3", "0.1")],
    ),
    "gaussian_sigma": (
        gaussian_sigma,
        [("1", "1e-5"), ("4", "1e-5"), ("0.1", "1e-8"), ("50", "1e-5"), ("200", "1e-10")],
    ),
    "zcdp_epsilon": (
        zcdp_epsilon,
        [("0.5", "1e-5"), ("0.001", "1e-8"), ("40", "1e-6"), ("1e-7", "1e-5"), ("0.5", "1e-200"), ("2000", "1e-5")],
    ),
    "randomised_response_epsilon": (
        randomised_response_epsilon,
        [("0.1", 100, "1e-6"), ("1", 10, "1e-5"), ("0.01", 1000, "1e-9"), ("0.5", 7, "0.3"), ("3", 5, "1e-3")],
    ),
    "sampled_delta": (
        sampled_delta,
        [("1", "0.01", "0.5"), ("1", "0.01", "0.005"), ("0.5", "0.3", "2"), ("4", "0.5", "0.05"), ("2", "0.1", "6")],
    ),
    "sampled_divergence": (
        sampled_divergence,
        [("1", "0.01", "2"), ("1", "0.01", "1.5"), ("2", "0.1", "32"), ("0.5", "0.3", "4.5"), ("4", "0.001", "64")],
    ),
    "limit_epsilon": (limit_epsilon, [("1", "0.01", 1000, "1e-5"), ("0.8", "0.02", 500, "1e-6")]),
}


def main() -> None:
    figures = {
        name: [{"arguments": [str(a) for a in arguments], "value": _shown(function(*arguments))} for arguments in cases]
        for name, (function, cases) in FIGURES.items()
    }
    TARGET.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
