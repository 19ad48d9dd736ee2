"""Riecker, tables 5.1 to 6.4: transforms before the noise, mechanisms, mappings back to words, and epsilon.

Utility is the mean F1 of a classifier of topics, trained and tested on what a mechanism makes of news.  Empirical privacy is
1 - F1 of an adversary that guesses the age group of a chat's room from what the same mechanism makes of its posts.  Both are
trained on privatized data.  The trade-off is the mean of the two.  Where a mechanism does not exist at an epsilon, the row
says so and is not plotted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.audit.attacks.learners import Features, features, macro_f1, train_classifier, words_of
from sfumato.experiments.base import Claim, Experiment, Figure, Line, Outcome, Run, Table
from sfumato.experiments.data import Texts, load_space, load_texts
from sfumato.experiments.estimates import clearly_above, estimate
from sfumato.experiments.subjects import Subject, certified, compiled, privatized
from sfumato.foundation.randomness import RunKey
from sfumato.mechanism.base import UNKNOWN, Mechanism
from sfumato.mechanism.vector import VectorMechanism
from sfumato.space import Space

TRANSFORMS = ("none", "unit-norm", "unit-ball", "min-max", "observed-range", "clip", "jl")
MAPPINGS = ("none", "nearest", "vickrey")


@dataclass(frozen=True)
class Config:
    """What is run."""

    topic: str = "synthetic"
    attribute: str = "synthetic"
    space: str = "default"
    words: int = 60
    train: int = 60
    test: int = 30
    attribute_train: int = 60
    attribute_test: int = 30
    length: int = 40
    """Words of a text that are used."""
    seeds: tuple[int, ...] = (0, 1)
    epsilons: tuple[float, ...] = (10.0,)
    transforms: tuple[str, ...] = ("none", "unit-ball", "jl")
    mappings: tuple[str, ...] = MAPPINGS
    jl_beta: float = 0.5


class _Bench:
    def __init__(self, config: Config, run: Run) -> None:
        self.config, self.run = config, run

    @cached_property
    def space(self) -> Space:
        return load_space(self.config.space, self.config.words)

    @cached_property
    def tasks(self) -> dict[str, tuple[Texts, int, int]]:
        """The two tasks: texts with what is to be guessed as their label, and how many are trained and tested on."""
        c = self.config
        topic = load_texts(c.topic, self.space, self.run.data, c.train + c.test)
        person = load_texts(c.attribute, self.space, self.run.data, c.attribute_train + c.attribute_test)
        guessed = Texts(
            person.texts, person.attributes, person.attribute_values, person.authors, person.attributes,
            person.attribute_values, person.source,
        )  # fmt: skip
        return {
            "topic": (self.cut(topic), c.train, c.test),
            "attribute": (self.cut(guessed), c.attribute_train, c.attribute_test),
        }

    def cut(self, texts: Texts) -> Texts:
        short = [" ".join(words_of(text)[: self.config.length]) for text in texts.texts]
        return Texts(
            short, texts.labels, texts.classes, texts.authors, texts.attributes, texts.attribute_values, texts.source
        )

    def figures(self, mechanism: Mechanism | None) -> dict[str, Any]:
        """Return F1 on both tasks for every seed."""
        found = {task: [self.f1(mechanism, task, seed) for seed in self.config.seeds] for task in self.tasks}
        return {"certified": None if mechanism is None else certified(mechanism), **found}

    def f1(self, mechanism: Mechanism | None, task: str, seed: int) -> float:
        texts, train, test = self.tasks[task]
        first, second = texts.split(train / (train + test), seed)
        rows = represented(mechanism, [*first.texts, *second.texts], seed)
        cut = len(first.texts)
        model = train_classifier(rows[:cut], first.labels, texts.classes)
        return macro_f1(model.predict(rows[cut:]), second.labels, texts.classes)


def represented(mechanism: Mechanism | None, texts: Sequence[str], seed: int) -> Features:
    """Return what a classifier sees of privatized texts: words, or means of noisy vectors where none is mapped to a word."""
    if mechanism is None:
        return features(texts)
    if isinstance(mechanism, VectorMechanism) and mechanism.mapping == "none":
        means = mean_vectors(mechanism, texts, seed)
        return (means - means.mean(axis=0)) / max(float(means.std()), 1e-12)
    return features(privatized(mechanism, texts, seed))


def mean_vectors(mechanism: VectorMechanism, texts: Sequence[str], seed: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the mean of the noisy vectors of the words of each text; a word outside the space is drawn first."""
    key, index = RunKey.from_seed(seed), mechanism.space.index
    means = []
    for number, text in enumerate(texts):
        ids = np.array([index.get(word, UNKNOWN) for word in words_of(text)] or [UNKNOWN], dtype=np.intp)
        means.append(mechanism.vectors(ids, key.record(number)).mean(axis=0))
    return np.array(means)


