"""Tuned kernels kept on disk: they depend on public things only (space, word lists, epsilon), never on a text.

The package ships the one of the command line's defaults, so that a first run need not tune it; a kernel from disk is
no more than a proposal, and ``sfumato verify`` certifies it anew.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from importlib import resources

import numpy as np

from sfumato.mechanism.kernel import Certificate, Ground
from sfumato.mechanism.tuning import Tuned
from sfumato.space import cache

_FORMAT = 2
_SMALLEST_WORTH_KEEPING = 2000


def _name(ground: Ground, epsilon: float, tuning: str) -> str:
    hasher = hashlib.sha256(json.dumps([_FORMAT, ground.space.digest, epsilon, ground.gamma, tuning]).encode())
    for positions in (ground.inputs, ground.outputs):
        hasher.update(np.ascontiguousarray(positions, dtype="<i8").data)
        hasher.update(b";")
    return f"tuned-{hasher.hexdigest()}.npz"


def _worth_keeping(ground: Ground) -> bool:
    return ground.space.metric_function is None and len(ground.space) >= _SMALLEST_WORTH_KEEPING


def load(ground: Ground, epsilon: float, tuning: str) -> Tuned | None:
    """Return the kernel tuned before for exactly these public things, or None."""
    content = _read(_name(ground, epsilon, tuning)) if _worth_keeping(ground) else None
    if content is None:
        return None
    try:
        with np.load(io.BytesIO(content)) as data:
            facts = json.loads(data["facts"].tobytes())
            certificate = Certificate(facts["certified"], facts["first"], facts["second"])
            weights = data["weights"].astype(np.float64)
            fill = data["fill"].astype(np.float64) if "fill" in data else None
    except (ValueError, KeyError, OSError, zipfile.BadZipFile):
        return None
    if len(weights) != len(ground.output_points) or (fill is not None and len(fill) != len(ground.input_points)):
        return None
    return Tuned(facts["tuning"], facts["rate"], weights, certificate, facts["keeps"], facts["note"], fill)


def _read(name: str) -> bytes | None:
    shipped = resources.files("sfumato.mechanism") / "data" / name
    return shipped.read_bytes() if shipped.is_file() else cache.read_bytes(name)


def store(ground: Ground, epsilon: float, tuning: str, tuned: Tuned) -> None:
    """Keep a tuned kernel for next time."""
    if not _worth_keeping(ground):
        return
    facts = {
        "tuning": tuned.tuning,
        "rate": tuned.rate,
        "certified": tuned.certificate.epsilon,
        "first": tuned.certificate.first,
        "second": tuned.certificate.second,
        "keeps": tuned.keeps,
        "note": tuned.note,
    }
    buffer = io.BytesIO()
    arrays = {"weights": tuned.weights, "facts": np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)}
    if tuned.fill is not None:
        arrays["fill"] = tuned.fill
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    cache.write_bytes(_name(ground, epsilon, tuning), buffer.getvalue())
