"""Checkpoints: a run that was interrupted goes on, and is still the same release.

A checkpoint holds the model, the optimizer and the number of steps; the run's key is in a file of its own, which only
its owner may read.  Coins and noise follow from the key and the number of a step, so that steps which are repeated
after an interruption release nothing new.  That holds only for the same plan, settings and sentences: a digest of
them, under the key, is compared before a run goes on.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from sfumato.foundation.errors import DataError
from sfumato.foundation.randomness import KEY_BYTES, RunKey

if TYPE_CHECKING:
    from sfumato.training.neural.trainer import Trainer

_STATE = "checkpoint.safetensors"
_KEY = "secret.key"
_FORMAT = "sfumato checkpoint 1"


def keep(trainer: Trainer, folder: Path) -> None:
    """Write the state of a run; the one before is replaced at once or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / _KEY).exists():
        _write_key(folder / _KEY, trainer.key)
    tensors = {f"model.{name}": value for name, value in _unique(trainer.model.state_dict()).items()}
    for number, one in trainer.optimizer.state_dict()["state"].items():
        for name, value in one.items():
            if isinstance(value, Tensor):
                tensors[f"optimizer.{number}.{name}"] = value.clone()
    note = {"format": _FORMAT, "step": str(trainer.step), "digest": _digest(trainer)}
    partial = folder / (_STATE + ".part")
    save_file(tensors, partial, metadata=note)
    os.replace(partial, folder / _STATE)


def exists(folder: Path) -> bool:
    """Return whether a run was begun in a folder."""
    return (folder / _STATE).exists()


def known_key(folder: Path) -> RunKey | None:
    """Return the key of the run that was begun in a folder."""
    path = folder / _KEY
    if not path.exists():
        return None
    secret = path.read_bytes()
    if len(secret) not in (KEY_BYTES, KEY_BYTES + 1):
        raise DataError(f"{path.name} is not the key of a run; begin anew in an empty folder")
    return RunKey(secret[:KEY_BYTES], secure=len(secret) == KEY_BYTES)


def restore(trainer: Trainer, folder: Path) -> None:
    """Put a trainer, which was made with the run's key, where its run had come to."""
    try:
        with safe_open(folder / _STATE, "pt") as file:
            note = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except OSError as error:
        raise DataError("the checkpoint cannot be read; begin anew in an empty folder, at a new charge") from error
    if note.get("format") != _FORMAT:
        raise DataError("this is no checkpoint of a training run, or one of another version")
    if not hmac.compare_digest(str(note.get("digest")), _digest(trainer)):
        raise DataError(
            "the plan, the settings, the sentences or the key are not those of the checkpoint; going on would use its "
            "noise a second time for something else: restore them, or begin anew in an empty folder, at a new charge"
        )
    model = {name[6:]: value for name, value in tensors.items() if name.startswith("model.")}
    trainer.model.load_state_dict(model, strict=False)
    state: dict[int, dict[str, Any]] = {}
    for name, value in tensors.items():
        kind, _, rest = name.partition(".")
        if kind == "optimizer":
            number, _, what = rest.partition(".")
            state.setdefault(int(number), {})[what] = value
    groups = trainer.optimizer.state_dict()["param_groups"]
    trainer.optimizer.load_state_dict({"state": state, "param_groups": groups})
    trainer.step = int(note["step"])


def forget_key(folder: Path) -> None:
    """Remove the key of a finished run: nobody can take the noise away any more."""
    (folder / _KEY).unlink(missing_ok=True)


def _unique(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return each tensor under its first name only: tied weights are one."""
    seen: set[int] = set()
    result = {}
    for name, value in state.items():
        if value.data_ptr() not in seen or value.numel() == 0:
            seen.add(value.data_ptr())
            result[name] = value.detach().clone().contiguous()
    return result


def _write_key(path: Path, key: RunKey) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key.secret if key.secure else key.secret + b"!")


def _digest(trainer: Trainer) -> str:
    """Return a digest of everything that a step depends on apart from the model; only the key's owner can compute it."""
    code = hmac.new(trainer.key.secret, b"sfumato training run", hashlib.sha256)
    public = {"plan": trainer.plan.to_json(), "settings": trainer.settings.to_json()}
    code.update(json.dumps(public, sort_keys=True).encode())
    batch = trainer.data.batch
    for values in (batch.ids, batch.labels, torch.from_numpy(trainer.data.users)):
        code.update(b"\0" if values is None else values.contiguous().numpy().tobytes())
    code.update(json.dumps([list(one) for one in trainer.data.entities]).encode())
    shapes = [[name, list(value.shape), value.requires_grad] for name, value in trainer.model.named_parameters()]
    # The printed form of a model holds its layers' settings, such as dropouts.
    code.update(json.dumps([shapes, str(trainer.model)]).encode())
    return code.hexdigest()