def subjects(config: Config) -> list[tuple[str, str, Subject]]:
    """Return every row: the transform, the mapping, and the mechanism."""
    rows = []
    for transform in config.transforms:
        for mapping in config.mappings:
            options = {"transform": transform, "mapping": mapping, "noise": "plain", "jl_beta": config.jl_beta}
            rows.append((transform, mapping, Subject("multivariate Laplace", "laplace", options)))
    rows += [
        ("none", "nearest", Subject("Mahalanobis", "mahalanobis", {"noise": "plain"})),
        ("none", "nearest", Subject("truncated Gumbel (its claim is false)", "truncated-gumbel")),
        ("none", "nearest", Subject("TEM, published", "tem", {"tuning": "published"})),
        ("none", "nearest", Subject("TEM, best", "tem", {"tuning": "best"})),
    ]
    return rows


def run(config: Config, run: Run) -> Outcome:
    """Measure every row at every epsilon."""
    bench = _Bench(config, run)
    base = {name: value for name, value in asdict(config).items() if name not in ("epsilons", "transforms", "mappings")}
    plain = run.step("no privacy", base, lambda: bench.figures(None))
    found: list[tuple[str, str, Subject, float, dict[str, Any]]] = []
    for transform, mapping, subject in subjects(config):
        for epsilon in config.epsilons:

            def compute(subject: Subject = subject, epsilon: float = epsilon) -> dict[str, Any]:
                mechanism = compiled(subject, bench.space, epsilon)
                return {} if mechanism is None else bench.figures(mechanism)

            where = {"subject": subject.name, "transform": transform, "mapping": mapping, "epsilon": epsilon}
            found.append((transform, mapping, subject, epsilon, run.step("row", {**base, **where}, compute)))
    about = run.step(
        "source", base,
        lambda: [*(texts.source for texts, _, _ in bench.tasks.values()), bench.space.statistics.median_neighbour_distance],
    )  # fmt: skip
    return Outcome(
        tables=[_table(epsilon, found, plain) for epsilon in config.epsilons],
        figures=[_figure(found)],
        claims=_claims(config, found),
        findings=_findings(found, plain),
        differences=[
            "The noise is that of the nominal epsilon after the transform, as published; the certified epsilon in the "
            "distance of the space is beside it, and only that compares rows.",
            "Classifier and adversary are linear on word and word-pair means (on mean noisy vectors where nothing is mapped "
            "to words), where the thesis trains larger networks.",
            "The topic is that of news, the attribute the age group of a chat's room: other data than the thesis has.",
            f"The space is the first {config.words} words of {config.space} (median distance to the nearest other word "
            f"{about[2]:.3g}); words outside it are replaced by uniformly random ones.",
            "The trade-off is the plain mean of utility and empirical privacy. The published numbers are not at hand.",
        ],
        data=f"topic: {about[0]}; attribute: {about[1]}",
    )


def _trade_off(figures: dict[str, Any]) -> list[float]:
    pairs = zip(figures["topic"], figures["attribute"], strict=True)
    return [(topic + 1 - attribute) / 2 for topic, attribute in pairs]


def _estimates(figures: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        estimate(figures["topic"]),
        estimate([1 - one for one in figures["attribute"]]),
        estimate(_trade_off(figures)),
    ]


def _table(
    epsilon: float, found: list[tuple[str, str, Subject, float, dict[str, Any]]], plain: dict[str, Any]
) -> Table:
    rows: list[list[Any]] = [["no privacy", None, None, None, *_estimates(plain)]]
    for transform, mapping, subject, at, figures in found:
        if at != epsilon:
            continue
        if not figures:
            rows.append([subject.name, transform, mapping, "below its valid domain", None, None, None])
            continue
        rows.append([subject.name, transform, mapping, _promise(figures["certified"]), *_estimates(figures)])
    return Table(
        f"Nominal epsilon {epsilon:g}",
        [
            "mechanism",
            "transform",
            "mapping",
            "certified epsilon",
            "utility (F1)",
            "empirical privacy (1 - F1)",
            "trade-off",
        ],
        rows,
        "Mean over the seeds with its 95 % interval.",
    )


