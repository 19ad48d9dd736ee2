"""All mechanisms at the same promise, and at the same success of the optimal attacker: which keeps most utility?

Publications compare mechanisms at the same *nominal* epsilon, which for some of them is far above what they certify.  Here
each is compared three times: at the same nominal epsilon, at the same certified one, and at the same share of words that the
Bayes-optimal attacker recovers, a scale on which mechanisms with unlike promises can be compared, too.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import sfumato
from sfumato.audit.channel import inputs_of
from sfumato.audit.prior import Prior, frequency_prior, uniform_prior
from sfumato.experiments.base import Experiment, Figure, Line, Outcome, Run, Table
from sfumato.experiments.data import Texts, load_space, load_texts
from sfumato.experiments.estimates import clearly_above, estimate
from sfumato.experiments.subjects import (
    Subject,
    accuracy_through,
    attack_success,
    bisected,
    certified,
    compiled,
    mean_distance,
)
from sfumato.foundation.errors import CertificationError
from sfumato.mechanism.base import Mechanism
from sfumato.space import Space

METRIC = (
    Subject("TEM, published", "tem", {"tuning": "published"}),
    Subject("TEM, calibrated", "tem", {"tuning": "calibrated"}),
    Subject("TEM, best (tight or filled)", "tem", {"tuning": "best"}),
    Subject("SanText, published", "santext", {"tuning": "published"}),
    Subject("multivariate Laplace (Madlib)", "laplace"),
    Subject("Mahalanobis", "mahalanobis"),
    Subject("Vickrey, t 0.5", "vickrey"),
)
_WITHOUT_TABLE = ("laplace", "mahalanobis", "vickrey")
OTHERS = (
    Subject("CusText, published, K 20", "custext", {"tuning": "published"}),
    Subject("CusText, calibrated, K 20", "custext", {"tuning": "calibrated"}),
    Subject("CusText, lp, K 20", "custext", {"tuning": "lp"}),
    Subject("SanText+, half protected", "santext-plus", {"tuning": "published"}),
)


@dataclass(frozen=True)
class Config:
    """What is run."""

    data: str = "synthetic"
    space: str = "default"
    words: int = 300
    train: int = 300
    test: int = 150
    seeds: tuple[int, ...] = (0, 1, 2)
    epsilons: tuple[float, ...] = (3.0,)
    """Nominal and certified, in units of one over the distance of the space."""
    successes: tuple[float, ...] = (0.3,)
    draws: int = 40
    """Draws for each word, for the attack on mechanisms without a table."""
    metric: int = len(METRIC)
    others: int = len(OTHERS)
    """How many of the mechanisms take part."""
    prior: str = "uniform"


class _Bench:
    """The space, the prior and the texts, prepared when they are first needed: a finished run needs none of them."""

    def __init__(self, config: Config, run: Run) -> None:
        self.config, self.run = config, run
        self.base: dict[str, Any] = {
            name: value
            for name, value in asdict(config).items()
            if name in ("data", "space", "words", "train", "test", "draws", "prior")
        }

    @cached_property
    def space(self) -> Space:
        return load_space(self.config.space, self.config.words)

    @cached_property
    def prior(self) -> Prior:
        words = list(self.space.words)
        return uniform_prior(words) if self.config.prior == "uniform" else frequency_prior(words)

    @cached_property
    def texts(self) -> Texts:
        return load_texts(self.config.data, self.space, self.run.data, self.config.train + self.config.test)

    def accuracies(self, mechanism: Mechanism | None) -> list[float]:
        """Return the accuracy for every seed, each with its own split of the texts and its own noise."""
        found = []
        for seed in self.config.seeds:
            train, test = self.texts.split(self.config.train / len(self.texts.texts), seed)
            found.append(accuracy_through(mechanism, train, test, seed))
        return found

    def figures(self, mechanism: Mechanism | None) -> dict[str, Any]:
        """Return everything that is measured of a mechanism."""
        if mechanism is None:
            return {"missing": True}
        prior = self.prior_of(mechanism)
        return {
            "certified": _or_none(certified(mechanism)),
            "kind": mechanism.guarantee.kind,
            "nominal": getattr(mechanism.guarantee, "epsilon", None),
            "success": attack_success(mechanism, prior, self.config.draws),
            "distance": mean_distance(mechanism, prior),
            "accuracy": self.accuracies(mechanism),
        }

    def prior_of(self, mechanism: Mechanism) -> Prior:
        assert len(inputs_of(mechanism)) == len(self.prior.chances)
        return self.prior

    def step(self, name: str, subject: Subject | None, epsilon: float, compute: Any) -> dict[str, Any]:
        parameters = {
            **self.base,
            "seeds": self.config.seeds,
            "subject": None if subject is None else subject.name,
            "at": epsilon,
        }
        found: dict[str, Any] = self.run.step(name, parameters, compute)
        return found


def _or_none(value: float) -> float | None:
    return value if value < float("inf") else None


def at_success(subject: Subject, bench: _Bench, target: float) -> Mechanism | None:
    """Return the mechanism whose optimal attacker recovers the target share."""

    def success(epsilon: float) -> float:
        return attack_success(subject.compile(bench.space, epsilon), bench.prior, bench.config.draws)

    try:
        epsilon, found = bisected(success, target, 24.0 if subject.mechanism in _WITHOUT_TABLE else 4.0)
    except CertificationError:
        return None
    return subject.compile(bench.space, epsilon) if abs(found - target) <= 0.05 * target else None


def run(config: Config, run: Run) -> Outcome:
    """Measure every mechanism on the three scales."""
    bench = _Bench(config, run)
    plain = bench.step("no privacy", None, 0.0, lambda: {"accuracy": bench.accuracies(None)})
    ends = {
        name: bench.step(
            "ends", Subject(name, name), 0.0,
            lambda name=name: bench.figures(sfumato.compile(name, bench.space)),
        )
        for name in ("identity", "random")
    }  # fmt: skip
    tables: list[Table] = [_table("The two ends: words of the space as they are, and replaced at random", ends)]
    winners: list[str] = []
    metric, everyone = METRIC[: config.metric], METRIC[: config.metric] + OTHERS[: config.others]
    curves: dict[str, list[tuple[float, dict[str, Any]]]] = {subject.name: [] for subject in everyone}
    for epsilon in config.epsilons:
        rows = {
            subject.name: bench.step(
                "same nominal", subject, epsilon,
                lambda subject=subject: bench.figures(compiled(subject, bench.space, epsilon)),  # noqa: B023
            )
            for subject in everyone
        }  # fmt: skip
        tables.append(_table(f"The same nominal epsilon: {epsilon:g}", rows))
        for name, figures in rows.items():
            if not figures.get("missing"):
                curves[name].append((figures["success"], figures))
        rows = {
            subject.name: bench.step(
                "same certified", subject, epsilon,
                lambda subject=subject: bench.figures(_certified(subject, bench.space, epsilon)),  # noqa: B023
            )
            for subject in metric
        }  # fmt: skip
        tables.append(_table(f"The same certified epsilon: {epsilon:g}", rows))
        winners.append(_winner(rows, f"At the same certified epsilon {epsilon:g}", ends["random"]))
    for target in config.successes:
        rows = {
            subject.name: bench.step(
                "same success", subject, target,
                lambda subject=subject: bench.figures(at_success(subject, bench, target)),  # noqa: B023
            )
            for subject in everyone
        }  # fmt: skip
        tables.append(_table(f"The same success of the optimal attacker: {target:.0%}", rows))
        winners.append(_winner(rows, f"Where the optimal attacker recovers {target:.0%}", ends["random"]))
        for name, figures in rows.items():
            if not figures.get("missing"):
                curves[name].append((figures["success"], figures))
    source = run.step("source", bench.base, lambda: [bench.texts.source, bench.prior.source])
    return Outcome(
        tables=tables,
        figures=[_figure(curves, estimate(plain["accuracy"])["mean"], estimate(ends["identity"]["accuracy"])["mean"])],
        claims=[],
        findings=[
            f"Without privacy the accuracy is {estimate(plain['accuracy'])['mean']:.3f}; with the words of the space as they "
            f"are and all others replaced at random {estimate(ends['identity']['accuracy'])['mean']:.3f}, which is the most "
            "that any mechanism here can keep.",
            *winners,
        ],
        differences=[
            "No publication makes this comparison; there is no published figure to set beside it.",
            "Mechanisms without a table (Laplace, Mahalanobis, Vickrey) are attacked by an attacker who learnt from "
            f"{config.draws} draws of each word: their real optimal attacker recovers more, so at the same success they are "
            "shown better than they are.",
            "Training and test texts are both privatized; words outside the space are replaced by uniformly random ones.",
        ],
        data=f"{source[0]}; prior of the attacker: {source[1]}",
    )


def _certified(subject: Subject, space: Space, epsilon: float) -> Mechanism | None:
    try:
        return subject.at_certified(space, epsilon)
    except CertificationError:
        return None


def _table(title: str, rows: dict[str, dict[str, Any]]) -> Table:
    columns = [
        "mechanism",
        "promise",
        "nominal epsilon",
        "certified epsilon",
        "attacker recovers",
        "mean distance",
        "accuracy",
    ]
    cells: list[list[Any]] = []
    for name, figures in rows.items():
        if figures.get("missing"):
            cells.append([name, "does not exist here", None, None, None, None, None])
            continue
        cells.append(
            [
                name, figures["kind"], figures["nominal"], figures["certified"], figures["success"], figures["distance"],
                estimate(figures["accuracy"]),
            ]
        )  # fmt: skip
    return Table(title, columns, cells, "Accuracy: mean over the seeds with its 95 % interval.")


def _winner(rows: dict[str, dict[str, Any]], where: str, random: dict[str, Any]) -> str:
    """Say which mechanism keeps most accuracy, and which others are not clearly behind it."""
    found = {name: estimate(figures["accuracy"]) for name, figures in rows.items() if not figures.get("missing")}
    if not found:
        return f"{where} no mechanism exists."
    order = sorted(found, key=lambda name: -found[name]["mean"])
    best = found[order[0]]
    nothing = estimate(random["accuracy"])
    if not clearly_above(best, nothing):
        return (
            f"{where} no mechanism is clearly better than random words ({nothing['mean']:.3f}); the most is "
            f"{best['mean']:.3f}."
        )
    level = [name for name in order[1:] if not clearly_above(best, found[name])]
    sentence = f"{where} {order[0]} keeps most accuracy ({best['mean']:.3f})"
    return sentence + (f"; not clearly behind: {', '.join(level)}." if level else ", clearly ahead of all others.")


def _figure(curves: dict[str, list[tuple[float, dict[str, Any]]]], plain: float, most: float) -> Figure:
    lines = [
        Line.of(name, [(success, estimate(figures["accuracy"])) for success, figures in points])
        for name, points in curves.items()
        if points
    ]
    return Figure(
        "Utility against what the optimal attacker recovers", "share of words recovered from one output", "accuracy",
        lines, levels={"no privacy": plain, "words of the space as they are": most},
    )  # fmt: skip


EXPERIMENT = Experiment(
    name="same-promise",
    title="All mechanisms at the same certified epsilon and at the same success of the optimal attacker",
    source="This library; the mechanisms are those of Carvalho et al. 2021 (TEM), Yue et al. 2021 (SanText), Feyisetan et al. "
    "2020 (multivariate Laplace), Xu et al. 2020 and 2021 (Mahalanobis, Vickrey) and Chen et al. 2023 (CusText)",
    claim="None is published: mechanisms are usually compared at the same nominal epsilon.",
    settings={
        "small": Config(words=60, train=60, test=30, draws=8, seeds=(0, 1), metric=5, others=1),
        "cpu": Config(
            data="sst2",
            words=3000,
            train=4000,
            test=1500,
            epsilons=(3.0, 6.0),
            successes=(0.25,),
            draws=40,
            prior="frequency",
        ),
    },
    run=run,
)
