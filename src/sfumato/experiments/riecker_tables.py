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
from sfumato.mechanism.stretch import measure
from sfumato.mechanism.transforms import Transform
from sfumato.mechanism.vector import VectorMechanism
from sfumato.space import Space
from sfumato.space.metric import FloatArray

TRANSFORMS = ("none", "unit-norm", "unit-ball", "min-max", "observed-range", "clip", "jl")
MAPPINGS = ("none", "nearest", "vickrey")
CHOOSES = "chooses a word"
WORD_MECHANISMS = (
    Subject("truncated Gumbel (its claim is false)", "truncated-gumbel"),
    Subject("TEM, published", "tem", {"tuning": "published"}),
    Subject("TEM, best", "tem", {"tuning": "best"}),
)
"""These need no mapping: what they draw is a word."""
INVALID = "below its valid domain"


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
        self._transformed: dict[str, tuple[Space, float]] = {}

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

    def figures(self, mechanism: Mechanism | None, constant: float = 1.0) -> dict[str, Any]:
        """Return F1 on both tasks for every seed; ``constant`` is how far the transform stretches distances."""
        found = {task: [self.f1(mechanism, task, seed) for seed in self.config.seeds] for task in self.tasks}
        return {"certified": None if mechanism is None else certified(mechanism) * constant, **found}

    def row(self, row: Row, epsilon: float) -> dict[str, Any]:
        """Return the figures of a row; none where the mechanism does not exist at that epsilon."""
        space, constant = self.after(row.transform)
        mechanism = compiled(row.subject, space, epsilon)
        return {} if mechanism is None else self.figures(mechanism, constant)

    def after(self, transform: str) -> tuple[Space, float]:
        """Return the space after a transform, and how far no pair of its words is stretched beyond."""
        if transform not in self._transformed:
            image = Transform(transform, jl_beta=self.config.jl_beta).apply(self.space)
            vectors = image.locations[self.space.points]
            after = Space.from_arrays(self.space.words, vectors, name=f"{self.space.name} after {transform}")
            constant = measure(self.space, _at_points(self.space, after)).constant
            self._transformed[transform] = (self.space, 1.0) if transform == "none" else (after, constant)
        return self._transformed[transform]

    def f1(self, mechanism: Mechanism | None, task: str, seed: int) -> float:
        texts, train, test = self.tasks[task]
        first, second = texts.split(train / (train + test), seed)
        rows = represented(mechanism, [*first.texts, *second.texts], seed)
        cut = len(first.texts)
        model = train_classifier(rows[:cut], first.labels, texts.classes)
        return macro_f1(model.predict(rows[cut:]), second.labels, texts.classes)


def _at_points(space: Space, after: Space) -> FloatArray:
    """Return the vectors of a transformed space as it holds them, one for each point of the space before."""
    words = np.unique(space.points, return_index=True)[1]
    return np.asarray(after.locations[after.points[words]], dtype=np.float64)


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


@dataclass(frozen=True)
class Row:
    """A mechanism on vectors after a transform."""

    transform: str
    mapping: str
    subject: Subject

    @property
    def name(self) -> str:
        """What a figure calls it."""
        return self.subject.name if self.transform == "none" else f"{self.subject.name}, {self.transform}"


@dataclass(frozen=True)
class Found:
    """What was measured of a row at an epsilon; no figures where the mechanism does not exist there."""

    row: Row
    epsilon: float
    figures: dict[str, Any]

    @property
    def certified(self) -> float:
        """The certified epsilon in the distance of the space; infinite where the claim is false."""
        return float(self.figures["certified"])


def rows(config: Config) -> list[Row]:
    """Return every row: noise on vectors with each mapping back to words, and mechanisms that choose words.

    Mahalanobis noise after a transform is mapped to the nearest word only.
    """
    found = []
    for transform in config.transforms:
        for mapping in config.mappings:
            options = {"mapping": mapping, "noise": "plain"}
            found.append(Row(transform, mapping, Subject("multivariate Laplace", "laplace", options)))
            if transform == "none" or mapping == "nearest":
                found.append(Row(transform, mapping, Subject("Mahalanobis", "mahalanobis", options)))
        found += [Row(transform, CHOOSES, subject) for subject in WORD_MECHANISMS]
    return found


