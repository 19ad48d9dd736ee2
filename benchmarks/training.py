"""Perplexity and errors against epsilon for all ways of training, and what a canary betrays.

    python benchmarks/training.py published   # the paper's epsilons, and the sound ones for the same noise
    python benchmarks/training.py conll       # next-word prediction on CoNLL-2003
    python benchmarks/training.py ag          # topics of AG News
    python benchmarks/training.py canary      # exposure of inserted secrets
    python benchmarks/training.py draw        # tables and plots of docs/training.md, from the JSON files

Every run is kept as soon as it is measured, so that an interrupted benchmark goes on where it was.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))
import training_data as data
import training_page
from setting import RESULTS, save
from sfumato import Space
from sfumato.audit.attacks.canary import all_strings, exposure, mean_without_leak
from sfumato.training import PublishedRates, Sentence, TrainingPlan, Vocabulary, moments_epsilon
from sfumato.training.neural import comparison
from sfumato.training.neural.batch import evaluate
from sfumato.training.neural.comparison import Effort, Task
from sfumato.training.neural.exposure import DigitChances
from sfumato.training.neural.lstm import LSTMConfig
from sfumato.training.neural.settings import TrainSettings
from sfumato.training.published import ESTIMATORS

SEEDS = (1, 2, 3)
EPSILONS = (2.0, 4.0, 8.0, 16.0)
NO_DROPOUT = {f"dropout_{name}": 0.0 for name in ("output", "hidden", "input", "words", "weights")}
PUBLISHED = {
    "CoNLL-2003": (PublishedRates(user=50 / 946, entity=0.5, sensitive=11176 / 14040), (0.52, 0.62, 1.18)),
    "AG News": (PublishedRates(user=500 / 7500, entity=0.5, sensitive=67157 / 112000), (0.50, 0.75, 1.48)),
    "SEC": (PublishedRates(user=0.0631, entity=0.5, sensitive=0.41), (0.40, 0.71, 1.40)),
}
"""Rates, and the epsilons the paper prints (f_E, f_E+, users alone); the user rates of AG News and SEC, and SEC's share
of sensitive sentences, are not printed there and were solved for."""

CONLL_EFFORT = Effort(
    clip=0.5,
    user_clip=0.5,
    settings=TrainSettings(optimizer="sgd", learning_rate=4.0),
    plain_settings=TrainSettings(optimizer="sgd", learning_rate=5.0),
    user_settings=TrainSettings(optimizer="sgd", learning_rate=1.0, local_rate=0.5, local_batch=4),
    published_settings=TrainSettings(optimizer="sgd", learning_rate=0.03, local_rate=0.5, local_batch=4),
)
AG_EFFORT = Effort(
    clip=0.5,
    user_clip=0.5,
    published_rate=0.02,
    settings=TrainSettings(optimizer="sgd", learning_rate=2.0),
    plain_settings=TrainSettings(optimizer="adam", learning_rate=3e-2),
    user_settings=TrainSettings(optimizer="sgd", learning_rate=1.0, local_rate=0.5, local_batch=4),
    published_settings=TrainSettings(optimizer="sgd", learning_rate=0.03, local_rate=0.5, local_batch=4),
)


def vocabulary_and_vectors(words: int, dimensions: int) -> tuple[Vocabulary, np.ndarray]:
    """Return a public vocabulary with its vectors, from the space that is shipped."""
    space = Space.load("default")
    vocabulary = Vocabulary.of_space(space, words)
    return vocabulary, vocabulary.vectors(space, dimensions)


def language_task(
    held_out: int = 600, words: int = 1500, hidden: int = 48, started: int = 120, digits: bool = False
) -> Task:
    """Return next-word prediction on CoNLL-2003, from a model that has seen public articles."""
    vocabulary, vectors = vocabulary_and_vectors(words, hidden)
    config = LSTMConfig(
        vocabulary=len(vocabulary), embedding=hidden, hidden=hidden, layers=2, freeze_embedding=True, **NO_DROPOUT
    )
    task = Task(data.conll("train"), data.conll("test")[:held_out], vocabulary, config, 14, vectors)
    task = digit_vectors(task) if digits else task
    return task.started_on(data.wikitext(), steps=started, rate=0.02, settings=TrainSettings(learning_rate=1e-2))


def topic_task(words: int = 5000, hidden: int = 24) -> Task:
    """Return topic classification on AG News: 4,000 articles for training, 1,000 held out."""
    vocabulary, vectors = vocabulary_and_vectors(words, hidden)
    config = LSTMConfig(
        vocabulary=len(vocabulary), embedding=hidden, hidden=hidden, layers=1, classes=4, freeze_embedding=True,
        **NO_DROPOUT,
    )  # fmt: skip
    articles = data.ag_news()
    return Task(articles[:4000], articles[4000:], vocabulary, config, 24, vectors)


def cases(of_users: tuple[float, ...]) -> Iterator[tuple[str, float]]:
    """Yield each method with its epsilons."""
    for method in comparison.METHODS:
        for epsilon in {"uedp": EPSILONS, "user": of_users}.get(method, (0.0,)):
            yield method, epsilon


def kept(name: str, runs: list[tuple[str, Callable[[], dict[str, Any]]]], note: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of all runs, computing those that are not in the file yet."""
    path = RESULTS / f"{name}.json"
    known = json.loads(path.read_text()).get("runs", {}) if path.exists() else {}
    for label, compute in runs:
        if label in known:
            continue
        known[label] = compute()
        print(f"{time.strftime('%H:%M:%S')} {name}: {label}", known[label].get("figure"), flush=True)
        save(name, {**note, "torch": torch.__version__, "runs": known})
    return json.loads(path.read_text())