def _promise(value: float) -> float | str:
    return value if np.isfinite(value) else "none (its claim is false)"


def _figure(found: list[tuple[str, str, Subject, float, dict[str, Any]]]) -> Figure:
    lines: dict[str, list[tuple[float, dict[str, Any]]]] = {}
    for transform, mapping, subject, _, figures in found:
        if figures and mapping == "nearest" and np.isfinite(figures["certified"]):
            name = subject.name if transform == "none" else f"{subject.name}, {transform}"
            lines.setdefault(name, []).append((figures["certified"], estimate(figures["topic"])))
    return Figure(
        "Utility against the certified epsilon (mapping: nearest)", "certified epsilon, per unit of distance",
        "F1 of the topic", [Line.of(name, points) for name, points in lines.items()], True,
    )  # fmt: skip


def _findings(found: list[tuple[str, str, Subject, float, dict[str, Any]]], plain: dict[str, Any]) -> list[str]:
    missing = sorted({f"{s.name} at epsilon {at:g}" for _, _, s, at, figures in found if not figures})
    sound = [row for row in found if row[4] and np.isfinite(row[4]["certified"])]
    best = max(sound, key=lambda row: estimate(_trade_off(row[4]))["mean"])
    kept, hidden, both = (one["mean"] for one in _estimates(best[4]))
    name = best[2].name if best[0] == "none" else f"{best[2].name} after {best[0]}"
    sentences = [
        f"Without privacy the topic has F1 {estimate(plain['topic'])['mean']:.3f} and the attribute "
        f"{estimate(plain['attribute'])['mean']:.3f}.",
        f"The best trade-off of a sound mechanism is {both:.3f}: {name}, mapping {best[1]}, nominal epsilon {best[3]:g} "
        f"(certified {best[4]['certified']:.4g}), with utility {kept:.3f} and empirical privacy {hidden:.3f}.",
    ]
    if missing:
        sentences.append(f"Below the valid domain of their noise, so marked and not plotted: {', '.join(missing)}.")
    return sentences


def _claims(config: Config, found: list[tuple[str, str, Subject, float, dict[str, Any]]]) -> list[Claim]:
    laplace = {
        (transform, at): figures
        for transform, mapping, subject, at, figures in found
        if subject.mechanism == "laplace" and mapping == "nearest"
    }
    better = [
        f"{transform} at {at:g}"
        for (transform, at), figures in laplace.items()
        if transform != "none"
        and clearly_above(estimate(figures["topic"]), estimate(laplace["none", at]["topic"]))
        and figures["certified"] <= laplace["none", at]["certified"] * (1 + 1e-9)
    ]
    raised = [
        f"{transform} at {at:g} ({figures['certified']:.4g})"
        for (transform, at), figures in laplace.items()
        if figures["certified"] > at * (1 + 1e-9)
    ]
    return [
        Claim(
            "A transform that bounds the vectors keeps more utility at the same promise",
            "bounding the sensitivity helps",
            f"with no weaker promise, clearly more utility than without: {', '.join(better) or 'none'}",
            bool(better),
        ),
        Claim(
            "The nominal epsilon is what is promised after any transform",
            "epsilon",
            f"in the distance of the space these certify more than their nominal epsilon: {', '.join(raised) or 'none'}",
            not raised,
        ),
    ]


EXPERIMENT = Experiment(
    name="riecker-tables",
    title="Transforms, mechanisms and mappings: utility against empirical privacy",
    source="Riecker 2023, tables 5.1 to 6.4",
    claim="Transforming word vectors before the noise, so that its sensitivity is bounded, and choosing how noisy vectors are "
    "mapped back to words, improves the trade-off between utility and privacy.",
    settings={
        "small": Config(),
        "cpu": Config(
            topic="ag-news",
            attribute="nps-chat",
            space="glove-840b",
            words=600,
            train=250,
            test=150,
            attribute_train=400,
            attribute_test=200,
            length=20,
            seeds=(0, 1, 2),
            epsilons=(10.0, 100.0),
            transforms=TRANSFORMS,
        ),
    },
    run=run,
)