def run(config: Config, run: Run) -> Outcome:
    """Measure every row at every epsilon."""
    bench = _Bench(config, run)
    base = {name: value for name, value in asdict(config).items() if name not in ("epsilons", "transforms", "mappings")}
    plain = run.step("no privacy", base, lambda: bench.figures(None))
    found = []
    for row in rows(config):
        for epsilon in config.epsilons:

            def compute(row: Row = row, epsilon: float = epsilon) -> dict[str, Any]:
                return bench.row(row, epsilon)

            where = {
                "subject": row.subject.name,
                "transform": row.transform,
                "mapping": row.mapping,
                "epsilon": epsilon,
            }
            found.append(Found(row, epsilon, run.step("row", {**base, **where}, compute)))
    about = run.step(
        "source", base,
        lambda: [*(texts.source for texts, _, _ in bench.tasks.values()), bench.space.statistics.median_neighbour_distance],
    )  # fmt: skip
    return Outcome(
        tables=[_table(epsilon, found, plain) for epsilon in config.epsilons],
        figures=_figures(found),
        claims=_claims(found, plain),
        findings=_findings(found, plain),
        differences=[
            "The noise is that of the nominal epsilon after the transform, as published; the certified epsilon in the "
            "distance of the space is beside it, and only that compares rows.",
            "Classifier and adversary are linear on word and word-pair means (on mean noisy vectors where nothing is mapped "
            "to words), where the thesis trains larger networks.",
            "Laplace noise has every mapping after every transform; Mahalanobis noise has every mapping without a transform, and "
            "the nearest word after one. Mechanisms that choose words need no mapping.",
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


def _table(epsilon: float, found: Sequence[Found], plain: dict[str, Any]) -> Table:
    cells: list[list[Any]] = [["no privacy", None, None, None, *_estimates(plain)]]
    for one in found:
        if one.epsilon != epsilon:
            continue
        where = [one.row.subject.name, one.row.transform, one.row.mapping]
        if one.figures:
            cells.append([*where, _promise(one.certified), *_estimates(one.figures)])
        else:
            cells.append([*where, INVALID, None, None, None])
    columns = [
        "mechanism",
        "transform",
        "mapping",
        "certified epsilon",
        "utility (F1)",
        "empirical privacy (1 - F1)",
        "trade-off",
    ]
    return Table(f"Nominal epsilon {epsilon:g}", columns, cells, "Mean over the seeds with its 95 % interval.")


def _promise(value: float) -> float | str:
    return value if np.isfinite(value) else "none (its claim is false)"


def _figures(found: Sequence[Found]) -> list[Figure]:
    noise = [one for one in found if one.row.subject.mechanism == "laplace" and one.row.mapping == "nearest"]
    plain = [one for one in found if one.row.transform == "none" and one.row.mapping in ("nearest", CHOOSES)]
    return [
        _figure("Laplace noise after each transform (mapping: nearest)", noise),
        _figure("Mechanisms without a transform", plain),
    ]


def _figure(title: str, found: Sequence[Found]) -> Figure:
    lines: dict[str, list[tuple[float, dict[str, Any]]]] = {}
    for one in found:
        if one.figures and np.isfinite(one.certified):
            lines.setdefault(one.row.name, []).append((one.certified, estimate(one.figures["topic"])))
    return Figure(
        title, "certified epsilon, per unit of distance of the space", "F1 of the topic",
        [Line.of(name, points) for name, points in lines.items()], True,
    )  # fmt: skip


def _findings(found: Sequence[Found], plain: dict[str, Any]) -> list[str]:
    sentences = [
        f"Without privacy the topic has F1 {estimate(plain['topic'])['mean']:.3f} and the attribute "
        f"{estimate(plain['attribute'])['mean']:.3f}, a trade-off of {estimate(_trade_off(plain))['mean']:.3f}."
    ]
    for epsilon in dict.fromkeys(one.epsilon for one in found):
        sound = [one for one in found if one.epsilon == epsilon and one.figures and np.isfinite(one.certified)]
        best = max(sound, key=lambda one: estimate(_trade_off(one.figures))["mean"])
        kept, hidden, both = (one["mean"] for one in _estimates(best.figures))
        mapping = "" if best.row.mapping == CHOOSES else f", mapping {best.row.mapping}"
        sentences.append(
            f"At nominal epsilon {epsilon:g} the best trade-off of a sound mechanism is {both:.3f}: {best.row.name}{mapping} "
            f"(certified {best.certified:.4g}), with utility {kept:.3f} and empirical privacy {hidden:.3f}."
        )
    missing: dict[str, list[str]] = {}
    for one in found:
        if not one.figures:
            missing.setdefault(f"{one.row.subject.name} at epsilon {one.epsilon:g}", []).append(one.row.transform)
    shown = "; ".join(f"{name}, after {', '.join(transforms)}" for name, transforms in missing.items())
    if missing:
        sentences.append(f"Below the valid domain of its noise, so marked and not plotted: {shown}.")
    return sentences


def _claims(found: Sequence[Found], plain: dict[str, Any]) -> list[Claim]:
    sound = [one for one in found if one.figures and np.isfinite(one.certified)]
    best = max((estimate(_trade_off(one.figures)) for one in sound), key=lambda one: float(one["mean"]))
    none = estimate(_trade_off(plain))
    laplace = {
        (one.row.transform, one.epsilon): one
        for one in found
        if one.row.subject.mechanism == "laplace" and one.row.mapping == "nearest"
    }
    better = [
        f"{transform} at {at:g}"
        for (transform, at), one in laplace.items()
        if transform != "none"
        and clearly_above(estimate(one.figures["topic"]), estimate(laplace["none", at].figures["topic"]))
        and one.certified <= laplace["none", at].certified * (1 + 1e-9)
    ]
    raised = [
        f"{transform} at {at:g} ({one.certified:.4g})"
        for (transform, at), one in laplace.items()
        if one.certified > at * (1 + 1e-9)
    ]
    return [
        Claim(
            "A transform that bounds the vectors keeps more utility at the same promise",
            "bounding the sensitivity helps",
            f"Laplace noise, nearest word; with no weaker promise, clearly more utility than without: "
            f"{', '.join(better) or 'none'}",
            True if better else None,
        ),
        Claim(
            "A mechanism improves the trade-off between utility and empirical privacy",
            "above that without privacy",
            f"the best of all sound rows {best['mean']:.3f}, without privacy {none['mean']:.3f}",
            True if clearly_above(best, none) else False if clearly_above(none, best) else None,
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