def compare(name: str, make: Callable[[], Task], effort: Effort, measure: str, of_users: tuple[float, ...]) -> None:
    """Measure all methods on a task."""
    task = make()
    runs = [
        (
            f"{method}, epsilon {epsilon:g}, seed {seed}",
            partial(comparison.measure, task, method, effort, seed=seed, epsilon=epsilon),
        )
        for seed in SEEDS
        for method, epsilon in cases(of_users)
    ]
    start = evaluate(task.model(), task.held_out_batch)
    note = {
        "measure": measure,
        "start": start,
        "sentences": len(task.sentences),
        "users": len({one.user for one in task.sentences}),
        "held_out": len(task.held_out),
        "parameters": sum(p.numel() for p in task.model().parameters() if p.requires_grad),
        "vocabulary": len(task.vocabulary),
    }
    kept(name, runs, note)


def published() -> None:
    """Compare the published accounting with the sound one for the same noise and rates."""
    rows = []
    for name, (rates, printed) in PUBLISHED.items():
        for estimator, figure in zip(ESTIMATORS, printed, strict=True):
            ours = moments_epsilon(rates.of(estimator), noise=2.0, steps=50, delta=1e-5)
            rows.append({"corpus": name, "estimator": estimator, "printed": figure, "repeated": ours})
    sound = []
    for name, (rates, _) in PUBLISHED.items():
        for limits in (1, 4, 16):
            plan = TrainingPlan(
                slots=14041,
                rate=rates.user,
                steps=50,
                clip=1.0,
                noise=2.0,
                per_user=limits,
                per_entity=limits,
                delta=1e-5,
            )
            sound.append({"corpus": name, "limits": limits, "rate": rates.user, "epsilon": plan.epsilon()})
    vectors = []
    for group, noise, wanted in ((1, 2.0, 0.921), (8, 8.0, 1.788)):
        plan = TrainingPlan(
            slots=10000, rate=0.02, steps=500, clip=1.0, noise=noise, per_user=group, per_entity=0 + group, delta=1e-5
        )
        vectors.append({"sentences": group, "noise": noise, "wanted": wanted, "found": _group_epsilon(plan, group)})
    save("training_published", {"published": rows, "sound": sound, "vectors": vectors})


def _group_epsilon(plan: TrainingPlan, group: int) -> float:
    from sfumato.accounting import MixtureOfGaussiansEvent, accountant

    event = MixtureOfGaussiansEvent.of_sampled_group(plan.noise, group, plan.rate) * plan.steps
    return accountant("pld").epsilon(event, plan.delta)


