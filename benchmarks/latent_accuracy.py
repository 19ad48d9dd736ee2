"""Accuracy of a head that sees noisy sentence vectors only, against epsilon and the choices of the pipeline.

Sentences are those of ``latent_data.py``: IMDB (25,000 reviews, 5,000 of them for testing, split anew for each seed) and
SST-2 (6,920 / 872), encoded by all-MiniLM-L6-v2 from their first 128 word pieces.  Every figure is a mean over seeds with
a 95 % t-interval; every test query is noised too, unless a column says "local".

    python benchmarks/latent_data.py && python benchmarks/latent_accuracy.py
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats

sys.path.insert(0, str(Path(__file__).parent))
import latent_data as data
from sfumato.foundation.randomness import RunKey
from sfumato.latent.amplification import secretly_sampled, shuffled
from sfumato.latent.calibration import release_once, several_releases
from sfumato.latent.encoders.projection import Projection
from sfumato.latent.encoders.words import WordMeanEncoder
from sfumato.latent.heads import Head, HeadSettings
from sfumato.latent.labels import RandomisedResponse
from sfumato.latent.orders import secret_sample
from sfumato.latent.plan import NoisePlan
from sfumato.latent.published import as_published
from sfumato.latent.vectors import choose_clip, clip
from sfumato.space import Space

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
PUBLIC_OF = {"imdb": "rotten_tomatoes", "sst2": "imdb"}
"""Which other corpus is the public one: SST-2 was made from the sentences of Rotten Tomatoes, so it takes IMDB."""
TOKENS = 64


@dataclass(frozen=True)
class LatentConfig:
    """What to measure; the defaults are the published figures, :meth:`small` takes a minute."""

    datasets: tuple[str, ...] = ("imdb", "sst2")
    encoders: tuple[str, ...] = ("direction", "minilm")
    epsilons: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 10.0)
    sweep_epsilons: tuple[float, ...] = (4.0, 10.0)
    """For the clipping norm and the position."""
    sampling_epsilons: tuple[float, ...] = (1.0, 4.0)
    delta: float = 1e-5
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    """For the one direction, and for the accounting of whole vectors; their other tables take the first three."""
    limit: int = 25_000
    epochs: int = 10
    batch: int = 512
    tables: tuple[str, ...] = ("accounting", "distribution", "clip", "sampling", "labels", "position")

    @classmethod
    def small(cls) -> LatentConfig:
        """Return a quick run that shows the same tables."""
        return cls(
            epsilons=(1.0, 10.0), sweep_epsilons=(4.0,), sampling_epsilons=(1.0,), seeds=(1, 2, 3), limit=1_500, epochs=3,
            encoders=("direction",), tables=("accounting", "distribution", "clip", "sampling", "labels"),
        )  # fmt: skip

    def epsilons_of(self, table: str) -> tuple[float, ...]:
        """Return at which epsilons a table is made."""
        if table == "labels":
            return (4.0,)
        return {"clip": self.sweep_epsilons, "position": self.sweep_epsilons, "sampling": self.sampling_epsilons}.get(
            table, self.epsilons
        )


@dataclass(frozen=True)
class Corpus:
    """One split of one corpus as seen through one encoder."""

    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    clip: float

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        return int(self.train.shape[1])


@functools.lru_cache(maxsize=4)
def public_vectors(dataset: str) -> np.ndarray:
    """Return the vectors of the public corpus."""
    return data.load(PUBLIC_OF[dataset], 8_000).mean


@functools.lru_cache(maxsize=4)
def public_direction(dataset: str) -> Projection:
    """Return the one direction that tells good from bad reviews in the public corpus."""
    public = data.load(PUBLIC_OF[dataset], 8_000)
    return Projection.discriminating(public.mean, public.labels, classes=2)


@functools.lru_cache(maxsize=5)
def load(dataset: str, encoder: str, seed: int, limit: int) -> Corpus:
    """Return the split of a seed; the clipping norm is chosen on the public corpus."""
    public = public_vectors(dataset)
    if dataset == "imdb":
        whole = data.load("imdb", limit)
        order = np.random.default_rng(seed).permutation(len(whole.labels))
        cut = len(order) * 4 // 5
        vectors, labels = whole.mean[order], whole.labels[order]
        parts = [vectors[:cut], labels[:cut], vectors[cut:], labels[cut:]]
    else:
        train, dev = data.load("sst2_train", limit), data.load("sst2_dev")
        parts = [train.mean, train.labels, dev.mean, dev.labels]
    if encoder == "direction":
        direction = public_direction(dataset)
        public, parts[0], parts[2] = direction.apply(public), direction.apply(parts[0]), direction.apply(parts[2])
    return Corpus(*parts, clip=choose_clip(public))


def noisy(vectors: np.ndarray, plan: NoisePlan, generator: np.random.Generator) -> np.ndarray:
    """Return one release; the generator is quick and predictable, as an experiment wants it."""
    clipped = _clipped(vectors, plan)
    if plan.distribution == "laplace":
        return clipped + generator.laplace(scale=plan.scale, size=clipped.shape).astype(np.float32)
    released = generator.standard_normal(clipped.shape, dtype=np.float32)
    released *= np.float32(plan.scale)
    released += clipped
    return released


_KEPT: dict[tuple[int, float, str], tuple[np.ndarray, np.ndarray]] = {}


def _clipped(vectors: np.ndarray, plan: NoisePlan) -> np.ndarray:
    """Return clipped vectors; those of a whole corpus are kept, because every epoch asks for them."""
    if len(vectors) < 500:
        return clip(vectors, plan.clip, plan.norm).astype(np.float32)
    key = (id(vectors), plan.clip, plan.norm)
    if key not in _KEPT:
        if len(_KEPT) > 12:
            _KEPT.clear()
        _KEPT[key] = vectors, clip(vectors, plan.clip, plan.norm).astype(np.float32)
    return _KEPT[key][1]


def head_for(plan: NoisePlan, seed: int, **options: Any) -> Head:
    """Return a linear head for vectors under a plan."""
    size = float(np.hypot(plan.deviation, plan.clip / np.sqrt(plan.dimension)))
    return Head(HeadSettings(dimension=plan.dimension, classes=2, scale=size, seed=seed, **options))


def scores(head: Head, corpus: Corpus, query: NoisePlan, generator: np.random.Generator) -> dict[str, float]:
    """Return accuracy on noisy queries, and on queries asked at the owner's side without noise."""
    clipped = clip(corpus.test, query.clip, query.norm)
    return {
        "accuracy": head.accuracy(noisy(corpus.test, query, generator), corpus.test_labels),
        "local_accuracy": head.accuracy(clipped, corpus.test_labels),
    }


