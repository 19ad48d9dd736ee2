"""Mechanisms that were compiled to a file: offered without compiling, and mapped by every process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")

import sfumato
from sfumato.mechanism.artifact import save
from sfumato.server import handover
from sfumato.server.catalogue import compiled
from sfumato.server.configuration import ConfigurationError, checked


@pytest.fixture
def stored(written: dict[str, Any], tmp_path: Path, space_file: Path) -> str:
    """A compiled mechanism in place of the one that is compiled at the start; its digest."""
    mechanism = sfumato.compile("tem", sfumato.Space.from_file(space_file), epsilon=2.0)
    digest = save(mechanism, tmp_path / "everyday.sfm")
    written["mechanisms"] = {"everyday": {"artifact": "everyday.sfm"}}
    return digest


def test_a_file_is_offered_with_what_it_says(served: Callable[..., Any], written: dict[str, Any], stored: str) -> None:
    client = served(written)
    offered = client.get("/v1/offers").json()["mechanisms"]
    assert [(one["algorithm"], one["epsilons"], one["sound"]) for one in offered] == [("tem", [2.0], True)]
    answer = client.post("/v1/privatize", json={"text": "cold hot", "epsilon": 2}).json()
    assert answer["guarantee"]["epsilon"] == 2.0
    assert client.post("/v1/privatize", json={"text": "cold hot", "epsilon": 3}).status_code == 422
    assert client.get("/v1/audit").json()["verified"] is True


def test_a_worker_maps_the_file_again(written: dict[str, Any], stored: str, tmp_path: Path) -> None:
    settings = checked(written, tmp_path)
    descriptor = handover.written(handover.Handover(settings, compiled(settings), b"s" * 32))
    again = handover.read(descriptor).catalogue()
    mechanism = again.mechanism(again.choose(None, None, None))
    assert mechanism.origin == (str(tmp_path / "everyday.sfm"), stored)
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith("everyday.sfm")]
    assert all(line.split()[1].startswith("r--") for line in mapped)
    assert mapped
    assert mechanism.row("cold").total > 0


def test_what_is_wrong_with_a_file_is_said(written: dict[str, Any], stored: str, tmp_path: Path) -> None:
    (tmp_path / "damaged.sfm").write_bytes(b"nothing of the kind" * 9)
    offered = written["mechanisms"]
    offered["other"] = {"artifact": "everyday.sfm", "digest": "0" * 64}
    offered["said"] = {"artifact": "everyday.sfm", "epsilon": 3.0, "algorithm": "tem"}
    offered["missing"] = {"artifact": "missing.sfm"}
    offered["damaged"] = {"artifact": "damaged.sfm"}
    offered["neither"] = {"epsilon": 3.0}
    with pytest.raises(ConfigurationError) as found:
        checked(written, tmp_path)
    places = {problem.partition(": ")[0] for problem in found.value.problems}
    assert places == {
        "mechanisms.other.digest", "mechanisms.said.epsilon", "mechanisms.said.algorithm",
        "mechanisms.missing.artifact", "mechanisms.damaged.artifact", "mechanisms.neither.algorithm",
    }  # fmt: skip
    written["mechanisms"] = {"everyday": {"artifact": "everyday.sfm", "digest": stored}}
    assert checked(written, tmp_path).mechanisms["everyday"].epsilon == 2.0