# Limits so wide that they alone hide nothing: what is hidden, the noise hides.
CANARY_EFFORT = replace(
    CONLL_EFFORT,
    steps=200,
    per_entity=32,
    settings=TrainSettings(optimizer="sgd", learning_rate=1.0),
    plain_settings=TrainSettings(optimizer="adam", learning_rate=1e-2),
)
COPIES, DIGITS = 256, 6
HOLDERS = ("ship", "bank", "farm", "bridge")
CANARY_METHODS = (("start", 0.0), ("uedp", 8.0), ("none, same sentences", 0.0), ("none", 0.0), ("user", 8.0))


def digit_vectors(task: Task) -> Task:
    """Return the task with unlike vectors for the digits: in the space they are so near that no model tells them apart."""
    assert task.vectors is not None
    vectors = task.vectors.copy()
    drawn = np.random.default_rng(29).normal(size=(10, vectors.shape[1])) * 1.5 / np.sqrt(vectors.shape[1])
    vectors[[task.vocabulary.number(str(digit)) for digit in range(10)]] = drawn
    return replace(task, vectors=vectors)


def canary_task(task: Task, seed: int) -> tuple[Task, list[tuple[list[str], str]]]:
    """Return a task in which secrets were inserted, each an entity that many users mention, and the secrets."""
    rng = np.random.default_rng([23, seed])
    secrets = [f"{rng.integers(0, 10**DIGITS):0{DIGITS}d}" for _ in HOLDERS]
    beginnings = [f"the code of the {holder} is".split() for holder in HOLDERS]
    inserted = [
        Sentence(f"canary user {one}-{copy}", (*beginning, *secret), frozenset({f"canary {one}"}))
        for one, (beginning, secret) in enumerate(zip(beginnings, secrets, strict=True))
        for copy in range(COPIES)
    ]
    mixed = [*task.sentences, *inserted]
    order = rng.permutation(len(mixed))
    return replace(task, sentences=[mixed[place] for place in order]), list(zip(beginnings, secrets, strict=True))


def exposures(task: Task, method: str, epsilon: float, seed: int) -> dict[str, Any]:
    """Return the exposure of each secret after training by a method."""
    inserted, secrets = canary_task(task, seed)
    begin = time.monotonic()
    if method == "start":
        model, sentences = inserted.model(), 0
    else:
        prepared = comparison.prepare(inserted, method, CANARY_EFFORT, epsilon)
        model, sentences = comparison.train(inserted, prepared, seed), len(prepared.sentences)
    found = [
        exposure(all_strings(DigitChances(model, inserted.vocabulary, words), DIGITS), secret)
        for words, secret in secrets
    ]
    return {
        "method": method,
        "epsilon": epsilon,
        "seed": seed,
        "exposures": [one.exposure for one in found],
        "least": [one.least_exposure for one in found],
        "figure": float(np.mean([one.exposure for one in found])),
        "held_out": evaluate(model, inserted.held_out_batch),
        "sentences": sentences,
        "seconds": round(time.monotonic() - begin, 1),
    }


def canary() -> None:
    """Measure the exposure of inserted secrets."""
    task = language_task(digits=True)
    runs = [
        (f"{method}, epsilon {epsilon:g}, seed {seed}", partial(exposures, task, method, epsilon, seed))
        for method, epsilon in CANARY_METHODS
        for seed in SEEDS
    ]
    note = {"no_leak": mean_without_leak(10**DIGITS), "canaries": len(HOLDERS), "copies": COPIES, "digits": DIGITS}
    kept("training_canary", runs, note)


def main(arguments: list[str]) -> None:
    """Run what is named."""
    torch.set_num_threads(1)
    for what in arguments or ["published", "conll", "ag", "canary", "draw"]:
        if what == "published":
            published()
        elif what == "conll":
            compare("training_conll", language_task, CONLL_EFFORT, "perplexity", (2.0, 8.0))
        elif what == "ag":
            compare("training_ag", topic_task, AG_EFFORT, "error", (2.0, 8.0))
        elif what == "canary":
            canary()
        elif what == "draw":
            training_page.write()


if __name__ == "__main__":
    main(sys.argv[1:])
