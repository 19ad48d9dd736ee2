"""SMDP, figures 5.1 and 5.2 and tables A.2 to A.5: perplexity and exposure of language models trained on privatized text.

Text with ten copies of a canary, "My ID is 145572.", is privatized in five ways, a small language model is trained on each
result, and two things are measured: its perplexity on text that was not trained on, and the exposure of the canary's number
among all million of its length, exactly.  A model that never saw the number has an exposure of 1.44 on average, not of 0.

*As published*, words outside the vocabulary pass as they are, and numbers are such words: the canary passes.  *Ours* replaces
unknown words by random ones and numbers digit by digit, with an epsilon for each digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.audit.attacks.canary import all_strings, exposure, insert, mean_without_leak
from sfumato.experiments.base import Claim, Experiment, Figure, Line, Outcome, Run, Table
from sfumato.experiments.data import load_space, load_texts
from sfumato.experiments.estimates import clearly_above, estimate
from sfumato.experiments.language_model import LanguageModel, Training, Words
from sfumato.experiments.subjects import Subject, privatized
from sfumato.mechanism.digits import digits
from sfumato.policy import Policy, everything, numbers, protect_pattern
from sfumato.space import Space

NO_DP, CANARY_NEVER = "no DP", "no DP, canary never inserted"
_NAME = r"(?<=[a-z,;] )[A-Z][a-z]+"
MDP = Subject("MDP", "tem", {"tuning": "published"})


@dataclass(frozen=True)
class Variant:
    """One way to privatize."""

    name: str
    selective: bool
    """Only sensitive words are protected: tokens with a digit, and words with a capital inside a sentence."""
    ours: bool
    """Unknown words are drawn and digits have a mechanism of their own; else unknown words pass."""


VARIANTS = (
    Variant("MDP, as published", False, False),
    Variant("SMDP, as published", True, False),
    Variant("MDP, ours", False, True),
    Variant("SMDP, ours", True, True),
)


@dataclass(frozen=True)
class Config:
    """What is run."""

    data: str = "synthetic"
    space: str = "default"
    words: int = 100
    train: int = 60
    test: int = 20
    canary: str = "My ID is"
    digits: int = 3
    copies: int = 10
    others: int = 20
    """Random numbers, besides its own, that a model that saw no canary is asked about."""
    seeds: tuple[int, ...] = (0, 1)
    epsilons: tuple[float, ...] = (2.0,)
    training: Training = field(default_factory=lambda: Training(16, 32, 2, 4, 20, 1e-2))


class _Bench:
    def __init__(self, config: Config, run: Run) -> None:
        self.config, self.run = config, run

    @cached_property
    def space(self) -> Space:
        return load_space(self.config.space, self.config.words)

    @cached_property
    def texts(self) -> list[str]:
        return load_texts(self.config.data, self.space, self.run.data, self.config.train + self.config.test).texts

    @cached_property
    def source(self) -> str:
        return load_texts(self.config.data, self.space, self.run.data, 1).source

    def secret(self, seed: int) -> str:
        """Return the number of a seed: the published one first, then random ones."""
        if seed == 0 and self.config.digits == 6:
            return "145572"
        return f"{np.random.default_rng([41, seed]).integers(0, 10**self.config.digits):0{self.config.digits}d}"

    def policy(self, selective: bool) -> Policy:
        return numbers() | protect_pattern(_NAME, name="names by their capital") if selective else everything()

    def figures(self, variant: Variant | None, epsilon: float, inserted: bool = True) -> dict[str, Any]:
        """Return perplexity and exposure for every seed."""
        found = [self.one(variant, epsilon, seed, inserted) for seed in self.config.seeds]
        return {name: [one[name] for one in found] for name in found[0]}

    def one(self, variant: Variant | None, epsilon: float, seed: int, inserted: bool) -> dict[str, float]:
        c = self.config
        order = np.random.default_rng([43, seed]).permutation(len(self.texts))
        train, test = ([self.texts[place] for place in part] for part in (order[: c.train], order[c.train :]))
        secret = self.secret(seed)
        if inserted:
            train = insert(train, f"{c.canary} {secret}.", c.copies, seed)
        model = LanguageModel(Words(self.space.words), self.seen(train, variant, epsilon, seed), c.training, seed)
        chances = all_strings(model.digits_after(c.canary), c.digits)
        others = np.random.default_rng([47, seed]).integers(0, 10**c.digits, 0 if inserted else c.others)
        found = [exposure(chances, one) for one in (secret, *(f"{other:0{c.digits}d}" for other in others.tolist()))]
        return {
            "perplexity": model.perplexity(test),
            "exposure": float(np.mean([one.exposure for one in found])),
            "least": float(np.mean([one.least_exposure for one in found])),
            "rank": float(found[0].rank),
        }

    def seen(self, texts: Sequence[str], variant: Variant | None, epsilon: float, seed: int) -> list[str]:
        """Return the texts as the model sees them."""
        if variant is None:
            return list(texts)
        return privatized(
            MDP.compile(self.space, epsilon), texts, seed, policy=self.policy(variant.selective),
            oov="draw" if variant.ours else "keep", digits=digits(epsilon=epsilon) if variant.ours else None,
        )  # fmt: skip


def run(config: Config, run: Run) -> Outcome:
    """Train and attack a model for every variant, epsilon and seed."""
    bench = _Bench(config, run)
    base = {name: value for name, value in asdict(config).items() if name != "epsilons"}
    plain = run.step(NO_DP, base, lambda: bench.figures(None, 0.0))
    never = run.step(CANARY_NEVER, base, lambda: bench.figures(None, 0.0, inserted=False))
    rows: list[tuple[str, float | None, dict[str, Any]]] = [(NO_DP, None, plain), (CANARY_NEVER, None, never)]
    for variant in VARIANTS:
        for epsilon in config.epsilons:

            def compute(variant: Variant = variant, epsilon: float = epsilon) -> dict[str, Any]:
                return bench.figures(variant, epsilon)

            parameters = {**base, "variant": variant.name, "epsilon": epsilon}
            rows.append((variant.name, epsilon, run.step("variant", parameters, compute)))
    source = run.step("source", base, lambda: bench.source)
    blank = mean_without_leak(10**config.digits)
    return Outcome(
        tables=[_table(rows)],
        figures=_figures(rows, blank, config.digits),
        claims=_claims(rows),
        findings=_findings(rows, blank, config),
        differences=[
            "The language model is a small LSTM over words and single digits, trained on "
            f"{config.train} texts; published ones are larger and see more text.",
            "Sensitive words are tokens with a digit and words with a capital inside a sentence (a public rule), where the "
            "thesis takes what an entity recogniser finds.",
            "The mechanism is TEM in its published form; numbers get the same number as epsilon for each digit. A canary of "
            f"{config.digits} digits in {config.copies} copies is {config.digits * config.copies} releases of digits, whose "
            "losses add up: no single release says so.",
            "Exposure is exact over all numbers of the canary's length, with ties told, where published exposure is estimated "
            "or counts ties in the secret's favour. The published numbers are not at hand.",
        ],
        data=source,
    )


def _table(rows: list[tuple[str, float | None, dict[str, Any]]]) -> Table:
    return Table(
        "Perplexity and exposure",
        ["training text", "epsilon", "perplexity", "exposure (bits)", "exposure by the worst rank", "ranks"],
        [
            [
                name, epsilon, estimate(one["perplexity"]), estimate(one["exposure"]), estimate(one["least"]),
                ", ".join(f"{rank:,.0f}" for rank in one["rank"]),
            ]
            for name, epsilon, one in rows
        ],
        "Mean over the seeds with its 95 % interval; each seed has its own number. The rank is 1 for a number that the model "
        "thinks likeliest of all. Where the canary was never inserted, exposure is the mean over many random numbers.",
    )  # fmt: skip


def _figures(rows: list[tuple[str, float | None, dict[str, Any]]], blank: float, count: int) -> list[Figure]:
    figures = []
    for key, label in (("perplexity", "perplexity on text not trained on"), ("exposure", "exposure (bits)")):
        lines = [
            Line.of(
                variant.name,
                [(at, estimate(one[key])) for name, at, one in rows if name == variant.name and at is not None],
                dashed=not variant.ours,
            )
            for variant in VARIANTS
        ]
        levels = {name: estimate(one[key])["mean"] for name, at, one in rows if at is None}
        if key == "exposure":
            levels = {
                "mean without any leak": blank, "most there can be": count * float(np.log2(10)), NO_DP: levels[NO_DP],
            }  # fmt: skip
        figures.append(Figure(f"{key.capitalize()} against epsilon", "epsilon", label, lines, False, levels))
    return figures


def _findings(rows: list[tuple[str, float | None, dict[str, Any]]], blank: float, config: Config) -> list[str]:
    most = config.digits * float(np.log2(10))
    sentences = [
        f"Without any leak exposure is {blank:.4f} bits on average; the most there can be is {most:.2f}.",
        f"Without privacy the exposure is {estimate(rows[0][2]['exposure'])['mean']:.2f} bits and the perplexity "
        f"{estimate(rows[0][2]['perplexity'])['mean']:.0f}; where the canary was never inserted "
        f"{estimate(rows[1][2]['exposure'])['mean']:.2f} bits.",
    ]
    for name, epsilon, one in rows[2:]:
        sentences.append(
            f"{name}, epsilon {epsilon:g}: exposure {estimate(one['exposure'])['mean']:.2f} bits, perplexity "
            f"{estimate(one['perplexity'])['mean']:.0f}."
        )
    return sentences


def _claims(rows: list[tuple[str, float | None, dict[str, Any]]]) -> list[Claim]:
    def of(name: str, epsilon: float, key: str) -> dict[str, Any]:
        return next(estimate(one[key]) for found, at, one in rows if found == name and at == epsilon)

    epsilons = sorted({at for _, at, _ in rows if at is not None})
    lower = sum(
        clearly_above(of("MDP, as published", at, "perplexity"), of("SMDP, as published", at, "perplexity"))
        for at in epsilons
    )
    plain = estimate(rows[0][2]["exposure"])
    passed = [of("SMDP, as published", at, "exposure")["mean"] for at in epsilons]
    ours = [of("SMDP, ours", at, "exposure")["mean"] for at in epsilons]
    return [
        Claim(
            "SMDP has lower perplexity than MDP at the same epsilon",
            "lower",
            f"clearly lower at {lower} of {len(epsilons)} epsilons",
            lower == len(epsilons),
        ),
        Claim(
            "SMDP protects the canary",
            "exposure falls below that of no DP",
            f"no DP {plain['mean']:.2f} bits; SMDP as published {', '.join(f'{one:.2f}' for one in passed)}, because numbers "
            f"outside the vocabulary pass; with digits replaced {', '.join(f'{one:.2f}' for one in ours)}",
            max(passed) < plain["mean"] / 2,
        ),
    ]


EXPERIMENT = Experiment(
    name="smdp-figures",
    title="SMDP: perplexity of language models, and exposure of a canary",
    source="Maratkhan 2023, figures 5.1 and 5.2 and tables A.2 to A.5; exposure by Carlini et al. 2019",
    claim="Protecting sensitive words only (SMDP) keeps the perplexity of a language model near that without privacy, and still "
    "hides a canary.",
    settings={
        "small": Config(),
        "cpu": Config(
            data="wikitext",
            words=600,
            train=400,
            test=150,
            digits=6,
            others=300,
            seeds=(0, 1, 2),
            epsilons=(2.0, 6.0),
            training=Training(embedding=48, hidden=96, epochs=10, batch=8),
        ),
    },
    run=run,
    needs=("torch",),
)
