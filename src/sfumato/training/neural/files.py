"""Model files: the weights, how to build the model, and the guarantee, in one file.

The guarantee is in the file's metadata, so that it cannot be lost on the way.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from sfumato.foundation.errors import DataError
from sfumato.foundation.guarantee import Guarantee, guarantee_from_json
from sfumato.training.neural.batch import TextModel
from sfumato.training.neural.checkpoint import _unique
from sfumato.training.neural.lstm import LSTMConfig, LSTMModel
from sfumato.training.plans import AnyPlan, plan_from_json
from sfumato.training.vocabulary import Vocabulary

_FORMAT = "sfumato model 1"


@dataclass(frozen=True)
class TrainedModel:
    """A model that was read from a file."""

    model: LSTMModel
    vocabulary: Vocabulary
    guarantee: Guarantee
    plan: AnyPlan


def save_model(
    path: str | Path,
    model: TextModel,
    *,
    guarantee: Guarantee,
    plan: AnyPlan,
    vocabulary: Vocabulary | None = None,
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Write a model with its guarantee; the vocabulary, which is public, makes an LSTM readable on its own."""
    path = Path(path)
    note: dict[str, Any] = {"guarantee": guarantee.to_json(), "plan": plan.to_json(), **(extra or {})}
    if isinstance(model, LSTMModel):
        note["lstm"] = dataclasses.asdict(model.config)
    if vocabulary is not None:
        note["words"] = list(vocabulary.words)
    metadata = {"format": _FORMAT, "sfumato": json.dumps(note), "statement": guarantee.statement()}
    partial = path.with_name(path.name + ".part")
    save_file(_unique(model.state_dict()), partial, metadata=metadata)
    os.replace(partial, path)


def read_note(path: str | Path) -> dict[str, Any]:
    """Return what a model file says of itself; ``guarantee`` and ``plan`` are read back as such."""
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise DataError("the file is not a model file (safetensors)") from error
    if metadata.get("format") != _FORMAT:
        raise DataError("the file carries no guarantee: it was not written by this program, or by another version")
    note: dict[str, Any] = json.loads(metadata["sfumato"])
    note["guarantee"] = guarantee_from_json(note["guarantee"])
    note["plan"] = plan_from_json(note["plan"])
    return note


def load_model(path: str | Path) -> TrainedModel:
    """Read an LSTM that was written with its vocabulary."""
    note = read_note(path)
    if "lstm" not in note or "words" not in note:
        raise DataError("the file holds no LSTM with its vocabulary; read_note gives its guarantee")
    model = LSTMModel(LSTMConfig(**note["lstm"]))
    with safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    model.load_state_dict(tensors, strict=False)
    model.eval()
    return TrainedModel(model, Vocabulary(tuple(note["words"])), note["guarantee"], note["plan"])