def fitted(corpus: Corpus, plan: NoisePlan, query: NoisePlan, seed: int) -> dict[str, float]:
    """Release once, fit to convergence, score."""
    generator = np.random.default_rng(seed)
    head = head_for(plan, seed).fit(noisy(corpus.train, plan, generator), corpus.train_labels)
    return scores(head, corpus, query, generator)


def summary(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each score with the half width of its 95 % t-interval."""
    result: dict[str, float] = {"seeds": len(runs)}
    for name in runs[0]:
        values = np.array([run[name] for run in runs])
        half = (
            stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else 0
        )
        result[name], result[f"{name}_half_width"] = round(float(values.mean()), 4), round(float(half), 4)
    return result


def over_seeds(
    config: LatentConfig, dataset: str, encoder: str, one: Callable[[Corpus, int], dict[str, float]]
) -> dict:
    """Return the summary of one cell."""
    return summary([one(load(dataset, encoder, seed, config.limit), seed) for seed in config.seeds])


def accounting_rows(config: LatentConfig, dataset: str, encoder: str) -> Iterator[dict[str, Any]]:
    """Release once, fresh noise in every epoch, and the published accounting, trained alike by epochs of Adam."""
    for epsilon in config.epsilons:
        for mode in ("release once", "fresh each epoch", "as_published"):
            facts: dict[str, Any] = {}

            def one(corpus: Corpus, seed: int, epsilon: float = epsilon, mode: str = mode, facts: dict = facts) -> dict:
                shape = {"clip": corpus.clip, "dimension": corpus.dimension}
                query = release_once(epsilon=epsilon, delta=config.delta, **shape)
                rate = min(config.batch / len(corpus.train), 1.0)
                if mode == "release once":
                    plan = query
                elif mode == "fresh each epoch":
                    plan = several_releases(config.epochs, epsilon=epsilon, delta=config.delta, **shape)
                else:
                    steps = config.epochs * math.ceil(len(corpus.train) / config.batch)
                    claimed = as_published(
                        epsilon=epsilon, delta=config.delta, rate=rate, steps=steps, allow_unsound=True, **shape
                    )
                    plan = query = replace(claimed.noise, releases=config.epochs)
                facts |= {
                    "sound_epsilon": round(plan.epsilon(), 4),
                    "scale_over_clip": round(plan.scale / plan.clip, 4),
                }
                generator = np.random.default_rng(seed)
                once = noisy(corpus.train, plan, generator) if mode == "release once" else None
                epochs = (
                    (noisy(corpus.train, plan, generator) if once is None else once, corpus.train_labels)
                    for _ in range(config.epochs)
                )
                head = head_for(plan, seed, batch=config.batch, solver="epochs").fit_epochs(epochs)
                return scores(head, corpus, query, generator)

            yield {"mode": mode, "epsilon": epsilon, **over_seeds(config, dataset, encoder, one), **facts}


def distribution_rows(config: LatentConfig, dataset: str, encoder: str) -> Iterator[dict[str, Any]]:
    """Gaussian noise, and Laplace noise with its clipping norm in l1."""
    for epsilon in config.epsilons:
        for distribution in ("gaussian", "laplace"):

            def one(corpus: Corpus, seed: int, epsilon: float = epsilon, distribution: str = distribution) -> dict:
                bound = corpus.clip
                if distribution == "laplace" and corpus.dimension > 1:
                    bound = choose_clip(public_vectors(dataset), norm="l1")
                plan = release_once(
                    epsilon=epsilon,
                    delta=config.delta,
                    clip=bound,
                    dimension=corpus.dimension,
                    distribution=distribution,
                )
                return fitted(corpus, plan, plan, seed)

            yield {"distribution": distribution, "epsilon": epsilon, **over_seeds(config, dataset, encoder, one)}


def clip_rows(config: LatentConfig, dataset: str, encoder: str) -> Iterator[dict[str, Any]]:
    """The clipping norm, as a multiple of the public median norm."""
    for epsilon in config.epsilons:
        for factor in (0.1, 0.3, 1.0, 3.0, 10.0):

            def one(corpus: Corpus, seed: int, epsilon: float = epsilon, factor: float = factor) -> dict:
                plan = release_once(
                    epsilon=epsilon, delta=config.delta, clip=corpus.clip * factor, dimension=corpus.dimension
                )
                return fitted(corpus, plan, plan, seed)

            yield {"epsilon": epsilon, "clip_factor": factor, **over_seeds(config, dataset, encoder, one)}


def sampling_rows(config: LatentConfig, dataset: str, encoder: str) -> Iterator[dict[str, Any]]:
    """How large a share takes part: secret sampling, a shuffled batch, and the published accounting; ten passes worth."""
    for epsilon in config.epsilons:
        for rate in (0.01, 0.1, 0.5, 1.0):
            for mode in ("secret sample, one round", "as_published, ten epochs"):
                facts: dict[str, Any] = {}

                def one(
                    corpus: Corpus,
                    seed: int,
                    epsilon: float = epsilon,
                    rate: float = rate,
                    mode: str = mode,
                    facts: dict = facts,
                ) -> dict:
                    shape = {"clip": corpus.clip, "dimension": corpus.dimension, "delta": config.delta}
                    query, count = release_once(epsilon=epsilon, **shape), len(corpus.train)
                    batch = max(2, round(rate * count))
                    generator = np.random.default_rng(seed)
                    if mode.startswith("secret"):
                        plan = secretly_sampled(epsilon=epsilon, records=count, batch=batch, **shape).noise
                        chosen = secret_sample(
                            count, batch, corpus.train_labels, lambda bound: int(generator.integers(bound))
                        )
                        vectors, labels = noisy(corpus.train[chosen], plan, generator), corpus.train_labels[chosen]
                        facts |= {"scale_over_clip": round(plan.scale / plan.clip, 4)}
                        return scores(head_for(plan, seed).fit(vectors, labels), corpus, query, generator)
                    claimed = as_published(
                        epsilon=epsilon, rate=rate, steps=round(10 / rate), allow_unsound=True, **shape
                    )
                    plan = claimed.noise
                    facts |= {
                        "scale_over_clip": round(plan.scale / plan.clip, 4),
                        "sound_epsilon": round(claimed.true_epsilon, 4),
                    }
                    # What ten epochs can learn from ten noisy copies is their mean, whose noise is so much less.
                    copies = noisy(corpus.train, replace(plan, scale=plan.scale / math.sqrt(10)), generator)
                    return scores(head_for(plan, seed).fit(copies, corpus.train_labels), corpus, plan, generator)

                yield {
                    "mode": mode,
                    "epsilon": epsilon,
                    "rate": rate,
                    **over_seeds(config, dataset, encoder, one),
                    **facts,
                }
        facts = {}

        def batched(corpus: Corpus, seed: int, epsilon: float = epsilon, facts: dict = facts) -> dict:
            shape = {"clip": corpus.clip, "dimension": corpus.dimension, "delta": config.delta}
            rarest = int(np.bincount(corpus.train_labels).min())  # labels are sent along
            plan = shuffled(epsilon=epsilon, records=rarest, **shape).noise
            facts |= {"scale_over_clip": round(plan.scale / plan.clip, 4)}
            return fitted(corpus, plan, release_once(epsilon=epsilon, **shape), seed)

        row = over_seeds(config, dataset, encoder, batched)
        yield {"mode": "shuffled batch", "epsilon": epsilon, "rate": 1.0, **row, **facts}


def labels_rows(config: LatentConfig, dataset: str, encoder: str) -> Iterator[dict[str, Any]]:
    """Labels as they are, and by randomised response with an epsilon of their own."""
    for label_epsilon in (0.5, 1.0, 2.0, None):

        def one(corpus: Corpus, seed: int, label_epsilon: float | None = label_epsilon) -> dict:
            plan = release_once(epsilon=4.0, delta=config.delta, clip=corpus.clip, dimension=corpus.dimension)
            generator = np.random.default_rng(seed)
            labels, transition = corpus.train_labels, None
            if label_epsilon is not None:
                response = RandomisedResponse.of(classes=2, epsilon=label_epsilon)
                labels = response.sample(labels, RunKey.from_seed(seed).record(0, "labels"))
                transition = response.transition()
            head = head_for(plan, seed).fit(noisy(corpus.train, plan, generator), labels, transition)
            return scores(head, corpus, plan, generator)

        yield {"epsilon": 4.0, "label_epsilon": label_epsilon, **over_seeds(config, dataset, encoder, one)}


def released_means(rows: Sequence[np.ndarray], plan: NoisePlan, generator: np.random.Generator) -> np.ndarray:
    """Release every token of every sentence and return the mean of each sentence's noisy tokens (post-processing)."""
    return np.stack([noisy(row, plan, generator).mean(axis=0) for row in rows])


def position_rows(config: LatentConfig, encoder: str) -> Iterator[dict[str, Any]]:
    """Noise on the sentence vector or on every token, on SST-2: sound for a sentence, as published, and for one word."""
    count = min(config.limit, 6_920)
    train, labels = data.load_tokens("sst2_train", count, TOKENS)
    test, test_labels = data.load_tokens("sst2_dev", 872, TOKENS)
    public, _ = data.load_tokens("imdb", 200, TOKENS)
    if encoder == "direction":
        direction = public_direction("sst2")
        train, test, public = ([direction.apply(row) for row in rows] for rows in (train, test, public))
    kinds = {
        "sentence": (train, test, public),
        "token": (train, test, public),
        "token, as published": (train, test, public),
    }
    if encoder == "minilm":
        kinds["one word, static word vectors"] = word_rows(count)
    for epsilon in config.epsilons:
        for kind, (rows, queries, seen) in kinds.items():
            dimension = rows[0].shape[1]
            if kind == "sentence":
                rows, queries, seen = (
                    [row.mean(axis=0, keepdims=True) for row in many] for many in (rows, queries, seen)
                )
            bound = choose_clip(np.concatenate(seen))
            base = NoisePlan(
                clip=bound, scale=1.0, dimension=dimension, delta=config.delta, position="token", tokens=TOKENS
            )
            changed = {"sentence": 1, "token": TOKENS}.get(kind, 1)
            single = release_once(epsilon=epsilon, clip=bound, dimension=dimension, delta=config.delta)
            scale = single.scale * math.sqrt(changed) / (2 if kind.endswith("published") else 1)
            plan = NoisePlan(**{**base.to_json(), "scale": scale, "change": "word" if "word" in kind else "sentence"})
            runs = []
            for seed in config.seeds:
                generator = np.random.default_rng(seed)
                vectors = released_means(rows, plan, generator)
                head = Head(HeadSettings(dimension=dimension, classes=2, scale=float(vectors.std()), seed=seed))
                head.fit(vectors, labels)
                runs.append({"accuracy": head.accuracy(released_means(queries, plan, generator), test_labels)})
            sound = single.epsilon() if kind == "sentence" else plan.epsilon()
            yield {"position": kind, "epsilon": epsilon, "sound_epsilon": round(sound, 4), **summary(runs)}


def word_rows(count: int) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Return the static word vectors of SST-2, and of a public sample."""
    encoder = WordMeanEncoder(Space.load("default"), max_tokens=TOKENS)

    def rows(name: str, limit: int) -> list[np.ndarray]:
        found = encoder.encode_tokens(data.corpus(name)[0][:limit])
        return [one[: max(1, int(mask.sum()))] for one, mask in zip(found.values, found.mask, strict=True)]

    return rows("sst2_train", count), rows("sst2_dev", 872), rows("imdb", 200)


TABLES = {
    "accounting": accounting_rows,
    "distribution": distribution_rows,
    "clip": clip_rows,
    "sampling": sampling_rows,
    "labels": labels_rows,
}


def kept(config: LatentConfig, parts: Sequence[str], make: Callable[[], Any], patience: float = math.inf) -> Any:
    """Return what was made before, or make it and keep it; None where no processor time is left for it."""
    shape = {name: value for name, value in asdict(config).items() if name not in ("tables", "datasets", "encoders")}
    label = json.dumps([shape, *parts], sort_keys=True)
    path = data.cache_folder() / f"rows-{hashlib.sha256(label.encode()).hexdigest()[:24]}.json"
    if not path.exists():
        if time.process_time() > patience:
            return None
        partial = path.with_suffix(f".{os.getpid()}.part")
        partial.write_text(json.dumps(make()))
        partial.rename(path)
    return json.loads(path.read_text())


def block(
    config: LatentConfig, table: str, encoder: str, dataset: str, epsilon: float, patience: float
) -> list[dict[str, Any]] | None:
    """Return the rows of a table for one encoder, data set and epsilon."""
    several = encoder == "direction" or table == "accounting"
    one = replace(config, epsilons=(epsilon,), seeds=config.seeds if several else config.seeds[:3])

    def make() -> list[dict[str, Any]]:
        found = position_rows(one, encoder) if table == "position" else TABLES[table](one, dataset, encoder)
        return [{"dataset": dataset, "encoder": encoder, **row} for row in found]

    rows: list[dict[str, Any]] | None = kept(one, (table, encoder, dataset), make, patience)
    return rows


def run(
    config: LatentConfig | None = None,
    tell: Callable[[str], None] = lambda line: None,
    keep: Callable[[dict[str, Any]], object] = lambda result: None,
    patience: float = math.inf,
) -> dict[str, Any]:
    """Return all tables as plain data; ``keep`` is given what there is after each of them.

    After ``patience`` processor seconds nothing more is measured: what is missing makes the result not ``complete``, and
    the next run goes on from there.
    """
    chosen = config or LatentConfig()
    torch.set_num_threads(1)
    tables: dict[str, list[dict[str, Any]]] = {}
    result: dict[str, Any] = {
        "config": asdict(chosen),
        "records": {name: len(data.load(name, chosen.limit).labels) for name in data.NAMES},
        "word_pieces": data.MAX_TOKENS,
        "token_table_pieces": TOKENS,
        "complete": False,
        "tables": tables,
    }
    missing = 0
    for table in chosen.tables:
        tables[table] = []
        datasets = ("sst2",) if table == "position" else chosen.datasets
        for encoder, dataset in itertools.product(chosen.encoders, datasets):
            for epsilon in chosen.epsilons_of(table):
                found = block(chosen, table, encoder, dataset, epsilon, patience)
                missing += found is None
                tables[table] += found or []
                took = "left for later" if found is None else f"{time.process_time():.0f} s"
                tell(f"{table}, {dataset}, {encoder}, epsilon {epsilon:g}: {took}")
        keep(result)
    best = without_noise(chosen, patience)
    missing += None in best
    result["without_noise"] = [row for row in best if row is not None]
    result["complete"] = not missing
    keep(result)
    return result


def without_noise(config: LatentConfig, patience: float) -> list[dict[str, Any] | None]:
    """Return what the encoders allow at best."""
    rows: list[dict[str, Any] | None] = []
    for dataset in config.datasets:
        for encoder in config.encoders:

            def one(corpus: Corpus, seed: int) -> dict:
                head = Head(HeadSettings(dimension=corpus.dimension, classes=2, scale=corpus.train.std(), decay=1e-4))
                return {
                    "accuracy": head.fit(corpus.train, corpus.train_labels).accuracy(corpus.test, corpus.test_labels)
                }

            def make(one: Callable = one, dataset: str = dataset, encoder: str = encoder) -> dict[str, float]:
                return over_seeds(config, dataset, encoder, one)

            best = kept(config, ("without noise", encoder, dataset), make, patience)
            rows.append(best and {"dataset": dataset, "encoder": encoder, **best})
    return rows


if __name__ == "__main__":
    from setting import save

    def say(line: str) -> None:
        """Show how far it is."""
        print(line, flush=True)

    def given(option: str) -> str | None:
        """Return what follows an option."""
        return sys.argv[sys.argv.index(option) + 1] if option in sys.argv else None

    only, seconds = given("--only"), float(given("--seconds") or math.inf)
    if "--small" in sys.argv:
        found = run(LatentConfig.small(), say)
        print(json.dumps(found["tables"], indent=1))
    elif only:  # one table, so that several can be made at once; the whole run then finds its rows
        found = run(replace(LatentConfig(), tables=(only,)), say, patience=seconds)
    else:
        found = run(tell=say, keep=lambda result: save("latent_accuracy", result), patience=seconds)
    sys.exit(0 if found["complete"] else 75)  # 75: run it again to go on
