"""The guarantee as it is written beside an output.

Nothing in it is computed from the private text but what is public anyway: how many records there are, how many
protected words the longest has (their positions are public), and the digest of the output, which may be seen.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import sfumato
from sfumato.accounting.documents import document_composition
from sfumato.cli.request import Compiled, MechanismRequest
from sfumato.foundation.guarantee import Guarantee, MetricGuarantee
from sfumato.foundation.randomness import RunKey
from sfumato.sanitize import Sanitizer
from sfumato.scale import RunSummary

_COPIED = "all columns that were not named, which are copied as they are"


def released_guarantee(sanitizer: Sanitizer, key: RunKey | None, named: Sequence[str]) -> Guarantee:
    """Return the guarantee of what was written, ``named`` being the columns that were asked for."""
    guarantee = sanitizer.guarantee if key is None else sanitizer.guarantee.with_randomness(key.secure)
    return guarantee.with_public(_COPIED) if named else guarantee


def guarantee_record(
    sanitizer: Sanitizer,
    compiled: Compiled,
    request: MechanismRequest,
    summary: RunSummary,
    columns: Sequence[str],
    text_columns: Sequence[str],
    key: RunKey | None,
    output_sha256: str | None,
) -> dict[str, Any]:
    """Return the content of the guarantee file."""
    guarantee = released_guarantee(sanitizer, key, columns)
    document = document_composition(guarantee, summary.longest_record)
    data = {
        "sfumato": sfumato.__version__,
        "guarantee": _without_none(guarantee.to_json()),
        "document": None if document is None else document.to_json(),
        "records": summary.records,
        "output_sha256": output_sha256,
        "settings": {
            "mechanism": request.mechanism,
            "tuning": {"requested": request.tuning, "used": used_tuning(compiled)},
            "options": {name: _shown(value) for name, value in request.extra_options().items() if name != "tuning"},
            "epsilon": compiled.epsilon,
            "neighbour_loss": compiled.neighbour_loss,
            **({} if compiled.attacker is None else {"attacker": compiled.attacker.to_json()}),
            **_metric_settings(guarantee),
            "space": {
                "name": compiled.space.name,
                "words": len(compiled.space),
                "sha256": compiled.space.digest,
            },
            "oov": sanitizer.oov,
            "case_carried": sanitizer.carry_case,
            "policy": f"kept: {sanitizer.policy.keeps}" if sanitizer.policy.keeps else "every word is protected",
            "columns": list(columns or text_columns),
            "consistency": str(sanitizer.consistency),
            "public_length": sanitizer.public_length,
            "digits": None if sanitizer.digits is None else sanitizer.digits.guarantee.to_json(),
            "identifiers": None if sanitizer.identifiers is None else sanitizer.identifiers.form,
        },
    }
    return _finite(data)  # type: ignore[no-any-return]


def used_tuning(compiled: Compiled) -> str | None:
    """Return the tuning that was found, for mechanisms that have one."""
    tuned = getattr(compiled.mechanism, "tuned", None)
    return None if tuned is None else str(tuned.tuning)


def _shown(value: Any) -> Any:
    """Return an option as it is, or how many words a public list has and which, by their digest."""
    if not isinstance(value, list):
        return value
    return {
        "words": len(value),
        "sha256": hashlib.sha256("\n".join(value).encode("utf-8", "surrogatepass")).hexdigest(),
    }


def _metric_settings(guarantee: Guarantee) -> dict[str, Any]:
    if not isinstance(guarantee, MetricGuarantee):
        return {"certified_epsilon": getattr(guarantee, "certified", None)}
    return {
        "certified_epsilon": guarantee.certified,
        "certified_neighbour_loss": guarantee.neighbour_loss,
        "radius": guarantee.radius,
        "local_epsilon": guarantee.local_epsilon,
    }


def _finite(value: Any) -> Any:
    """Return plain data with null for infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _without_none(data: dict[str, Any]) -> dict[str, Any]:
    """Leave infinite and absent amounts out: reading the guarantee back gives them their defaults, which they are."""
    return {name: value for name, value in data.items() if _finite(value) is not None}
