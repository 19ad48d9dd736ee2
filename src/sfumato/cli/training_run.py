"""From a plan file to a trainer: sentences, limits, model, plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.cli.plan_file import PlanFile
from sfumato.cli.policies import policy_of
from sfumato.foundation.checks import gather, require_one_of
from sfumato.foundation.errors import ParameterError
from sfumato.training.incidence import LimitReport, limit_incidence
from sfumato.training.plan import PublishedPlan, TrainingPlan, UserPlan
from sfumato.training.plans import METHODS, AnyPlan
from sfumato.training.sentences import Sentence, masked, read_conll, read_records
from sfumato.training.unprotected import PlainPlan
from sfumato.training.vocabulary import Vocabulary

if TYPE_CHECKING:
    from sfumato.training.neural.batch import Batch, TextModel

KINDS = ("lstm", "causal", "encoder")


@dataclass(frozen=True, repr=False)
class Prepared:
    """What a plan file asks for, before anything is trained."""

    plan: AnyPlan
    sentences: Sequence[Sentence]
    held_out: Sequence[Sentence]
    report: LimitReport


def prepare(file: PlanFile) -> Prepared:
    """Read the sentences, limit them and make the plan."""
    gather(
        lambda: require_one_of(METHODS, method=file.privacy["method"]),
        lambda: require_one_of(KINDS, kind=file.model.get("kind", "lstm")),
    )
    sentences = _read(file, file.path(file.data["train"]))
    method = file.privacy["method"]
    # Where users alone are protected, or nobody is, entities are not limited.
    everything = max(1, len(sentences))
    per_user = int(file.privacy.get("per_user", 4 if method == "uedp" else everything))
    per_entity = int(file.privacy.get("per_entity", 4)) if method == "uedp" else everything
    limited = limit_incidence(sentences, per_user=per_user, per_entity=per_entity)
    kept = limited.of(sentences)
    plan = _plan(file, method, kept, per_user, per_entity)
    if method == "masked":
        kept = [masked(sentence) for sentence in kept]
    held_out = _read(file, file.path(file.data["held_out"])) if "held_out" in file.data else []
    return Prepared(plan, kept, held_out, limited.report)


def _read(file: PlanFile, path: Path) -> list[Sentence]:
    if path.suffix.lower() not in (".csv", ".jsonl", ".json"):
        return read_conll(path)
    protect = file.data.get("protect", [])
    if not protect and file.privacy["method"] in ("uedp", "uedp-as-published", "masked"):
        raise ParameterError(
            '[data] needs protect, such as ["entities:en_core_web_sm", "identifiers"]: it says what an entity is'
        )
    return read_records(
        path,
        policy={name: policy_of([name], None, []) for name in protect},
        text=file.data.get("text", "text"),
        user=file.data.get("user", "user"),
        label=file.data.get("label"),
    )


def _plan(file: PlanFile, method: str, kept: Sequence[Sentence], per_user: int, per_entity: int) -> AnyPlan:
    given = file.privacy
    users = len({sentence.user for sentence in kept})
    common: dict[str, Any] = {"rate": float(given["rate"]), "steps": int(given["steps"])}
    if method in ("none", "masked"):
        return PlainPlan(slots=len(kept), masked=method == "masked", **common)
    common |= {"clip": float(given.get("clip", 1.0)), "delta": float(given.get("delta", 1e-5))}
    if ("epsilon" in given) == ("noise" in given):
        raise ParameterError("[privacy] needs either epsilon, for which the noise is found, or noise")
    plan: AnyPlan
    if method == "uedp":
        common |= {"slots": len(kept), "per_user": per_user, "per_entity": per_entity}
        plan = (
            TrainingPlan.calibrate(epsilon=float(given["epsilon"]), **common)
            if "epsilon" in given
            else TrainingPlan(noise=float(given["noise"]), **common)
        )
    elif method == "user":
        plan = (
            UserPlan.calibrate(epsilon=float(given["epsilon"]), users=users, **common)
            if "epsilon" in given
            else UserPlan(noise=float(given["noise"]), users=users, **common)
        )
    else:
        if "noise" not in given:
            raise ParameterError(f"the method {method!r} takes noise: nothing is calibrated to an unsound epsilon")
        plan = PublishedPlan(
            noise=float(given["noise"]),
            users=users,
            entity_rate=float(given.get("entity_rate", 0.5)),
            sensitive=sum(bool(sentence.entities) for sentence in kept),
            sentences=len(kept),
            estimator=given.get("estimator", "f_E+"),
            allow_unsound=bool(given.get("allow_unsound", False)),
            **common,
        )
    return plan.within(float(given["budget"])) if "budget" in given else plan


def model_and_batches(file: PlanFile, prepared: Prepared) -> tuple[TextModel, Batch, Batch | None, Vocabulary | None]:
    """Return the model, the private sentences and the held-out ones as it reads them, and an LSTM's vocabulary."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(file.model.get("seed", 0)))
        if file.model.get("kind", "lstm") == "lstm":
            return _lstm(file, prepared)
        return _hugging_face(file, prepared)


def _lstm(file: PlanFile, prepared: Prepared) -> tuple[TextModel, Batch, Batch | None, Vocabulary | None]:
    from sfumato.space import Space
    from sfumato.training.neural.batch import Batch
    from sfumato.training.neural.lstm import LSTMConfig, LSTMModel

    given, length = file.model, int(file.data.get("length", 24))
    space = Space.load(str(given.get("space", "default")))
    vocabulary = Vocabulary.of_space(space, int(given.get("words", 2000)))
    config = LSTMConfig(
        vocabulary=len(vocabulary),
        embedding=int(given.get("embedding", 64)),
        hidden=int(given.get("hidden", 64)),
        layers=int(given.get("layers", 3)),
        classes=int(given.get("classes", 0)),
        freeze_embedding=bool(given.get("freeze_embedding", True)),
    )
    if not given.get("dropout", False):
        config = LSTMConfig(**config.without_dropout())
    model = LSTMModel(config, vocabulary.vectors(space, config.embedding))
    held_out = Batch.of(prepared.held_out, vocabulary, length) if prepared.held_out else None
    return model, Batch.of(prepared.sentences, vocabulary, length), held_out, vocabulary


def _hugging_face(file: PlanFile, prepared: Prepared) -> tuple[TextModel, Batch, Batch | None, Vocabulary | None]:
    from sfumato.training.neural import huggingface
    from sfumato.training.neural.lora import add_adapters

    given, length = file.model, int(file.data.get("length", 24))
    if "source" not in given:
        raise ParameterError("[model] needs source: the name or the folder of a Hugging Face model")
    source = str(given["source"])
    local = file.path(source)
    place, name = (local if local.exists() else source), given.get("file")
    tokenizer = huggingface.load_tokenizer(place, file=name)
    dropout = bool(given.get("dropout", False))
    model: huggingface.CausalModel | huggingface.EncoderClassifier
    if given["kind"] == "causal":
        model = huggingface.CausalModel.load(place, file=name, dropout=dropout)
    else:
        model = huggingface.EncoderClassifier.load(
            place, int(given.get("classes", 2)), train_encoder=bool(given.get("train_encoder", False)), dropout=dropout
        )
    if given.get("adapters"):
        add_adapters(model.network, rank=int(given["adapters"]))
    held_out = huggingface.encode(tokenizer, prepared.held_out, length) if prepared.held_out else None
    return model, huggingface.encode(tokenizer, prepared.sentences, length), held_out, None
